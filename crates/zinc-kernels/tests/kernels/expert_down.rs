//! `expert_down` against its reference.

use crate::support::data::{Random, Scales, device_rows, host, live, weights, widths};
use crate::support::operand::{self, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare};
use zinc_kernels::ops::{ActFormat, ExpertDown, Input, Matrix};
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
}

const PLAIN: Case =
    Case { format: Format::Q8_0, rows: 37, columns: 96, experts: 6, ids: &[5, 0, 3, 3], scales: Scales::Sane };

/// What the kernel makes of `residual`, with `experts` stacked matrices whose blocks are `bytes`.
fn run(
    mut arena: Arena,
    case: &Case,
    bytes: &[u8],
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
        bias: None,
        ids: arena.input(ids).row(),
        weights: arena.input(shares).row(),
        h,
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
    let &Case { format, rows, columns, experts, ids, scales } = case;
    let mut random = Random::new(&name);
    let bytes = weights(&mut random, format, experts * rows, columns, scales);
    let (h, shares, residual) =
        (random.vector(ids.len() * columns, sizes), random.vector(ids.len(), 1.0), random.vector(rows, sizes));
    let mut arena = Arena::new();
    let rounded: Vec<Q14> = h.chunks(columns).map(Q14::new).collect();
    let input = match source {
        Source::Rounded => {
            Input::Rounded(arena.input(&rounded.iter().flat_map(|x| x.bytes(false)).collect::<Vec<u8>>()).row())
        }
        _ => Input::Floats(arena.input(&h).row()),
    };
    let found = run(arena, case, &bytes, &shares, (act, input), &residual, target);

    let mut expected = residual;
    if act == ActFormat::F32 {
        reference::expert_down(&host(format, columns, &bytes), None, ids, &shares, &h, &mut expected);
        compare::equal_bits_or_flushed(&name, &found, &expected, ids.len() * columns);
        return;
    }
    let row_bytes = format.row_bytes(columns);
    for (row, y) in expected.iter_mut().enumerate() {
        let products = ids.iter().zip(&rounded).map(|(&id, h)| {
            let row = &bytes[(id as usize * rows + row) * row_bytes..][..row_bytes];
            reference::quantised_product(format, row, h)
        });
        let shares = products.zip(&shares).map(|(product, share)| share * product);
        *y += shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
    }
    compare::equal_bits(&name, &found, &expected);
}

const FLOATS: (ActFormat, Source) = (ActFormat::F32, Source::Floats);

#[test]
fn experts_in_any_order() {
    let target = Arena::new().gpu.target();
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 2, 2], &[5, 4, 3, 2, 1, 0, 5, 4]] {
        for rows in [1, 3, 4, 37, 130] {
            check(&Case { ids, rows, ..PLAIN }, FLOATS, 1.0, &target);
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
            check(&Case { format, columns: 768, ..PLAIN }, (act, Source::Floats), 1.0, &target);
        }
    }
}

/// Each row has chosen experts of its own.
#[test]
fn rows_of_a_step() {
    let (experts, slots) = (6, 3);
    for act in [ActFormat::Q14, ActFormat::F32] {
        rows::check(
            &format!("{act:?}"),
            |_| live(),
            |b: &mut Builder| {
                let down = b.matrix(Format::Q6K, experts, 37, 256);
                let ids = b.operand(Use::Input, |random| (0..slots).map(|_| random.below(experts) as u32).collect());
                let weights = b.vector(Use::Input, slots);
                let h = b.vector(Use::Input, slots * 256);
                let y = b.vector(Use::InOut, 37);
                let target = b.arena.gpu.target();
                move |v: &View| {
                    ExpertDown {
                        state: v.state,
                        down,
                        bias: None,
                        experts: experts as u32,
                        ids: v.own(ids),
                        weights: v.own(weights),
                        h: Input::Floats(v.own(h)),
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
            for (scales, size) in [(Scales::Sane, 1.0), (Scales::Odd, 1e-3), (Scales::Sane, 1e-20)] {
                check(&Case { format, columns, ids, scales, ..PLAIN }, (act, source), size, &target);
            }
        }
    }
}
