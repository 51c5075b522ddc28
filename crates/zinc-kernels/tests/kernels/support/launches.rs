//! One launch of every kernel, for the properties that all kernels share.

use half::f16;
use zinc_kernels::generated::lane::{FINISH_BUDGET, FINISH_NONE};
use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::ops::{
    ActFormat, Activation, Adjust, Advance, Append, Attention, AttentionRows, CHECK_BYTES_RESULTS,
    CHECK_HALVES_RESULTS, CacheFormat, Cancel, CheckBytes, CheckHalves, Choose, DeltaConv, DeltaHeads, DeltaNet, Dry,
    ExpertDown, ExpertSelection, GRIDS_BYTES, GateUp, GateUpMul, Gather, HeadGate, HeadNorm, HeadOrder, Heads, Input,
    Join, LastAccepted, LastRows, List, LogprobBuffers, LogprobShares, Logprobs, Lookup, MatMul, MatVec, Matrix,
    MtpNorms, Opening, Pairing, PerLane, Product, Propose, READ_TILE_BYTES, Read, Round, Route, Router, RouterMul,
    Routing, Sample, SamplerBuffers, SharedExpert, TILE_BYTES, Tiles, Weighting, candidate_count, items_bytes,
    masses_bytes, moments_bytes, rounded_bytes, share_count,
};
use zinc_kernels::reference::{self, Candidate, HistoryCounts, Q14, StepLimits};
use zinc_kernels::sampler::{Breakers, SamplerParams, SamplerSettings, SamplerTables};
use zinc_kernels::step::{Lane, MOST_RUN, Rows, StepLanes, StepReport, StepShape, StepState};
use zinc_kernels::{Dispatch, Format, Target};

use super::arena::{Arena, Array};
use super::data::Random;
use super::launch_operands::{Builder, COLUMNS, ROWS};
use super::many;

/// A launch with its arrays.
pub(crate) struct Launch {
    pub(crate) name: &'static str,
    pub(crate) arena: Arena,
    pub(crate) dispatch: Dispatch,
}

const SLOTS: u32 = 3;
const EXPERTS: u32 = 4;
const HEAD: u32 = 64;
const HEADS: Heads = Heads { query_heads: 4, kv_heads: 2, head_size: HEAD };
const DELTA_HEADS: DeltaHeads = DeltaHeads { key_heads: 2, value_heads: 4, head_size: 64, order: HeadOrder::Tiled };
const CONTEXT: u32 = 900;
const POSITION: u32 = CONTEXT - 20;
const VOCABULARY: u32 = 5_000;

/// The tokens of the sequence, which some kernels write.
fn tokens(name: &str, arena: &mut Arena) -> u64 {
    // The last tokens stood there before, and what followed them is not what lies behind the position.
    let mut tokens: Vec<u32> = (0..CONTEXT + MOST_RUN).map(|place| place % 50).collect();
    tokens[POSITION as usize + 1..].fill(77);
    let tokens = if ["advance", "lookup"].contains(&name) { arena.in_out(&tokens) } else { arena.input(&tokens) };
    tokens.address
}

/// What the host uploads for the chain of samplers, where a kernel has to do with it.
fn samplers(name: &str, arena: &mut Arena) -> u64 {
    if !["advance", "dry", "adjust", "choose"].contains(&name) {
        return 0;
    }
    let tables = sampler_tables();
    let counts = [1u32; VOCABULARY as usize];
    let counts = if name == "advance" { arena.in_out(&counts) } else { arena.input(&counts) };
    let params = SamplerParams {
        biases: arena.input(&tables.biases).address,
        dry_penalties: arena.input(&tables.dry_penalties).address,
        breakers: arena.input(&tables.breakers).address,
        tails: arena.input(&tables.tails).address,
        counts: counts.address,
        ..tables.params
    };
    arena.input(&[params]).address
}

/// One launch of every kernel, two where its forms write different arrays, or update one in place. Each step is at a token, a position and a
/// temperature that the arrays allow for, with a step that lists one row or none. `last_rows`, which leaves one row as it is, has two or none, of a prompt that ends.
pub(crate) fn every_kernel(rows: usize) -> Vec<Launch> {
    let lane = Lane {
        token: 100,
        position: POSITION,
        prompt_length: 10,
        budget: 50,
        context_length: CONTEXT,
        inverse_temperature: 1.25,
        seed_low: 3,
        sequence: 7,
        ..Lane::default()
    };
    let launch = |name: &'static str, make: &dyn Fn(&mut Builder) -> Dispatch| {
        let mut arena = Arena::new();
        let lane = Lane { tokens: tokens(name, &mut arena), samplers: samplers(name, &mut arena), ..lane };
        let state = match name {
            // It makes the list that others find.
            "list" => StepState::new(Lane { finish: [FINISH_BUDGET, FINISH_NONE][rows], ..lane }, &[]),
            "last_rows" => StepState::new(lane, &[100, 101][..2 * rows]),
            // The step has ended.
            "last_accepted" => {
                let state = StepState::new(lane, &[100][..rows]);
                StepState { lane: Lane { position: POSITION + 1, ..state.lane }, ..state }
            }
            _ => StepState::new(lane, &[100][..rows]),
        };
        // Other kernels only read the state.
        let address = if ["list", "advance", "cancel", "last_rows", "lookup", "propose"].contains(&name) {
            arena.in_out(&[state]).address
        } else {
            arena.state(state)
        };
        let mut builder = Builder { arena, random: Random::new(name), state: address };
        let dispatch = make(&mut builder);
        // The second form of a kernel has its name, and a word behind it.
        assert_eq!(dispatch.kernel.name.split(' ').next(), Some(name));
        Launch { name, arena: builder.arena, dispatch }
    };
    vec![
        launch("gather", &gather),
        launch("mat_vec", &|b| mat_vec(b, false)),
        launch("mat_vec", &|b| mat_vec(b, true)),
        launch("append", &append),
        launch("attention", &|b| attention(b, &many::without_units())),
        launch("attention_units", &|b| attention(b, &many::with_units())),
        launch("attention_rows", &|b| attention_rows(b, &many::without_units())),
        launch("attention_rows_units", &|b| attention_rows(b, &many::with_units())),
        launch("delta_conv", &delta_conv),
        launch("delta_net", &delta_net),
        launch("head_gate", &head_gate),
        launch("router", &router),
        launch("router_mul", &router_mul),
        launch("gate_up", &gate_up),
        launch("route", &route),
        launch("mat_mul", &|b| mat_mul(b, false, &many::tiles(false))),
        launch("mat_mul", &|b| mat_mul(b, true, &many::tiles(true))),
        launch("gate_up_mul", &|b| gate_up_mul(b, &many::tiles(false))),
        launch("gate_up_mul", &|b| gate_up_mul(b, &many::tiles(true))),
        launch("mat_mul_units", &|b| mat_mul(b, true, &many::with_units())),
        launch("gate_up_mul_units", &|b| gate_up_mul(b, &many::with_units())),
        launch("join", &join),
        launch("round", &round),
        launch("expert_down", &expert_down),
        launch("sample", &sample),
        launch("list", &list),
        launch("advance", &advance),
        launch("cancel", &cancel),
        launch("check_bytes_units", &check_bytes),
        launch("check_halves_units", &check_halves),
        launch("last_rows", &last_rows),
        launch("last_accepted", &last_accepted),
        launch("mtp_norms", &mtp_norms),
        launch("dry", &dry),
        launch("adjust", &adjust),
        launch("choose", &choose),
        launch("lookup", &lookup),
        launch("propose", &propose),
        launch("logprob_shares", &logprob_shares),
        launch("logprobs", &logprobs),
        launch("read", &read),
    ]
}

fn gather(b: &mut Builder) -> Dispatch {
    let table = b.matrix(Format::Q6K, 1);
    Gather { state: b.state, behind: false, table, y: Rows::one(b.output(COLUMNS)), shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

fn mat_vec(b: &mut Builder, accumulate: bool) -> Dispatch {
    let x =
        if accumulate { b.rounded(COLUMNS) } else { Input::Normalised(Rows::one(b.vector(COLUMNS)), b.norm(COLUMNS)) };
    let product = |b: &mut Builder, format| Product {
        weights: b.matrix(format, 1),
        bias: None,
        y: Rows::one(if accumulate { b.residual(ROWS) } else { b.output(ROWS) }),
    };
    let products = [product(b, Format::Q4K), product(b, Format::Q6K)];
    MatVec { state: b.state, products: &products, x, act: ActFormat::Q14, accumulate, shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

/// A cache of zeros.
fn cache(b: &mut Builder) -> u64 {
    b.arena.in_out(&vec![0u16; (CONTEXT * HEADS.kv_heads * HEAD) as usize]).address
}

/// A cache that holds what is read of it.
fn filled_cache(b: &mut Builder) -> u64 {
    let values = b.random.vector((CONTEXT * HEADS.kv_heads * HEAD) as usize, 1.0);
    b.arena.input(&values.into_iter().map(f16::from_f32).collect::<Vec<f16>>()).address
}

fn append(b: &mut Builder) -> Dispatch {
    Append {
        state: b.state,
        q: Some(Rows::one(b.residual(HEADS.query_heads * HEAD))),
        k: Rows::one(b.vector(HEADS.kv_heads * HEAD)),
        v: Rows::one(b.vector(HEADS.kv_heads * HEAD)),
        norm: Some(HeadNorm { q: b.vector(HEAD), k: b.vector(HEAD), epsilon: 1e-6 }),
        rotation: b.vector(CONTEXT * HEAD),
        key_cache: cache(b),
        value_cache: cache(b),
        lane_pages: 0,
        ring_pages: 0,
        key_format: CacheFormat::F16,
        value_format: CacheFormat::F16,
        heads: HEADS,
        rotated: HEAD,
        pairing: Pairing::Halves,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn attention_rows(b: &mut Builder, target: &Target) -> Dispatch {
    AttentionRows {
        state: b.state,
        q: Rows::one(b.vector(HEADS.query_heads * HEAD)),
        key_cache: filled_cache(b),
        value_cache: filled_cache(b),
        lane_pages: 0,
        ring_pages: 0,
        y: Rows::one(b.output(HEADS.query_heads * HEAD)),
        key_format: CacheFormat::F16,
        value_format: CacheFormat::F16,
        heads: HEADS,
        context: CONTEXT,
        window: None,
        sinks: None,
        shape: StepShape::ONE,
    }
    .dispatch(target)
}

fn attention(b: &mut Builder, target: &Target) -> Dispatch {
    Attention {
        state: b.state,
        q: Rows::one(b.vector(HEADS.query_heads * HEAD)),
        k: Rows::one(b.vector(HEADS.kv_heads * HEAD)),
        v: Rows::one(b.vector(HEADS.kv_heads * HEAD)),
        norm: Some(HeadNorm { q: b.vector(HEAD), k: b.vector(HEAD), epsilon: 1e-6 }),
        rotation: b.vector(CONTEXT * HEAD),
        key_cache: cache(b),
        value_cache: cache(b),
        lane_pages: 0,
        ring_pages: 0,
        partials: b.scratch(HEADS.partials(CONTEXT)),
        counters: b.counters(HEADS.query_heads as usize),
        y: Rows::one(b.output(HEADS.query_heads * HEAD)),
        rounded: false,
        key_format: CacheFormat::F16,
        value_format: CacheFormat::F16,
        heads: HEADS,
        rotated: HEAD,
        pairing: Pairing::Halves,
        next: None,
        context: CONTEXT,
        window: None,
        sinks: None,
        shape: StepShape::ONE,
    }
    .dispatch(target)
}

/// The recurrent state of a delta net that has taken in all positions before the step's.
fn recurrent(b: &mut Builder) -> PerLane {
    let memories = b.random.vector((DELTA_HEADS.values() * DELTA_HEADS.head_size) as usize, 0.1);
    let mut words: Vec<u32> = memories.iter().map(|x| x.to_bits()).collect();
    words.resize(words.len() + DELTA_HEADS.values() as usize, POSITION);
    words.resize(DELTA_HEADS.recurrent_bytes(0) as usize / 4, 0);
    PerLane { address: b.arena.in_out(&words).address, stride: 0 }
}

fn delta_conv(b: &mut Builder) -> Dispatch {
    let channels = DELTA_HEADS.channels();
    DeltaConv {
        state: b.state,
        x: Rows::one(b.vector(channels)),
        weights: b.vector(4 * channels),
        recurrent: recurrent(b),
        y: Rows::one(b.output(channels)),
        heads: DELTA_HEADS,
        drafts: 0,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn delta_net(b: &mut Builder) -> Dispatch {
    DeltaNet {
        state: b.state,
        x: Rows::one(b.vector(DELTA_HEADS.channels())),
        beta: Rows::one(b.vector(DELTA_HEADS.value_heads)),
        alpha: Rows::one(b.vector(DELTA_HEADS.value_heads)),
        alpha_bias: b.vector(DELTA_HEADS.value_heads),
        decay: b.vector(DELTA_HEADS.value_heads),
        recurrent: recurrent(b),
        y: Rows::one(b.output(DELTA_HEADS.values())),
        heads: DELTA_HEADS,
        drafts: 0,
        lanes: 1,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn head_gate(b: &mut Builder) -> Dispatch {
    HeadGate {
        state: b.state,
        x: Rows::one(b.vector(DELTA_HEADS.values())),
        gate: Rows::one(b.vector(DELTA_HEADS.values())),
        norm: Some(b.norm(DELTA_HEADS.head_size)),
        opening: Opening::Silu,
        y: Rows::one(b.output((rounded_bytes(u64::from(DELTA_HEADS.values())) / 4) as u32)),
        heads: DELTA_HEADS.value_heads,
        head_size: DELTA_HEADS.head_size,
        act: ActFormat::Q14,
        ordered: false,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn router(b: &mut Builder) -> Dispatch {
    Router {
        state: b.state,
        x: Rows::one(b.vector(COLUMNS)),
        norm: b.norm(COLUMNS),
        matrix: b.matrix(Format::F32, 1),
        bias: None,
        y: Rows::one(b.output((rounded_bytes(u64::from(COLUMNS)) / 4) as u32)),
        act: ActFormat::Q14,
        ordered: false,
        logits: Rows::one(b.output(ROWS)),
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn router_mul(b: &mut Builder) -> Dispatch {
    RouterMul {
        state: b.state,
        x: Rows::one(b.vector(COLUMNS)),
        norm: b.norm(COLUMNS),
        matrix: b.matrix(Format::F32, 1),
        bias: None,
        logits: Rows::one(b.output(ROWS)),
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn gate_up(b: &mut Builder) -> Dispatch {
    GateUp {
        state: b.state,
        gate: b.matrix(Format::Q4K, EXPERTS),
        up: b.matrix(Format::Q6K, EXPERTS),
        routing: Routing::Experts(ExpertSelection {
            logits: Rows::one(b.vector(EXPERTS)),
            experts: EXPERTS,
            used: SLOTS,
            weighting: Weighting::SoftmaxOfAll,
            ids: Rows::one(b.output(SLOTS)),
            weights: Rows::one(b.output(SLOTS)),
        }),
        x: b.rounded(COLUMNS),
        act: ActFormat::Q14,
        biases: None,
        activation: Activation::SwiGlu,
        y: Rows::one(b.output(SLOTS * ROWS)),
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn route(b: &mut Builder) -> Dispatch {
    // The products that would follow.
    let matrix = Matrix { address: 0, format: Format::Q4K, rows: ROWS, columns: COLUMNS };
    Route {
        state: b.state,
        selection: ExpertSelection {
            logits: Rows::one(b.vector(EXPERTS)),
            experts: EXPERTS,
            used: SLOTS,
            weighting: Weighting::SoftmaxOfAll,
            ids: Rows::one(b.output(SLOTS)),
            weights: Rows::one(b.output(SLOTS)),
        },
        tiles: Tiles {
            pairs: b.output(EXPERTS),
            tiles: b.output(SLOTS * TILE_BYTES / 4),
            grids: b.scratch(u64::from(GRIDS_BYTES) / 4),
            experts: EXPERTS,
            used: SLOTS,
        },
        gate: matrix,
        up: matrix,
        down: matrix,
        counters: b.counters(1 + EXPERTS as usize),
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

/// The launch of a product for a row that has chosen three experts.
fn tiled(b: &mut Builder, target: &Target, launch: impl Fn(Tiles) -> Dispatch) -> Dispatch {
    many::tiled(&mut b.arena, target, StepShape::ONE, &[vec![3, 0, 2]], EXPERTS as usize, launch)
}

/// Rounded vectors, one after the other.
fn rounded_vectors(b: &mut Builder, count: u32) -> Rows {
    let vector = |_| Q14::new(&b.random.vector(COLUMNS as usize, 1.0)).bytes(true);
    let vectors: Vec<u8> = (0..count).flat_map(vector).collect();
    b.arena.input(&vectors).row()
}

fn mat_mul(b: &mut Builder, experts: bool, target: &Target) -> Dispatch {
    let (slots, matrices) = if experts { (SLOTS, EXPERTS) } else { (1, 1) };
    let y = Rows::one(if experts { b.output(slots * ROWS) } else { b.residual(ROWS) });
    let products = &[Product { weights: b.matrix(Format::Q4K, matrices), bias: None, y }];
    let (state, x, shape, group_values) = (b.state, rounded_vectors(b, slots), StepShape::ONE, None);
    let op = MatMul { state, products, x, accumulate: !experts, tiles: None, group_values, shape };
    match experts {
        true => tiled(b, target, |tiles| MatMul { tiles: Some(tiles), ..op }.dispatch(target)),
        false => op.dispatch(target),
    }
}

fn gate_up_mul(b: &mut Builder, target: &Target) -> Dispatch {
    let op = GateUpMul {
        state: b.state,
        gate: b.matrix(Format::Q4K, EXPERTS),
        up: b.matrix(Format::Q4K, EXPERTS),
        tiles: None,
        group_values: None,
        x: rounded_vectors(b, 1),
        biases: None,
        activation: Activation::SwiGlu,
        y: Rows::one(b.output(SLOTS * ROWS)),
        shape: StepShape::ONE,
    };
    tiled(b, target, |tiles| GateUpMul { tiles: Some(tiles), ..op }.dispatch(target))
}

fn join(b: &mut Builder) -> Dispatch {
    Join {
        state: b.state,
        products: Rows::one(b.vector(SLOTS * COLUMNS)),
        weights: Rows::one(b.vector(SLOTS)),
        shared: Some(SharedExpert { y: Rows::one(b.vector(COLUMNS)), logit: Rows::one(b.vector(1)) }),
        y: Rows::one(b.residual(COLUMNS)),
        width: COLUMNS,
        slots: SLOTS,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn round(b: &mut Builder) -> Dispatch {
    Round {
        state: b.state,
        x: Input::Floats(Rows::one(b.vector(SLOTS * COLUMNS))),
        y: Rows::one(b.output(SLOTS * (rounded_bytes(u64::from(COLUMNS)) / 4) as u32)),
        vectors: SLOTS,
        columns: COLUMNS,
        ordered: false,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn expert_down(b: &mut Builder) -> Dispatch {
    ExpertDown {
        state: b.state,
        down: b.matrix(Format::Q6K, EXPERTS),
        bias: None,
        experts: EXPERTS,
        ids: Rows::one(b.words(&[3, 0, 2])),
        weights: Rows::one(b.vector(SLOTS)),
        h: Input::Floats(Rows::one(b.vector(SLOTS * COLUMNS))),
        shared: Some(SharedExpert { y: Rows::one(b.vector(ROWS)), logit: Rows::one(b.vector(1)) }),
        act: ActFormat::Q14,
        y: Rows::one(b.residual(ROWS)),
        slots: SLOTS,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn sample(b: &mut Builder) -> Dispatch {
    let candidates: Array<Candidate> = b.arena.output(candidate_count(VOCABULARY) as usize);
    Sample {
        state: b.state,
        logits: Rows::one(b.vector(VOCABULARY)),
        candidates: candidates.row(),
        vocabulary: VOCABULARY,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn advance(b: &mut Builder) -> Dispatch {
    let candidate = |i: u32| Candidate { score: (i * 7 % 5) as f32, logit: 0.5, id: i * 1_024, non_finite: 0 };
    let candidates: Vec<_> = (0..candidate_count(VOCABULARY)).map(candidate).collect();
    Advance {
        state: b.state,
        reports: PerLane { address: b.arena.output::<StepReport>(1).address, stride: 0 },
        cancelled: b.words(&[0]),
        candidates: b.arena.input(&candidates).row(),
        candidate_count: candidate_count(VOCABULARY),
        choices: PerLane::default(),
        lanes: 1,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

fn list(b: &mut Builder) -> Dispatch {
    let wanted = b.arena.input(&[StepLanes::of(&[0], 1)]).address;
    List { state: b.state, wanted, cancelled: b.words(&[0]), leader: 0 }.dispatch(&b.arena.gpu.target())
}

fn cancel(b: &mut Builder) -> Dispatch {
    Cancel { state: b.state, cancelled: b.words(&[7]) }.dispatch(&b.arena.gpu.target())
}

fn check_bytes(b: &mut Builder) -> Dispatch {
    let target = many::with_units();
    let y = b.output(CHECK_BYTES_RESULTS as u32);
    let check = CheckBytes { state: b.state, y, rounds: 1, workgroups: 1 };
    check.dispatch(&target, target.units.expect("there are units, or what stands in for them"))
}

fn check_halves(b: &mut Builder) -> Dispatch {
    let target = many::with_units();
    let y = b.output(CHECK_HALVES_RESULTS as u32);
    let check = CheckHalves { state: b.state, y, rounds: 1, workgroups: 1 };
    check.dispatch(&target, target.half_units.expect("there are units, or what stands in for them"))
}

fn last_rows(b: &mut Builder) -> Dispatch {
    let x = Rows { address: b.residual(2 * COLUMNS), stride: 4 * COLUMNS };
    LastRows { state: b.state, x, width: COLUMNS, shape: StepShape::of(2) }.dispatch(&b.arena.gpu.target())
}

fn last_accepted(b: &mut Builder) -> Dispatch {
    let draft = b.arena.in_out(&[StepState::default()]).address;
    let (x, y) = (Rows::one(b.vector(COLUMNS)), b.output(COLUMNS));
    let op = LastAccepted { state: b.state, draft, tokens: None, x, y, width: COLUMNS, shape: StepShape::ONE };
    op.dispatch(&b.arena.gpu.target())
}

fn mtp_norms(b: &mut Builder) -> Dispatch {
    MtpNorms {
        state: b.state,
        x: Rows::one(b.residual(2 * COLUMNS)),
        residual: Rows::one(b.vector(COLUMNS)),
        embedding_norm: b.vector(COLUMNS),
        head_norm: b.vector(COLUMNS),
        hidden_norm: b.norm(COLUMNS),
        width: COLUMNS,
        shape: StepShape::ONE,
    }
    .dispatch(&b.arena.gpu.target())
}

/// Every sampler on.
fn sampler_tables() -> SamplerTables {
    let settings = SamplerSettings {
        penalty_repeat: 1.1,
        penalty_freq: 0.1,
        dry_multiplier: 0.8,
        top_n_sigma: 3.0,
        top_k: 40,
        typical_p: 0.95,
        top_p: 0.9,
        min_p: 0.01,
        xtc_probability: 1.0,
        ..SamplerSettings::OFF
    };
    settings.tables(VOCABULARY, CONTEXT, &Breakers::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn dry(b: &mut Builder) -> Dispatch {
    let dry_lengths = b.arena.in_out(&[0u32; VOCABULARY as usize]).row();
    let buffers = SamplerBuffers { dry_lengths, ..SamplerBuffers::default() };
    Dry { state: b.state, buffers, shape: StepShape::ONE }.dispatch(&b.arena.gpu.target())
}

fn adjust(b: &mut Builder) -> Dispatch {
    let buffers = SamplerBuffers {
        dry_lengths: b.arena.in_out(&[3u32; VOCABULARY as usize]).row(),
        items: Rows::one(b.output(items_bytes(VOCABULARY) as u32 / 4)),
        shares: Rows::one(b.output(share_count(VOCABULARY) * 6)),
        moments: Rows::one(b.output(moments_bytes(VOCABULARY) as u32 / 4)),
    };
    let (logits, step_inputs) = (Rows::one(b.vector(VOCABULARY)), PerLane::default());
    Adjust { state: b.state, logits, buffers, step_inputs, vocabulary: VOCABULARY, shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

fn choose(b: &mut Builder) -> Dispatch {
    let tables = sampler_tables();
    let logits = b.random.vector(VOCABULARY as usize, 1.0);
    let zeros = [0; VOCABULARY as usize];
    let history = HistoryCounts { occurrences: &zeros, dry_lengths: &zeros };
    let (lists, moments) = reference::adjust(&logits, history, StepLimits::default(), &tables, &Lane::default());
    let shares: Vec<_> = lists.iter().map(|list| list.share).collect();
    let buffers = SamplerBuffers {
        items: Rows::one(b.words(&super::chain::list_words(&lists))),
        shares: b.arena.input(&shares).row(),
        moments: b.arena.input(&moments).row(),
        ..SamplerBuffers::default()
    };
    let candidates = b.arena.output::<Candidate>(1).row();
    let logits = b.arena.input(&logits).row();
    Choose { state: b.state, logits, buffers, candidates, vocabulary: VOCABULARY, shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

fn lookup(b: &mut Builder) -> Dispatch {
    Lookup { state: b.state, ngrams: 2..=3, drafts: 5 }.dispatch(&b.arena.gpu.target())
}

fn propose(b: &mut Builder) -> Dispatch {
    let draft = b.arena.state(Lane { position: POSITION + 4, sequence: 7, ..Lane::default() });
    Propose { state: b.state, draft, behind: 0, drafts: 5 }.dispatch(&b.arena.gpu.target())
}

fn logprob_shares(b: &mut Builder) -> Dispatch {
    let buffers = LogprobBuffers {
        items: Rows::one(b.output(items_bytes(VOCABULARY) as u32 / 4)),
        shares: Rows::one(b.output(share_count(VOCABULARY) * 6)),
        masses: Rows::one(b.output(masses_bytes(VOCABULARY) as u32 / 4)),
    };
    let logits = Rows::one(b.vector(VOCABULARY));
    LogprobShares { state: b.state, logits, buffers, vocabulary: VOCABULARY, shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

fn logprobs(b: &mut Builder) -> Dispatch {
    let (lists, masses) = reference::logprob_shares(&b.random.vector(VOCABULARY as usize, 1.0));
    let shares: Vec<_> = lists.iter().map(|list| list.share).collect();
    let buffers = LogprobBuffers {
        items: Rows::one(b.words(&super::chain::list_words(&lists))),
        shares: b.arena.input(&shares).row(),
        masses: b.arena.input(&masses).row(),
    };
    let reports = PerLane { address: b.arena.output::<LogprobReport>(1).address, stride: 0 };
    Logprobs { state: b.state, buffers, reports, vocabulary: VOCABULARY, shape: StepShape::ONE }
        .dispatch(&b.arena.gpu.target())
}

fn read(b: &mut Builder) -> Dispatch {
    let words: Vec<u32> = (0..4 * READ_TILE_BYTES / 4).map(|_| b.random.bits() as u32).collect();
    Read { state: b.state, x: b.words(&words), tiles: 4, y: b.output(SLOTS), workgroups: SLOTS }
        .dispatch(&b.arena.gpu.target())
}
