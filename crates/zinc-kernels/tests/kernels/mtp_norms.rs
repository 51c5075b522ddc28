//! `mtp_norms` against its reference.

use crate::support::data::{Random, live};
use crate::support::operand::EPSILON;
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{MtpNorms, Norm};
use zinc_kernels::reference;
use zinc_kernels::step::StepShape;

fn check(width: usize) {
    let name = format!("{width} wide");
    let (mut random, mut arena) = (Random::new(&name), Arena::new());
    // The hidden vector's part is to be written.
    let mut x = random.vector(width, 3.0);
    x.resize(2 * width, f32::NAN);
    let residual = random.vector(width, 20.0);
    let norms = [1.0, 2.0, 0.5].map(|size| random.vector(width, size));
    let [embedding_norm, head_norm, hidden_norm] = [0, 1, 2].map(|norm: usize| arena.input(&norms[norm]).address);
    let on_device = arena.in_out(&x);
    let op = MtpNorms {
        state: arena.state(live()),
        x: on_device.row(),
        residual: arena.input(&residual).row(),
        embedding_norm,
        head_norm,
        hidden_norm: Norm { weight: hidden_norm, epsilon: EPSILON },
        width: width as u32,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    reference::mtp_norms(&mut x, &residual, [&norms[0], &norms[1], &norms[2]], EPSILON);
    compare::within(&name, &arena.read(on_device), &x, |i| {
        // The second norm of the hidden vector takes in the error of the first.
        let norms = if i < width { 1.0 } else { 2.0 };
        norms * tolerance::rms_norm(width, x[i])
    });
}

#[test]
fn every_width() {
    for width in [32, 64, 256, 288, 2_048, 2_080, 5_120, 8_192] {
        check(width);
    }
}

#[test]
fn rows_of_a_step() {
    for width in [96, 2_048] {
        rows::check(
            &format!("{width} wide"),
            |_| live(),
            |b: &mut Builder| {
                let (x, residual) = (b.vector(Use::InOut, 2 * width), b.vector(Use::Input, width));
                let [embedding_norm, head_norm, hidden_norm] = [(); 3].map(|()| b.shared(width));
                let target = b.arena.gpu.target();
                move |v: &View| {
                    let op = MtpNorms {
                        state: v.state,
                        x: v.own(x),
                        residual: v.own(residual),
                        embedding_norm,
                        head_norm,
                        hidden_norm: Norm { weight: hidden_norm, epsilon: EPSILON },
                        width: width as u32,
                        shape: v.shape,
                    };
                    op.dispatch(&target)
                }
            },
        );
    }
}
