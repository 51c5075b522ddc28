//! Every tolerance of the kernel tests, with its reason. Whatever is not here compares bit for bit.
//!
//! Bounds are absolute differences between a kernel and its reference, so they cover the rounding of both.

use zinc_kernels::ops::Activation;

/// Half a unit in the last place of a number in [1, 2): the relative error of one rounded operation.
pub(crate) const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// Results below the smallest normal number may be flushed to zero, by one side or both.
pub(crate) const SMALLEST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// A sum of `terms` numbers whose magnitudes add up to `magnitude`, in any order.
///
/// Each addition rounds by at most [`ROUNDING`] of its partial sum, which is at most `magnitude`. The errors of n additions are
/// independent, so they grow as the square root of n; 2 covers both sides and the products' own rounding. For 2,048 terms this is 5e-6 of
/// the magnitude, and one missing or wrong term of average size is 5e-4. Each term may be flushed.
pub(crate) fn sum(terms: usize, magnitude: f64) -> f64 {
    2.0 * (terms as f64).sqrt() * ROUNDING * magnitude + terms as f64 * SMALLEST_NORMAL
}

/// Relative error of `exp(x)`: Vulkan allows 3 + 2 |x| units in the last place.
pub(crate) fn exp(x: f64) -> f64 {
    (3.0 + 2.0 * x.abs()) * 2.0 * ROUNDING
}

/// One element of a root-mean-square normalisation of `columns` elements.
///
/// The sum of squares is off by [`sum`] of itself, which the root halves. Vulkan allows 2 units for the inverse root, 2.5 for each of the
/// two divisions; the two products round once each.
pub(crate) fn rms_norm(columns: usize, value: f32) -> f64 {
    let relative = sum(columns, 1.0) / 2.0 + 2.0 * (2.0 + 2.5 + 2.5 + 2.0) * ROUNDING;
    relative * f64::from(value.abs()) + SMALLEST_NORMAL
}

/// An element of a head that was normalised and rotated; `size` is the largest magnitude in the head before the rotation.
///
/// A rotated element is a sum of two products with cosine and sine, each at most `size`, three roundings on each side.
pub(crate) fn rotated_head(head_size: usize, size: f32) -> f64 {
    2.0 * (rms_norm(head_size, size) + 3.0 * ROUNDING * f64::from(size))
}

/// What a difference before rounding to a half can become after it: one step between halves, 2^-10 of the value or 2^-24.
pub(crate) fn half_step(value: f32) -> f64 {
    (f64::from(value.abs()) / 1_024.0).max(1.0 / f64::from(1 << 24))
}

/// The score of a query with keys of magnitude at most `key_size`: a dot product, scaled by the root of the head size.
pub(crate) fn attention_score(q: &[f32], key_size: f32) -> f64 {
    let magnitude: f64 = q.iter().map(|q| f64::from(q.abs() * key_size)).sum();
    sum(q.len(), magnitude) / (q.len() as f64).sqrt()
}

/// Sums of softmax weights, and of values of magnitude 1 under them, over `count` positions whose scores are off by `score_error`, relative
/// to the sum of the weights.
///
/// A weight is exp(score - maximum), and both may be off. Under a softmax over n positions the mean of |score - maximum| is at most ln n
/// (its entropy is), which bounds the mean error of the exponentials; there are up to four on the way: a weight's own, that of a later
/// tile's new maximum, that of the merge, and the reference's.
pub(crate) fn attention(count: usize, score_error: f64) -> f64 {
    let count = count.max(1);
    (2.0 * score_error).exp_m1() + 4.0 * exp((count as f64).ln()) + sum(count, 1.0)
}

/// A softmax weight whose score is `below` the highest, of `count`: the exponential, the sum of exponentials, a division of 2.5 units.
///
/// Equal logits make equal terms, whose rounding errors agree in sign, so the sum counts [`ROUNDING`] for every term. For 1,024 experts that
/// is 6e-5 of the sum; a missing term of average size is 1e-3.
pub(crate) fn softmax_weight(weight: f32, below: f64, count: usize) -> f64 {
    let relative = exp(below) + exp((count as f64).ln()) + count as f64 * ROUNDING + 2.0 * 2.5 * ROUNDING;
    relative * f64::from(weight) + SMALLEST_NORMAL
}

/// What an activation makes of a gate and another product that are off by `gate_error` and `up_error`.
pub(crate) fn activated(activation: Activation, (gate, gate_error): (f32, f64), (up, up_error): (f32, f64)) -> f64 {
    match activation {
        Activation::SwiGlu => gate_up(gate, gate_error, up, up_error),
        Activation::ClampedSwiGlu => clamped_gate_up(gate, gate_error, up, up_error),
    }
}

/// `gate * sigmoid(1.702 gate) * (up + 1)`, clamped before, where the two are off by `gate_error` and `up_error`, which clamping makes no larger.
///
/// The slope of the first factor is that of silu, at most 1.1. Its arithmetic is that of [`gate_up`], with an argument of the exponential that
/// is rounded once more; and `up + 1` is rounded. Where the exponential may overflow on one side, the other side is below 60 * 8 / 2^126.
fn clamped_gate_up(gate: f32, gate_error: f64, up: f32, up_error: f64) -> f64 {
    let (gate, up) = (f64::from(gate.min(7.0)), f64::from(up.clamp(-7.0, 7.0)));
    let argument = 1.702 * gate;
    let gated = gate / (1.0 + (-argument).exp());
    let gated_error = 1.1 * gate_error + gated.abs() * (exp(argument) + 2.0 * (argument.abs() + 5.0) * ROUNDING);
    let (factor, factor_error) = ((up + 1.0).abs(), up_error + 2.0 * ROUNDING * (up + 1.0).abs());
    let overflow = if argument < -88.0 { 60.0 * 8.0 / 2.0f64.powi(126) } else { 0.0 };
    gated_error * (factor + factor_error) + gated.abs() * factor_error + overflow + SMALLEST_NORMAL
}

/// `silu(gate) * up` where the two are off by `gate_error` and `up_error`.
///
/// The slope of silu is at most 1.1 and its magnitude at most that of its argument. Its own arithmetic is an exponential and a division
/// of 2.5 units; the exponential of a large negative argument hardly counts, because then it divides by it: where it is above 1, its relative
/// error is the result's.
pub(crate) fn gate_up(gate: f32, gate_error: f64, up: f32, up_error: f64) -> f64 {
    let (gate, up) = (f64::from(gate), f64::from(up));
    let silu = gate / (1.0 + (-gate).exp());
    let silu_error = 1.1 * gate_error + silu.abs() * (exp(gate) + 2.0 * 4.0 * ROUNDING);
    silu_error * (up.abs() + up_error) + silu.abs() * up_error + SMALLEST_NORMAL
}

/// `sigmoid(gate) * x` where `x` is off by `error`.
///
/// The sigmoid is an exponential, which counts as much as it is of the sum that is divided by, and a division of 2.5 units.
pub(crate) fn opened(gate: f32, x: f32, error: f64) -> f64 {
    let (gate, x) = (f64::from(gate), f64::from(x));
    let sigmoid = 1.0 / (1.0 + (-gate).exp());
    sigmoid * ((exp(gate) * (1.0 - sigmoid) + 2.0 * 4.0 * ROUNDING) * (x.abs() + error) + error) + SMALLEST_NORMAL
}

/// What the gates of a delta net are off by, together: the share of a memory that is kept, relative to it, and the share of a change that is written.
///
/// The logarithm of softplus is off by 2^-21 between a half and two, and elsewhere by three units, and the exponential in it counts relative to the
/// whole argument of the logarithm. The sigmoid has an exponential, which is divided by where it is large, and a division of 2.5 units.
pub(crate) fn delta_gates(alpha: f32, bias: f32, decay: f32, beta: f32) -> f64 {
    let (x, decay) = (f64::from(alpha + bias), f64::from(decay));
    let softplus = (1.0 + x.exp()).ln();
    let log = 2.0f64.powi(-21) + 6.0 * ROUNDING * softplus;
    let kept = decay.abs() * (exp(x) + 2.0 * log + 2.0 * ROUNDING) + exp(decay * softplus);
    kept + exp(f64::from(beta)) + 2.0 * 4.0 * ROUNDING
}

/// What one row adds to the error of a column of a memory, beside that of the gates, relative to the longest column or value of a sequence.
///
/// The products with a key of length 1 are sums over the head, twice; the length of the key is a sum, a root of 2 units and a division of 2.5, twice;
/// six further roundings. A row shortens what columns were off by before, so that errors add up over rows.
pub(crate) fn delta_row(head_size: usize) -> f64 {
    2.0 * sum(head_size, 1.0) + 2.0 * length(head_size) + 2.0 * 6.0 * ROUNDING
}

/// What a result is off by where columns are off by `error`: the query has the length `1 / sqrt(head_size)`.
pub(crate) fn delta_result(head_size: usize, error: f64) -> f64 {
    (error + sum(head_size, 1.0) + length(head_size) + 4.0 * ROUNDING) / (head_size as f64).sqrt()
}

/// The inverse length of a vector, relative to it.
fn length(head_size: usize) -> f64 {
    sum(head_size, 1.0) / 2.0 + 2.0 * (2.0 + 2.5) * ROUNDING
}
