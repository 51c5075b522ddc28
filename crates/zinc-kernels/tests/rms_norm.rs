//! `rms_norm` against its reference.

#![cfg(feature = "vk")]

mod support;

use support::data::{Random, live};
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::RmsNorm;
use zinc_kernels::reference;

struct Case {
    name: &'static str,
    columns: usize,
    /// Magnitude of the input.
    size: f32,
    epsilon: f32,
}

const CASES: &[Case] = &[
    Case { name: "one element", columns: 1, size: 1.0, epsilon: 1e-6 },
    Case { name: "fewer elements than lanes", columns: 5, size: 1.0, epsilon: 1e-6 },
    Case { name: "one unit", columns: 32, size: 1.0, epsilon: 1e-6 },
    Case { name: "an odd number", columns: 255, size: 1.0, epsilon: 1e-5 },
    Case { name: "as many as threads", columns: 256, size: 1.0, epsilon: 1e-5 },
    Case { name: "one more than threads", columns: 257, size: 1.0, epsilon: 1e-5 },
    Case { name: "a model's width", columns: 2_048, size: 10.0, epsilon: 1e-6 },
    Case { name: "a large model's width", columns: 8_192, size: 10.0, epsilon: 1e-6 },
    Case { name: "large values", columns: 768, size: 1e15, epsilon: 1e-6 },
    Case { name: "values below epsilon", columns: 768, size: 1e-6, epsilon: 1e-5 },
    Case { name: "zeros", columns: 64, size: 0.0, epsilon: 1e-6 },
];

fn check(case: &Case, place: Place) {
    let name = format!("{}, {place:?}", case.name);
    let mut random = Random::new(case.name);
    let x = random.vector(case.columns, case.size);
    let weight = random.vector(case.columns, 2.0);

    let mut arena = Arena::new();
    let state = arena.state(live());
    let (x_on_device, y) = match place {
        Place::Apart => (arena.input(&x), arena.output(case.columns)),
        Place::OverX => {
            let both = arena.in_out(&x);
            (both, both)
        }
    };
    let op = RmsNorm {
        state,
        x: x_on_device.address,
        weight: arena.input(&weight).address,
        y: y.address,
        columns: case.columns as u32,
        epsilon: case.epsilon,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let mut expected = vec![f32::NAN; case.columns];
    reference::rms_norm(&x, &weight, case.epsilon, &mut expected);
    compare::within(&name, &arena.read(y), &expected, |i| tolerance::rms_norm(case.columns, expected[i]));
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Apart,
    OverX,
}

#[test]
fn the_table() {
    for case in CASES {
        check(case, Place::Apart);
        check(case, Place::OverX);
    }
}
