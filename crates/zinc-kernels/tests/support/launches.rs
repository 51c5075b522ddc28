//! One launch of every kernel, for the properties that all kernels share.

use zinc_kernels::generated::state::{StepReport, StepState};
use zinc_kernels::ops::{
    Advance, Attention, AttentionMerge, CacheFormat, Epilogue, ExpertDown, GateUp, Gather, HeadNorm, MatVec, Matrix,
    Pairing, RmsNorm, RopeKv, Router, Routing, Sample, Weighting, candidate_count,
};
use zinc_kernels::reference::Candidate;
use zinc_kernels::{Dispatch, Format};

use super::arena::{Arena, Array};
use super::data::{Random, Scales, weights};

/// A launch with its arrays.
pub struct Launch {
    pub name: &'static str,
    pub arena: Arena,
    pub dispatch: Dispatch,
}

const ROWS: u32 = 131;
const COLUMNS: u32 = 512;
const SLOTS: u32 = 3;
const EXPERTS: u32 = 4;
const HEAD: u32 = 64;
const QUERY_HEADS: u32 = 4;
const KV_HEADS: u32 = 2;
const CONTEXT: u32 = 300;
const SPLITS: u32 = 3;
const VOCABULARY: u32 = 5_000;

/// What a launch is built from: its arrays, its numbers, the address of its step state.
struct Builder {
    arena: Arena,
    random: Random,
    state: u64,
}

impl Builder {
    fn vector(&mut self, len: u32) -> u64 {
        self.arena.input(&self.random.vector(len as usize, 1.0)).address
    }

    fn residual(&mut self, len: u32) -> u64 {
        self.arena.in_out(&self.random.vector(len as usize, 1.0)).address
    }

    fn output(&mut self, len: u32) -> u64 {
        self.arena.output::<f32>(len as usize).address
    }

    fn words(&mut self, words: &[u32]) -> u64 {
        self.arena.input(words).address
    }

    fn matrix(&mut self, format: Format, experts: u32) -> Matrix {
        let bytes = weights(&mut self.random, format, (experts * ROWS) as usize, COLUMNS as usize, Scales::Sane);
        Matrix { address: self.arena.input(&bytes).address, format, rows: ROWS, columns: COLUMNS }
    }
}

/// One launch of every kernel, two where a kernel updates in place in one of its forms. Each step is at a token, a position and a
/// temperature that the arrays allow for, with the live flag of `live`.
pub fn every_kernel(live: u32) -> Vec<Launch> {
    let state = StepState {
        live,
        token: 100,
        position: CONTEXT - 20,
        prompt_length: 10,
        budget: 50,
        context_length: CONTEXT,
        inverse_temperature: 1.25,
        seed_low: 3,
        sequence: 7,
        ..StepState::default()
    };
    let launch = |name: &'static str, make: &dyn Fn(&mut Builder) -> Dispatch| {
        let mut arena = Arena::new();
        // Only `advance` may write the state.
        let address = if name == "advance" { arena.in_out(&[state]).address } else { arena.state(state) };
        let mut builder = Builder { arena, random: Random::new(name), state: address };
        let dispatch = make(&mut builder);
        assert_eq!(dispatch.kernel.name, name);
        Launch { name, arena: builder.arena, dispatch }
    };
    vec![
        launch("gather", &gather),
        launch("mat_vec", &|b| mat_vec(b, Epilogue::Store)),
        launch("mat_vec", &|b| mat_vec(b, Epilogue::Accumulate)),
        launch("rms_norm", &rms_norm),
        launch("rope_kv", &rope_kv),
        launch("attention", &attention),
        launch("attention_merge", &attention_merge),
        launch("router", &router),
        launch("gate_up", &gate_up),
        launch("expert_down", &expert_down),
        launch("sample", &sample),
        launch("advance", &advance),
    ]
}

fn gather(b: &mut Builder) -> Dispatch {
    let table = b.matrix(Format::Q6K, 1);
    Gather { state: b.state, table, y: b.output(COLUMNS) }.dispatch(&b.arena.gpu.target())
}

fn mat_vec(b: &mut Builder, epilogue: Epilogue) -> Dispatch {
    let y = if epilogue == Epilogue::Accumulate { b.residual(ROWS) } else { b.output(ROWS) };
    MatVec { state: b.state, weights: b.matrix(Format::Q4K, 1), x: b.vector(COLUMNS), y, epilogue }
        .dispatch(&b.arena.gpu.target())
}

fn rms_norm(b: &mut Builder) -> Dispatch {
    RmsNorm {
        state: b.state,
        x: b.vector(COLUMNS),
        weight: b.vector(COLUMNS),
        y: b.output(COLUMNS),
        columns: COLUMNS,
        epsilon: 1e-6,
    }
    .dispatch(&b.arena.gpu.target())
}

/// A cache of zeros.
fn cache(b: &mut Builder) -> u64 {
    b.arena.in_out(&vec![0u16; (CONTEXT * KV_HEADS * HEAD) as usize]).address
}

fn rope_kv(b: &mut Builder) -> Dispatch {
    RopeKv {
        state: b.state,
        q: b.residual(QUERY_HEADS * HEAD),
        k: b.vector(KV_HEADS * HEAD),
        v: b.vector(KV_HEADS * HEAD),
        norm: Some(HeadNorm { q: b.vector(HEAD), k: b.vector(HEAD), epsilon: 1e-6 }),
        rotation: b.vector(CONTEXT * HEAD),
        key_cache: cache(b),
        value_cache: cache(b),
        key_format: CacheFormat::F16,
        value_format: CacheFormat::F16,
        query_heads: QUERY_HEADS,
        kv_heads: KV_HEADS,
        head_size: HEAD,
        rotated: HEAD,
        pairing: Pairing::Halves,
    }
    .dispatch(&b.arena.gpu.target())
}

fn attention(b: &mut Builder) -> Dispatch {
    Attention {
        state: b.state,
        q: b.vector(QUERY_HEADS * HEAD),
        key_cache: b.vector(CONTEXT * KV_HEADS * HEAD),
        value_cache: b.vector(CONTEXT * KV_HEADS * HEAD),
        partials: b.output(QUERY_HEADS * SPLITS * (HEAD + 2)),
        key_format: CacheFormat::F32,
        value_format: CacheFormat::F32,
        query_heads: QUERY_HEADS,
        kv_heads: KV_HEADS,
        head_size: HEAD,
        splits: SPLITS,
    }
    .dispatch(&b.arena.gpu.target())
}

fn attention_merge(b: &mut Builder) -> Dispatch {
    AttentionMerge {
        state: b.state,
        partials: b.vector(QUERY_HEADS * SPLITS * (HEAD + 2)),
        y: b.output(QUERY_HEADS * HEAD),
        heads: QUERY_HEADS,
        head_size: HEAD,
        splits: SPLITS,
    }
    .dispatch(&b.arena.gpu.target())
}

fn router(b: &mut Builder) -> Dispatch {
    Router {
        state: b.state,
        logits: b.vector(128),
        ids: b.output(8),
        weights: b.output(8),
        experts: 128,
        used: 8,
        weighting: Weighting::SoftmaxOfAll,
    }
    .dispatch(&b.arena.gpu.target())
}

fn gate_up(b: &mut Builder) -> Dispatch {
    GateUp {
        state: b.state,
        gate: b.matrix(Format::Q4K, EXPERTS),
        up: b.matrix(Format::Q6K, EXPERTS),
        routing: Routing::Experts { ids: b.words(&[3, 0, 2]), slots: SLOTS },
        x: b.vector(COLUMNS),
        y: b.output(SLOTS * ROWS),
    }
    .dispatch(&b.arena.gpu.target())
}

fn expert_down(b: &mut Builder) -> Dispatch {
    ExpertDown {
        state: b.state,
        down: b.matrix(Format::Q6K, EXPERTS),
        ids: b.words(&[3, 0, 2]),
        weights: b.vector(SLOTS),
        h: b.vector(SLOTS * COLUMNS),
        y: b.residual(ROWS),
        slots: SLOTS,
    }
    .dispatch(&b.arena.gpu.target())
}

fn sample(b: &mut Builder) -> Dispatch {
    let candidates: Array<Candidate> = b.arena.output(candidate_count(VOCABULARY) as usize);
    Sample { state: b.state, logits: b.vector(VOCABULARY), candidates: candidates.address, vocabulary: VOCABULARY }
        .dispatch(&b.arena.gpu.target())
}

fn advance(b: &mut Builder) -> Dispatch {
    let candidate = |i: u32| Candidate { score: (i * 7 % 5) as f32, logit: 0.5, id: i * 1_024, non_finite: 0 };
    let candidates: Vec<_> = (0..candidate_count(VOCABULARY)).map(candidate).collect();
    Advance {
        state: b.state,
        report: b.arena.output::<StepReport>(1).address,
        prompt: b.words(&[1; CONTEXT as usize]),
        end_tokens: b.words(&[]),
        cancelled: b.words(&[0]),
        candidates: b.arena.input(&candidates).address,
        vocabulary: Some(VOCABULARY),
    }
    .dispatch(&b.arena.gpu.target())
}
