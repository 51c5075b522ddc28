//! Sequences taken through the kernels of a gated delta net, step by step.

use zinc_kernels::ops::{DeltaConv, DeltaHeads, DeltaNet, HeadOrder, PerLane};
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, Row, StepShape, StepState};

use super::Arena;
use super::arena::Array;
use super::data::Random;
use super::many::{self, Output};

/// What recurrent states and what lies between them hold at first: NaN.
const UNTOUCHED: u32 = 0x7fc0_5678;

/// Every size of heads, in both orders, with numbers of heads that do and do not fill workgroups.
pub(crate) const SHAPES: [DeltaHeads; 5] = [
    DeltaHeads { key_heads: 2, value_heads: 6, head_size: 64, order: HeadOrder::Tiled },
    DeltaHeads { key_heads: 2, value_heads: 4, head_size: 128, order: HeadOrder::Grouped },
    DeltaHeads { key_heads: 1, value_heads: 3, head_size: 32, order: HeadOrder::Tiled },
    DeltaHeads { key_heads: 3, value_heads: 9, head_size: 32, order: HeadOrder::Grouped },
    DeltaHeads { key_heads: 1, value_heads: 1, head_size: 256, order: HeadOrder::Grouped },
];

/// What a layer has of its own.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) heads: DeltaHeads,
    /// At most, of a lane in a step.
    pub(crate) drafts: u32,
    /// `[channels, 4]`; none if tokens have what stands behind the convolution.
    pub(crate) taps: Option<Vec<f32>>,
    pub(crate) alpha_bias: Vec<f32>,
    pub(crate) decay: Vec<f32>,
}

impl Layer {
    pub(crate) fn random(random: &mut Random, heads: DeltaHeads, drafts: u32) -> Self {
        let (channels, value_heads) = (heads.channels() as usize, heads.value_heads as usize);
        Self {
            heads,
            drafts,
            taps: Some(random.vector(channels * 4, 1.0)),
            alpha_bias: random.vector(value_heads, 1.0),
            decay: random.vector(value_heads, 1.0).iter().map(|x| x - 1.0).collect(),
        }
    }

    /// The inputs of so many tokens.
    pub(crate) fn tokens(&self, random: &mut Random, count: usize) -> Vec<Token> {
        let (channels, value_heads) = (self.heads.channels() as usize, self.heads.value_heads as usize);
        let mut token = || Token {
            x: random.vector(channels, 2.0),
            beta: random.vector(value_heads, 3.0),
            alpha: random.vector(value_heads, 3.0),
        };
        (0..count).map(|_| token()).collect()
    }

    /// How much of its memory each head keeps when it takes the token, and how much it writes.
    pub(crate) fn gates(&self, token: &Token) -> Vec<[f32; 2]> {
        let head = |h: usize| reference::delta_gates(token.alpha[h], self.alpha_bias[h], self.decay[h], token.beta[h]);
        (0..self.decay.len()).map(head).collect()
    }

    /// Elements of the memories of all heads.
    pub(crate) fn memory_len(&self) -> usize {
        (self.heads.values() * self.heads.head_size) as usize
    }
}

/// What the products before a layer's convolution give for a row.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) x: Vec<f32>,
    pub(crate) beta: Vec<f32>,
    pub(crate) alpha: Vec<f32>,
}

/// The rows of a lane in a step.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) lane: u32,
    pub(crate) position: usize,
    pub(crate) prompt_length: usize,
    /// Empty if the lane's sequence has ended.
    pub(crate) rows: &'a [Token],
}

/// What a row has behind the convolution, and what comes out of the delta rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results {
    pub(crate) mixed: Vec<f32>,
    pub(crate) y: Vec<f32>,
}

impl Results {
    pub(crate) fn bits(&self) -> Vec<u32> {
        self.mixed.iter().chain(&self.y).map(|x| x.to_bits()).collect()
    }
}

/// A layer on the device, with the recurrent states of its lanes, which hold NaN before anything is written.
pub(crate) struct OnDevice {
    pub(crate) layer: Layer,
    arena: Arena,
    lanes: u32,
    taps: u64,
    alpha_bias: u64,
    decay: u64,
    recurrent: Array<u32>,
    stride: u32,
}

impl OnDevice {
    pub(crate) fn new(layer: &Layer, lanes: u32) -> Self {
        let recurrent = vec![UNTOUCHED; (lanes * Self::stride(layer, lanes) / 4) as usize];
        Self::with(layer, lanes, &recurrent)
    }

    /// With this recurrent state of lane `lane`.
    pub(crate) fn with_state(layer: &Layer, lanes: u32, lane: u32, state: &[u32]) -> Self {
        let stride = Self::stride(layer, lanes);
        let mut recurrent = vec![UNTOUCHED; (lanes * stride / 4) as usize];
        recurrent[(lane * stride / 4) as usize..][..state.len()].copy_from_slice(state);
        Self::with(layer, lanes, &recurrent)
    }

    /// Bytes from one lane's recurrent state to the next one's, which nothing may touch.
    fn stride(layer: &Layer, lanes: u32) -> u32 {
        layer.heads.recurrent_bytes(layer.drafts) as u32 + if lanes > 1 { 48 } else { 0 }
    }

    fn with(layer: &Layer, lanes: u32, recurrent: &[u32]) -> Self {
        let mut arena = Arena::new();
        Self {
            taps: layer.taps.as_ref().map_or(0, |taps| arena.input(taps).address),
            alpha_bias: arena.input(&layer.alpha_bias).address,
            decay: arena.input(&layer.decay).address,
            recurrent: arena.in_out(recurrent),
            layer: layer.clone(),
            arena,
            lanes,
            stride: Self::stride(layer, lanes),
        }
    }

    /// Takes the rows of some lanes through the layer. Returns the results of the rows of each part.
    pub(crate) fn step(&self, parts: &[Part<'_>]) -> Vec<Vec<Results>> {
        let tokens: Vec<&Token> = parts.iter().flat_map(|part| part.rows).collect();
        // What a step needs for itself is looked at once, behind it, and the layer's arrays when they are read.
        let mut arena = Arena::new();
        let state = self.state(&mut arena, parts);
        let layer = &self.layer;
        let shape = StepShape::of(tokens.len().max(1) as u32);
        let recurrent = PerLane { address: self.recurrent.address, stride: self.stride };
        let mut operand = |of: fn(&Token) -> &Vec<f32>| {
            let mut rows: Vec<Vec<f32>> = tokens.iter().map(|token| of(token).clone()).collect();
            // A step without rows has operands all the same.
            rows.resize(rows.len().max(1), vec![f32::NAN]);
            many::values(&mut arena, &rows)
        };
        let (x, beta, alpha) = (operand(|t| &t.x), operand(|t| &t.beta), operand(|t| &t.alpha));
        let outputs = [layer.heads.channels(), layer.heads.values()];
        let [mixed, y] = outputs.map(|len| Output::empty(&mut arena, tokens.len().max(1), len as usize));
        let (heads, drafts) = (layer.heads, layer.drafts);
        let conv = DeltaConv { state, x, weights: self.taps, recurrent, y: mixed.operand, heads, drafts, shape };
        let net = DeltaNet {
            state,
            x: if layer.taps.is_some() { mixed.operand } else { x },
            beta,
            alpha,
            alpha_bias: self.alpha_bias,
            decay: self.decay,
            recurrent,
            y: y.operand,
            heads,
            drafts,
            lanes: parts.len() as u32,
            shape,
        };
        let target = arena.gpu.target();
        let launches = [conv.dispatch(&target), net.dispatch(&target)];
        arena.run(&launches[usize::from(layer.taps.is_none())..]);
        let mut mixed = mixed.read(&arena);
        if layer.taps.is_none() {
            mixed.iter_mut().zip(&tokens).for_each(|(mixed, token)| mixed.clone_from(&token.x));
        }
        let mut results = mixed.into_iter().zip(y.read(&arena)).map(|(mixed, y)| Results { mixed, y });
        parts.iter().map(|part| results.by_ref().take(part.rows.len()).collect()).collect()
    }

    fn state(&self, arena: &mut Arena, parts: &[Part<'_>]) -> u64 {
        let mut lanes = vec![Lane::default(); self.lanes as usize];
        let mut state = StepState { lane_count: parts.len() as u32, ..StepState::default() };
        for (part, listed) in parts.iter().zip(&mut state.listed) {
            *listed = part.lane;
            let (first_row, rows) = (state.row_count, part.rows.len() as u32);
            let (position, prompt_length) = (part.position as u32, part.prompt_length as u32);
            lanes[part.lane as usize] = Lane { position, prompt_length, first_row, rows, ..Lane::default() };
            for (offset, row) in (0..rows).zip(&mut state.rows[first_row as usize..]) {
                *row = Row { offset, token: 1, position: position + offset, lane: part.lane };
            }
            state.row_count += rows;
        }
        // The only lane of a model is its states' own.
        match lanes[..] {
            [lane] => state.lane = lane,
            _ => state.lanes = arena.input(&lanes).address,
        }
        arena.state(state)
    }

    /// The recurrent state of a lane, as bits. Nothing may have touched what lies behind it.
    pub(crate) fn recurrent(&self, lane: u32) -> Vec<u32> {
        let all = self.arena.read(self.recurrent);
        let own = &all[(lane * self.stride / 4) as usize..][..self.stride as usize / 4];
        let (state, gap) = own.split_at(self.layer.heads.recurrent_bytes(self.layer.drafts) as usize / 4);
        assert!(gap.iter().all(|word| *word == UNTOUCHED), "what lies behind the recurrent state of lane {lane}");
        state.to_vec()
    }

    /// The memories of a lane's heads.
    pub(crate) fn memories(&self, lane: u32) -> Vec<f32> {
        self.recurrent(lane)[..self.layer.memory_len()].iter().map(|bits| f32::from_bits(*bits)).collect()
    }
}

/// What a sequence of these tokens gives in steps of one row each, and the lane's memories behind it.
pub(crate) fn one_by_one(layer: &Layer, tokens: &[Token]) -> (Vec<Results>, Vec<f32>) {
    let device = OnDevice::new(layer, 1);
    let mut results = Vec::new();
    for (position, _) in tokens.iter().enumerate() {
        let rows = &tokens[position..=position];
        results.extend(device.step(&[Part { lane: 0, position, prompt_length: 0, rows }]).remove(0));
    }
    (results, device.memories(0))
}

/// Fails unless both have the same bits, row by row.
pub(crate) fn assert_equal(name: &str, found: &[Results], expected: &[Results]) {
    assert_eq!(found.len(), expected.len(), "{name}: rows");
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (found.bits(), expected.bits());
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{name}: where row {row} differs");
    }
}
