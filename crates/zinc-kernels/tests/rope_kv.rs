//! `rope_kv` against its reference: both pairings, with and without head normalisation, every cache format.

#![cfg(feature = "vk")]

mod support;

use half::f16;
use support::arena::Array;
use support::data::{Random, live};
use support::{Arena, compare, tolerance};
use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::{CacheFormat, HeadNorm, Pairing, RopeKv};
use zinc_kernels::reference;

const CONTEXT: usize = 7;
const EPSILON: f32 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Norm {
    With,
    Without,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    query_heads: usize,
    kv_heads: usize,
    head_size: usize,
    rotated: usize,
    position: usize,
    pairing: Pairing,
    norm: Norm,
    keys: CacheFormat,
    values: CacheFormat,
}

const PLAIN: Case = Case {
    query_heads: 4,
    kv_heads: 2,
    head_size: 64,
    rotated: 64,
    position: 3,
    pairing: Pairing::Halves,
    norm: Norm::With,
    keys: CacheFormat::F16,
    values: CacheFormat::F16,
};

/// What one token brings.
struct Token {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    q_norm: Vec<f32>,
    k_norm: Vec<f32>,
    /// `[CONTEXT, rotated / 2]` pairs (cos, sin).
    rotation: Vec<[f32; 2]>,
}

impl Token {
    fn random(case: &Case) -> Self {
        let mut random = Random::new(&format!("{case:?}"));
        let Case { query_heads, kv_heads, head_size, .. } = *case;
        Self {
            q: random.vector(query_heads * head_size, 3.0),
            k: random.vector(kv_heads * head_size, 3.0),
            v: random.vector(kv_heads * head_size, 3.0),
            q_norm: random.vector(head_size, 2.0),
            k_norm: random.vector(head_size, 2.0),
            rotation: (0..CONTEXT * case.rotated / 2)
                .map(|_| random.unit() * std::f32::consts::PI)
                .map(|angle| [angle.cos(), angle.sin()])
                .collect(),
        }
    }
}

/// A cache of bytes that no store of this test writes, so that an untouched entry is recognised.
struct Cache {
    format: CacheFormat,
    bytes: Array<u8>,
}

const STALE: u8 = 0xa6;

impl Cache {
    fn new(arena: &mut Arena, format: CacheFormat, width: usize) -> Self {
        Self { format, bytes: arena.in_out(&vec![STALE; CONTEXT * width * format.bytes() as usize]) }
    }

    /// The row at `position` as it reads back; fails if any other row has changed.
    #[track_caller]
    fn row(&self, arena: &Arena, case: &str, position: usize) -> Vec<f32> {
        let bytes = arena.read(self.bytes);
        let row_bytes = bytes.len() / CONTEXT;
        for (index, row) in bytes.chunks(row_bytes).enumerate() {
            assert!(index == position || row.iter().all(|byte| *byte == STALE), "{case}: row {index} was written");
        }
        let row = &bytes[position * row_bytes..(position + 1) * row_bytes];
        match self.format {
            CacheFormat::F32 => support::arena::values(row),
            CacheFormat::F16 => support::arena::values::<f16>(row).into_iter().map(f16::to_f32).collect(),
        }
    }
}

/// The queries and the key and value rows that the device leaves.
fn run(case: &Case, token: &Token) -> [Vec<f32>; 3] {
    let name = format!("{case:?}");
    let width = case.kv_heads * case.head_size;
    let mut arena = Arena::new();
    let q = arena.in_out(&token.q);
    let keys = Cache::new(&mut arena, case.keys, width);
    let values = Cache::new(&mut arena, case.values, width);
    let op = RopeKv {
        state: arena.state(StepState { position: case.position as u32, ..live() }),
        q: q.address,
        k: arena.input(&token.k).address,
        v: arena.input(&token.v).address,
        norm: (case.norm == Norm::With).then(|| HeadNorm {
            q: arena.input(&token.q_norm).address,
            k: arena.input(&token.k_norm).address,
            epsilon: EPSILON,
        }),
        rotation: arena.input(&token.rotation).address,
        key_cache: keys.bytes.address,
        value_cache: values.bytes.address,
        key_format: case.keys,
        value_format: case.values,
        query_heads: case.query_heads as u32,
        kv_heads: case.kv_heads as u32,
        head_size: case.head_size as u32,
        rotated: case.rotated as u32,
        pairing: case.pairing,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let key_row = keys.row(&arena, &name, case.position);
    let value_row = values.row(&arena, &name, case.position);
    [arena.read(q), key_row, value_row]
}

fn check(case: &Case) {
    let name = format!("{case:?}");
    let token = Token::random(case);
    let [q, keys, values] = run(case, &token);

    let pairs = case.rotated / 2;
    let rotation = &token.rotation[case.position * pairs..(case.position + 1) * pairs];
    for (what, found, given, weight, format) in
        [("query", q, &token.q, &token.q_norm, CacheFormat::F32), ("key", keys, &token.k, &token.k_norm, case.keys)]
    {
        for (head, (found, given)) in found.chunks(case.head_size).zip(given.chunks(case.head_size)).enumerate() {
            let norm = (case.norm == Norm::With).then_some((&**weight, EPSILON));
            let mut expected = given.to_vec();
            reference::rope_head(&mut expected, norm, rotation, case.pairing);
            // What a rotated element is relative to: both elements of its pair, before they rotate.
            let mut plain = given.to_vec();
            reference::rope_head(&mut plain, norm, &[], case.pairing);
            let size = plain.iter().fold(0.0f32, |size, x| size.max(x.abs()));
            reference::cache_row(format, &mut expected);
            compare::within(&format!("{name}, {what} head {head}"), found, &expected, |i| {
                let stored = match format {
                    CacheFormat::F32 => 0.0,
                    CacheFormat::F16 => tolerance::half_step(expected[i]),
                };
                tolerance::rotated_head(case.head_size, size) + stored
            });
        }
    }
    let mut expected = token.v.clone();
    reference::cache_row(case.values, &mut expected);
    compare::equal_bits(&format!("{name}, values"), &values, &expected);
}

#[test]
fn head_sizes_and_partial_rotation() {
    for (head_size, rotated) in
        [(32, 32), (64, 64), (80, 80), (80, 32), (96, 24), (128, 128), (128, 64), (256, 256), (512, 128)]
    {
        for pairing in [Pairing::Halves, Pairing::Interleaved] {
            for norm in [Norm::With, Norm::Without] {
                check(&Case { head_size, rotated, pairing, norm, ..PLAIN });
            }
        }
    }
}

#[test]
fn nothing_rotates() {
    check(&Case { rotated: 0, norm: Norm::Without, ..PLAIN });
    check(&Case { rotated: 0, norm: Norm::With, ..PLAIN });
}

#[test]
fn heads_and_positions() {
    for (query_heads, kv_heads) in [(1, 1), (3, 1), (8, 8), (32, 4)] {
        for position in [0, 1, CONTEXT - 1] {
            check(&Case { query_heads, kv_heads, position, ..PLAIN });
        }
    }
}

#[test]
fn cache_formats() {
    for keys in [CacheFormat::F32, CacheFormat::F16] {
        for values in [CacheFormat::F32, CacheFormat::F16] {
            check(&Case { keys, values, ..PLAIN });
        }
    }
}

/// Without rotation and normalisation keys and values are only rounded to halves, which must be what the `half` crate does.
#[test]
fn halves_are_rounded_bit_for_bit() {
    let mut floats = Vec::new();
    // Every half, the middle to the next one, and the floats on both sides of it: ties, subnormals, the step to infinity.
    for bits in (0..0x7c00u16).step_by(7).chain(0..64).chain(0x3f0..0x410).chain(0x7bf0..0x7c00) {
        let half = f16::from_bits(bits).to_f32();
        let next = if bits == 0x7bff { 65_536.0 } else { f16::from_bits(bits + 1).to_f32() };
        let middle = ((f64::from(half) + f64::from(next)) / 2.0) as f32;
        floats.extend([half, middle.next_down(), middle, middle.next_up()]);
    }
    floats.extend([
        f32::INFINITY,
        f32::NAN,
        f32::MAX,
        65_519.996,
        65_520.0,
        1e6,
        f32::MIN_POSITIVE,
        1e-40,
        2.9e-8,
        2.98e-8,
    ]);
    let mut random = Random::new("halves");
    floats.extend((0..4_096).map(|_| f32::from_bits(random.bits() as u32)));
    floats.extend(floats.clone().iter().map(|x| -x));

    let case = Case { query_heads: 1, kv_heads: 8, head_size: 128, rotated: 0, norm: Norm::Without, ..PLAIN };
    let width = case.kv_heads * case.head_size;
    for k in floats.chunks(width) {
        let mut k = k.to_vec();
        k.resize(width, 0.0);
        let token = Token { v: k.iter().rev().copied().collect(), k, ..Token::random(&case) };
        let [_, keys, values] = run(&case, &token);
        for (found, given) in [(keys, &token.k), (values, &token.v)] {
            let mut expected = given.clone();
            reference::cache_row(CacheFormat::F16, &mut expected);
            compare::equal_bits("halves", &found, &expected);
        }
    }
}

/// Quarter turns swap and negate without rounding, so that signs and pairs compare bit for bit.
#[test]
fn quarter_turns_are_exact() {
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        let case = Case {
            pairing,
            norm: Norm::Without,
            keys: CacheFormat::F32,
            values: CacheFormat::F32,
            rotated: 48,
            ..PLAIN
        };
        let turns = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]];
        let rotation = (0..CONTEXT * 24).map(|i| turns[(i * 7 / 3) % 4]).collect();
        let token = Token { rotation, ..Token::random(&case) };
        let [q, keys, _] = run(&case, &token);
        for (found, given) in [(q, &token.q), (keys, &token.k)] {
            let mut expected = given.clone();
            for head in expected.chunks_mut(case.head_size) {
                reference::rope_head(head, None, &token.rotation[case.position * 24..][..24], pairing);
            }
            compare::equal_bits(&format!("{pairing:?}"), &found, &expected);
        }
    }
}
