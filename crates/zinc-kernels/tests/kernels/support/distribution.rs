//! Whether draws follow a distribution.

/// The probabilities of the softmax of `logits / temperature`.
pub(crate) fn softmax(logits: &[f32], temperature: f32) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|l| (f64::from(*l) / f64::from(temperature)).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// Pearson's statistic of counts, of which those of outcomes that cannot be must be 0.
pub(crate) fn chi_square(counts: &[usize], probabilities: &[f64]) -> f64 {
    let draws: usize = counts.iter().sum();
    let term = |(&count, &p): (&usize, &f64)| {
        let expected = p * draws as f64;
        if p == 0.0 {
            assert_eq!(count, 0, "an id of probability 0 was drawn");
            return 0.0;
        }
        (count as f64 - expected).powi(2) / expected
    };
    counts.iter().zip(probabilities).map(term).sum()
}
