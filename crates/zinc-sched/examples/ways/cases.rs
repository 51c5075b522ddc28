//! The ways of driving a model, the kinds of sampling, and a function that generates the tokens of each.

use std::sync::Arc;

use zinc_kernels::step::StepShape;
use zinc_model::device::DeviceModel;
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{CacheOptions, RowCounts};
use zinc_sched::adapter::{DraftSource, Queues, Sync, VulkanModel, VulkanOptions};
use zinc_sched::{
    Constraint, Control, ControlError, Dry, Engine, EngineOptions, Guide, InflightDepth, LastTokens, Penalties,
    Request, Sampling, SequenceBreakers, SpeculationMode, SystemClock, Token, TokenSampler, Verdict, Xtc,
};

/// The most drafts of a speculative step.
pub(crate) const DRAFTS: u32 = 4;
/// Tokens of the longest prompt.
pub(crate) const PROMPT_TOKENS: u32 = 12;

/// How the models of [`Driven::new`] are loaded: with rows for every way's prompts and drafts.
pub(crate) fn load_options(cache: CacheOptions) -> LoadOptions {
    LoadOptions::new(cache).with_counts(RowCounts::new(8, StepShape::of(DRAFTS + 1).rows()))
}

/// One way of driving the model.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    sync: Sync,
    depth: u32,
    queues: Queues,
    /// Rows of the steps that feed a prompt.
    feed_rows: u32,
    drafts: DraftKind,
}

#[derive(Clone, Copy, PartialEq)]
enum DraftKind {
    None,
    Lookup,
    Itself,
}

/// One kind of sampling.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    sampling: fn(u64) -> Sampling,
    control: Control,
}

/// A model driven in one way, which answers one request after another.
pub(crate) struct Driven {
    engine: Engine<VulkanModel>,
}

impl Driven {
    /// Drives `target` in the way; `draft` is the model that drafts where the way has one.
    pub(crate) fn new(
        target: &Arc<DeviceModel>,
        draft: &Arc<DeviceModel>,
        way: &Way,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let depth = InflightDepth::new(way.depth)?;
        let draft_source = match way.drafts {
            DraftKind::None => None,
            DraftKind::Lookup => Some(DraftSource::Lookup { ngrams: 1..=3, max_drafts: DRAFTS }),
            DraftKind::Itself => Some(DraftSource::Model { model: draft.clone(), max_drafts: DRAFTS }),
        };
        let options = VulkanOptions::new(depth)
            .with_sync(way.sync)
            .with_queues(way.queues)
            .with_feed_shape(StepShape::of(way.feed_rows))
            .with_draft_source(draft_source);
        let driven = VulkanModel::new(target.clone(), options)?;
        let options = EngineOptions::default().with_depth(depth).with_speculation(SpeculationMode::Always);
        Ok(Self { engine: Engine::new(driven, SystemClock::new(), options)? })
    }

    /// The tokens of `prompts` texts of `tokens` tokens each, sampled as the kind says.
    pub(crate) fn texts(
        &mut self,
        kind: &Kind,
        prompts: u32,
        tokens: u32,
    ) -> Result<Vec<Vec<u32>>, Box<dyn std::error::Error>> {
        let vocabulary = self.engine.limits().vocabulary_tokens;
        let texts = (0..prompts).map(|number| {
            let request = kind.request(number, vocabulary, tokens);
            let mut delivered: Vec<Token> = Vec::new();
            self.engine.run(&request, &mut delivered)?;
            Ok(delivered.iter().map(|token| token.id).collect())
        });
        texts.collect()
    }
}

impl Kind {
    /// A request for `tokens` tokens of text number `number`.
    pub(crate) fn request(&self, number: u32, vocabulary: u32, tokens: u32) -> Request {
        Request::new(prompt(number, vocabulary), [])
            .with_max_tokens(tokens)
            .with_sampling((self.sampling)(u64::from(number)))
            .with_control(self.control.clone())
    }
}

/// Random ids, by a linear congruential generator.
fn prompt(number: u32, vocabulary: u32) -> Vec<u32> {
    let mut state = u64::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let length = 1 + next() % PROMPT_TOKENS;
    (0..length).map(|_| next() % vocabulary).collect()
}

/// All ways of driving a model.
pub(crate) fn ways() -> Vec<Way> {
    let way = |name, sync, depth, feed_rows| Way {
        name,
        sync,
        depth,
        queues: Queues::One,
        feed_rows,
        drafts: DraftKind::None,
    };
    let timeline = |name, depth, feed_rows| way(name, Sync::Timeline, depth, feed_rows);
    vec![
        timeline("depth 1", 1, 1),
        timeline("depth 2, prompts by 2", 2, 2),
        timeline("depth 4, prompts by 8", 4, 8),
        timeline("depth 8, prompts by 4", 8, 4),
        way("fence, prompts by 8", Sync::Fence, 1, 8),
        way("fence, kept", Sync::FenceKept, 1, 1),
        Way { queues: Queues::Two, ..timeline("depth 4, two queues, prompts by 4", 4, 4) },
        Way { drafts: DraftKind::Lookup, ..timeline("depth 4, look-up, prompts by 2", 4, 2) },
        Way { drafts: DraftKind::Itself, ..timeline("depth 4, self-draft, prompts by 8", 4, 8) },
        Way { drafts: DraftKind::Lookup, ..way("fence, look-up", Sync::Fence, 1, 1) },
    ]
}

/// All kinds of sampling.
pub(crate) fn kinds() -> Vec<Kind> {
    let device = |name, sampling| Kind { name, sampling, control: Control::Device };
    vec![
        device("greedy", |_| Sampling::GREEDY),
        device("temperature", |seed| Sampling { temperature: 0.8, seed, ..Sampling::GREEDY }),
        device("default", default),
        device("penalties", |seed| Sampling { penalties: PENALTIES, ..default(seed) }),
        device("all", all),
        Kind { name: "masked", sampling: default, control: Control::masked(|| Ok(Alternating::default())) },
        Kind { name: "host-fed", sampling: |_| Sampling::GREEDY, control: Control::host_fed(|| Ok(SecondBest)) },
    ]
}

const PENALTIES: Penalties = Penalties { last_n: LastTokens::Count(64), repeat: 1.1, frequency: 0.1, presence: 0.1 };

fn default(seed: u64) -> Sampling {
    Sampling { temperature: 0.8, seed, top_k: 40, top_p: 0.95, min_p: 0.05, ..Sampling::GREEDY }
}

/// Sampling parameters with every stage of the sampler chain on.
fn all(seed: u64) -> Sampling {
    let breakers = SequenceBreakers { tokens: vec![1, 3, 5], sequences: vec![vec![7, 8]] };
    Sampling {
        typical_p: 0.95,
        top_n_sigma: 3.0,
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
        penalties: PENALTIES,
        dry: Some(Dry {
            multiplier: 0.8,
            base: 1.75,
            allowed_length: 2,
            last_n: LastTokens::All,
            breakers: Some(Arc::new(breakers)),
        }),
        logit_bias: vec![(2, f32::NEG_INFINITY), (4, 1.0)],
        ..default(seed)
    }
}

/// A constraint that allows even and odd ids in turn, with a bias that changes from token to token.
#[derive(Default)]
struct Alternating {
    accepted: u32,
}

impl Constraint for Alternating {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        let evens = 0x5555_5555_u32;
        let words = vec![if self.accepted.is_multiple_of(2) { evens } else { !evens }; guide.mask().len()];
        guide.set_mask(&words);
        guide.bias(self.accepted % 16, 2.0);
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        if token % 2 != self.accepted % 2 {
            return Err(format!("token {token} was not allowed as number {}", self.accepted).into());
        }
        self.accepted += 1;
        Ok(())
    }
}

/// A sampler on the host that takes the second most likely token.
struct SecondBest;

impl TokenSampler for SecondBest {
    fn sample(&mut self, logits: &[f32], _tokens: &[u32]) -> Result<u32, ControlError> {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        ids.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
        Ok(ids[1])
    }
}
