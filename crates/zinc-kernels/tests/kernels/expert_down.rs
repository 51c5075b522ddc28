//! `expert_down` against its reference.

use crate::support::data::{Random, Scales, device_rows, host, in_turn, live, weights, widths};
use crate::support::operand::{self, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::sigmoids::sigmoids;
use crate::support::{Arena, compare};
use zinc_kernels::ops::{ActFormat, ExpertDown, Input, Matrix, SharedExpert};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::StepShape;
use zinc_kernels::{Format, Target, Tuning};

#[derive(Clone, Copy, Debug)]
struct Case {
    format: Format,
    rows: usize,
    columns: usize,
    experts: usize,
    ids: &'static [u32],
    scales: Scales,
    biased: bool,
    shared: bool,
}

const PLAIN: Case = Case {
    format: Format::Q8_0,
    rows: 37,
    columns: 96,
    experts: 6,
    ids: &[5, 0, 3, 3],
    scales: Scales::Sane,
    biased: false,
    shared: false,
};

/// What is added to the chosen experts' products.
#[derive(Clone, Copy)]
struct Added<'a> {
    /// `[experts, rows]`.
    bias: Option<&'a [f32]>,
    /// What a shared expert gives, `[rows]`, and the logit of its gate.
    shared: Option<(&'a [f32], f32)>,
}

/// What the kernel makes of `residual`, with `experts` stacked matrices whose blocks are `bytes`.
fn run(
    mut arena: Arena,
    case: &Case,
    (bytes, Added { bias, shared }): (&[u8], Added<'_>),
    shares: &[f32],
    (act, h): (ActFormat, Input),
    residual: &[f32],
    target: &Target,
) -> Vec<f32> {
    let &Case { format, rows, columns, experts, ids, .. } = case;
    let y = arena.in_out(residual);
    let down = Matrix {
        address: arena.input(&device_rows(format, columns, bytes)).address,
        format,
        rows: rows as u32,
        columns: columns as u32,
    };
    let op = ExpertDown {
        state: arena.state(live()),
        down,
        bias: bias.map(|bias| arena.input(bias).address),
        ids: arena.input(ids).row(),
        weights: arena.input(shares).row(),
        h,
        shared: shared.map(|(y, logit)| SharedExpert { y: arena.input(y).row(), logit: arena.input(&[logit]).row() }),
        act,
        experts: experts as u32,
        y: y.row(),
        slots: ids.len() as u32,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    arena.read(y)
}

/// The result is the reference's, to the bit.
fn check(case: &Case, (act, source): (ActFormat, Source), sizes: f32, target: &Target) {
    let name = format!("{case:?}, {act:?}, {source:?}, sizes {sizes:e}, {:?}", target.tuning);
    let &Case { format, rows, columns, experts, ids, scales, biased, shared } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (h, shares, residual) =
        (random.vector(ids.len() * columns, sizes), random.vector(ids.len(), 1.0), random.vector(rows, sizes));
    let bias = biased.then(|| random.vector(experts * rows, sizes));
    let bias = bias.as_deref();
    let (of_shared, logit) = (random.vector(rows, sizes), random.unit() * 4.0);
    let opened = if shared { sigmoids(&[logit])[0] } else { f32::NAN };
    let expected_share = shared.then_some(reference::SharedExpert { y: &of_shared, opened });
    let added = Added { bias, shared: shared.then_some((&of_shared[..], logit)) };
    let mut arena = Arena::new();
    let rounded: Vec<Q14> = h.chunks(columns).map(Q14::new).collect();
    let input = match source {
        Source::Rounded => {
            Input::Rounded(arena.input(&rounded.iter().flat_map(|x| x.bytes(false)).collect::<Vec<u8>>()).row())
        }
        _ => Input::Floats(arena.input(&h).row()),
    };
    let found = run(arena, case, (&bytes, added), &shares, (act, input), &residual, target);

    let mut expected = residual;
    if act == ActFormat::F32 {
        reference::expert_down(&host(format, columns, &bytes), bias, ids, &shares, &h, expected_share, &mut expected);
        compare::equal_bits_or_flushed(&name, &found, &expected, ids.len() * columns);
        return;
    }
    let row_bytes = format.row_bytes(columns);
    for (row, y) in expected.iter_mut().enumerate() {
        let products = ids.iter().zip(&rounded).map(|(&id, h)| {
            let at = id as usize * rows + row;
            let product = reference::quantised_product(format, &bytes[at * row_bytes..][..row_bytes], h);
            bias.map_or(product, |bias| product + bias[at])
        });
        let shares = products.zip(&shares).map(|(product, share)| share * product);
        let sum = shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
        *y += expected_share.map_or(sum, |shared| sum + shared.opened * shared.y[row]);
    }
    compare::equal_bits(&name, &found, &expected);
}

const FLOATS: (ActFormat, Source) = (ActFormat::F32, Source::Floats);

#[test]
fn experts_in_any_order() {
    let target = Arena::new().gpu.target();
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 2, 2], &[5, 4, 3, 2, 1, 0, 5, 4]] {
        for rows in [1, 3, 4, 37, 130] {
            for (biased, shared) in [(false, false), (true, false), (false, true), (true, true)] {
                check(&Case { ids, rows, biased, shared, ..PLAIN }, FLOATS, 1.0, &target);
            }
        }
    }
}

/// However many subgroups a workgroup has and however much a lane loads beforehand.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (expert_down_width, expert_quarters_ahead) in [(1, 1), (4, 2), (8, 3), (16, 4)] {
        let tuning = Tuning { expert_down_width, expert_quarters_ahead, ..target.tuning };
        let target = Target { tuning, ..target };
        for (format, act) in
            [(Format::Q8_0, ActFormat::Q14), (Format::Q6K, ActFormat::F32), (Format::F16, ActFormat::F32)]
        {
            let case = Case { format, columns: 768, biased: true, shared: true, ..PLAIN };
            check(&case, (act, Source::Floats), 1.0, &target);
        }
    }
}

/// Each row has chosen experts of its own.
#[test]
fn rows_of_a_step() {
    let (experts, slots) = (6, 3);
    for (act, biased, shared) in [
        (ActFormat::Q14, false, false),
        (ActFormat::F32, false, true),
        (ActFormat::Q14, true, true),
        (ActFormat::F32, true, false),
    ] {
        rows::check(
            &format!("{act:?}, biased: {biased}, shared: {shared}"),
            |_| live(),
            |b: &mut Builder| {
                let down = b.matrix(Format::Q6K, experts, 37, 256);
                let bias = biased.then(|| b.shared(experts * 37));
                let ids = b.operand(Use::Input, |random| (0..slots).map(|_| random.below(experts) as u32).collect());
                let weights = b.vector(Use::Input, slots);
                let h = b.vector(Use::Input, slots * 256);
                let shared = shared.then(|| (b.vector(Use::Input, 37), b.vector(Use::Input, 1)));
                let y = b.vector(Use::InOut, 37);
                let target = b.arena.gpu.target();
                move |v: &View| {
                    ExpertDown {
                        state: v.state,
                        down,
                        bias,
                        experts: experts as u32,
                        ids: v.own(ids),
                        weights: v.own(weights),
                        h: Input::Floats(v.own(h)),
                        shared: shared.map(|(y, logit)| SharedExpert { y: v.own(y), logit: v.own(logit) }),
                        act,
                        y: v.own(y),
                        slots: slots as u32,
                        shape: v.shape,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}

#[test]
fn every_format_and_form() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let cases = widths(format, &[32, 96, 256, 288, 768], operand::forms(format));
        for (case, (columns, act)) in cases.into_iter().enumerate() {
            let ids: &[u32] = [&[5, 0][..], &[5, 0, 3, 3], &[1], &[5, 4, 1], &[2, 3, 1, 0, 4]][(turn + case / 2) % 5];
            let rounded = act == ActFormat::Q14 && (turn + case / 2) % 2 == 1;
            let source = if rounded { Source::Rounded } else { Source::Floats };
            let shared = (turn + case / 2) % 3 == 0;
            for &biased in in_turn(&[false, true], turn + case / 2) {
                for (scales, size) in [(Scales::Sane, 1.0), (Scales::Odd, 1e-3), (Scales::Sane, 1e-20)] {
                    check(
                        &Case { format, columns, ids, scales, biased, shared, ..PLAIN },
                        (act, source),
                        size,
                        &target,
                    );
                }
            }
        }
    }
}

/// As gpt-oss has them: experts in MXFP4, or in BF16, of 2,880 columns, of which the last group has 64, with biases; and fewer such columns.
#[test]
fn a_last_group_of_64() {
    let target = Arena::new().gpu.target();
    for format in [Format::MXFP4, Format::BF16, Format::Q8_0] {
        for &act in operand::forms(format) {
            for columns in [320, 2_880] {
                let source = if act == ActFormat::F32 { Source::Floats } else { Source::Rounded };
                check(&Case { format, columns, biased: true, ..PLAIN }, (act, source), 1.0, &target);
            }
        }
    }
}
