//! A layer with a gated delta net, of a small model, against float64 values that another program has computed: on the host with the references alone,
//! and by the kernels. `tests/data/arch/make_delta_layer.py` says what is in the files.

use std::path::Path;

use half::f16;
use zinc_kernels::Format;
use zinc_kernels::ops::{ActFormat, DeltaHeads, HeadGate, HeadOrder, Norm, Opening};
use zinc_kernels::reference::{self, HostMatrix};
use zinc_kernels::step::StepShape;

use crate::support::arena::values;
use crate::support::delta::{Layer, OnDevice, Part, Token};
use crate::support::many::{self, Output};
use crate::support::{Arena, compare};

const HEADS: DeltaHeads = DeltaHeads { key_heads: 2, value_heads: 6, head_size: 64, order: HeadOrder::Tiled };

/// The arrays of the layer.
struct Golden {
    index: serde_json::Value,
    bytes: Vec<u8>,
}

impl Golden {
    fn read() -> Self {
        let read = |name: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/arch").join(name);
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let index = serde_json::from_slice(&read("delta_layer.json")).expect("an index of arrays");
        Self { index, bytes: read("delta_layer.bin") }
    }

    fn rows(&self) -> usize {
        self.index["rows"].as_u64().expect("the number of rows") as usize
    }

    fn epsilon(&self) -> f32 {
        self.index["epsilon"].as_f64().expect("the epsilon of norms") as f32
    }

    /// The bytes of an array, and the sizes of its dimensions.
    fn array(&self, name: &str, kind: &str) -> (&[u8], Vec<usize>) {
        let arrays = self.index["arrays"].as_array().expect("arrays");
        let found = arrays.iter().find(|array| array["name"] == name).unwrap_or_else(|| panic!("no array {name}"));
        assert_eq!(found["type"], kind, "{name}");
        let shape = found["shape"].as_array().expect("a shape").iter();
        let shape: Vec<usize> = shape.map(|size| size.as_u64().expect("a size") as usize).collect();
        let element = if kind == "f32" { size_of::<f32>() } else { size_of::<f16>() };
        let offset = found["offset"].as_u64().expect("an offset") as usize;
        (&self.bytes[offset..offset + shape.iter().product::<usize>() * element], shape)
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        values(self.array(name, "f32").0)
    }

    /// The vectors of the layer's tokens.
    fn vectors(&self, name: &str) -> Vec<Vec<f32>> {
        let floats = self.floats(name);
        floats.chunks_exact(floats.len() / self.rows()).map(<[f32]>::to_vec).collect()
    }

    /// The products of a matrix with a vector.
    fn products(&self, name: &str, x: &[f32]) -> Vec<f32> {
        let (bytes, shape) = self.array(name, "f16");
        let matrix = HostMatrix { format: Format::F16, columns: shape[1], bytes };
        let mut y = vec![f32::NAN; shape[0]];
        reference::mat_vec(&matrix, x, &mut y);
        y
    }

    fn layer(&self) -> Layer {
        Layer {
            heads: HEADS,
            drafts: 0,
            taps: Some(self.floats("ssm_conv1d")),
            alpha_bias: self.floats("ssm_dt"),
            decay: self.floats("ssm_a"),
        }
    }
}

/// Fails unless f32 values are close to the layer's. A value is a few roundings of 6e-8 off, relative to itself and to numbers of about 1; sums of
/// 128 and 384 products, and the rows before, add to that: 2e-6 is thirty roundings. A head in the place of another, or a scale forgotten, is off by
/// more than 1e-2.
#[track_caller]
fn close(case: &str, found: &[f32], expected: &[f32]) {
    compare::within(case, found, expected, |i| 2e-6 * (1.0 + f64::from(expected[i].abs())));
}

/// The whole layer in f32 by the references.
#[test]
fn the_references_make_up_the_layer() {
    let golden = Golden::read();
    let (layer, epsilon) = (golden.layer(), golden.epsilon());
    let taps = golden.floats("ssm_conv1d");
    let (norm, head_norm) = (golden.floats("attn_norm"), golden.floats("ssm_norm"));
    let expected = ["qkv", "mixed", "results", "gated", "y"].map(|name| golden.vectors(name));
    let mut memories = vec![0.0; layer.memory_len()];
    let mut columns = vec![vec![0.0; HEADS.channels() as usize]; 3];
    for (row, x) in golden.vectors("x").iter().enumerate() {
        let mut h = vec![f32::NAN; x.len()];
        reference::rms_norm(x, &norm, epsilon, &mut h);
        let [qkv, z, beta, alpha] =
            ["attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha"].map(|name| golden.products(name, &h));
        columns.push(qkv);
        let window: Vec<&[f32]> = columns[row..].iter().map(Vec::as_slice).collect();
        let mut mixed = vec![f32::NAN; HEADS.channels() as usize];
        reference::delta_conv([window[0], window[1], window[2], window[3]], &taps, &mut mixed);
        let token = Token { x: mixed, beta, alpha };
        let mut results = vec![f32::NAN; HEADS.values() as usize];
        reference::delta_net(&HEADS, &mut memories, &token.x, &layer.gates(&token), &mut results);
        let mut gated = vec![f32::NAN; results.len()];
        let heads = gated.chunks_exact_mut(64).zip(results.chunks_exact(64)).zip(z.chunks_exact(64));
        let norm = Some((&head_norm[..], epsilon));
        heads.for_each(|((gated, x), z)| reference::head_gate(x, z, norm, Opening::Silu, gated));
        let out = golden.products("ssm_out", &gated);
        let y: Vec<f32> = x.iter().zip(&out).map(|(x, out)| x + out).collect();
        for (expected, found) in expected.iter().zip([&columns[row + 3], &token.x, &results, &gated, &y]) {
            close(&format!("row {row}"), found, &expected[row]);
        }
    }
    close("memories", &memories, &golden.floats("memory"));
}

/// The kernels, from the products on that come before them.
#[test]
fn the_kernels_make_up_the_layer() {
    let golden = Golden::read();
    let layer = golden.layer();
    let (x, z) = (golden.vectors("qkv"), golden.vectors("z"));
    let inputs = x.into_iter().zip(golden.vectors("beta")).zip(golden.vectors("alpha"));
    let tokens: Vec<Token> = inputs.map(|((x, beta), alpha)| Token { x, beta, alpha }).collect();
    let device = OnDevice::new(&layer, 1);
    let found = device.step(&[Part { lane: 0, position: 0, prompt_length: tokens.len(), rows: &tokens }]).remove(0);
    let [mixed, results, gated] = ["mixed", "results", "gated"].map(|name| golden.vectors(name));
    for (row, found) in found.iter().enumerate() {
        close(&format!("row {row} behind the convolution"), &found.mixed, &mixed[row]);
        close(&format!("results of row {row}"), &found.y, &results[row]);
    }
    close("memories", &device.memories(0), &golden.floats("memory"));

    let mut arena = Arena::new();
    let results: Vec<Vec<f32>> = found.into_iter().map(|results| results.y).collect();
    let y = Output::empty(&mut arena, results.len(), HEADS.values() as usize);
    let op = HeadGate {
        state: arena.state(many::listed(results.len())),
        x: many::values(&mut arena, &results),
        gate: many::values(&mut arena, &z),
        norm: Some(Norm { weight: arena.input(&golden.floats("ssm_norm")).address, epsilon: golden.epsilon() }),
        opening: Opening::Silu,
        y: y.operand,
        heads: HEADS.value_heads,
        head_size: HEADS.head_size,
        act: ActFormat::F32,
        ordered: false,
        shape: StepShape::of(results.len() as u32),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    for (row, found) in y.read(&arena).iter().enumerate() {
        close(&format!("row {row} behind the gate"), found, &gated[row]);
    }
}
