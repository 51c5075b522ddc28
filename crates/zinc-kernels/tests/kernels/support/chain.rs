//! The sampler chain on the device and on the host, from the same inputs.

use zinc_kernels::Target;
use zinc_kernels::generated::lane::{GATE_GUIDE, GATE_OPEN};
use zinc_kernels::generated::sampler::{MAX_STEP_BIASES, Moments, SamplerParams, StepInput};
use zinc_kernels::generated::shares::{SHARE_IDS, Share};
use zinc_kernels::ops::{
    Adjust, Choose, Dry, PerLane, STEP_MASK_OFFSET, SamplerBuffers, items_bytes, share_count, step_input_bytes,
};
use zinc_kernels::reference::{self, Candidate, HistoryCounts, Item, ShareList, StepLimits};
use zinc_kernels::sampler::{Bias, Breakers, SamplerSettings, SamplerTables};
use zinc_kernels::step::{Lane, Rows, StepShape, StepState};

use super::Gpu;
use super::arena::{Arena, Array, values};

/// A step to sample: what the chain reads.
pub(crate) struct Case<'a> {
    pub(crate) logits: &'a [f32],
    /// Up to and including the token whose logits these are, then drafts.
    pub(crate) tokens: &'a [u32],
    /// Drafts among the tokens.
    pub(crate) drafts: u32,
    pub(crate) tables: &'a SamplerTables,
    pub(crate) limits: StepLimits<'a>,
    /// Its position is that of `tokens` and `drafts`.
    pub(crate) lane: Lane,
}

/// What the chain made of a row, at each of its stages.
#[derive(Debug, PartialEq)]
pub(crate) struct Stages {
    pub(crate) dry_lengths: Vec<u32>,
    pub(crate) lists: Vec<ShareList>,
    /// Of each share, with top-n-sigma.
    pub(crate) moments: Vec<Moments>,
    pub(crate) candidate: Candidate,
}

/// Tables for a context that is longer than any test's.
pub(crate) fn tables(settings: &SamplerSettings, vocabulary: usize, breakers: &Breakers) -> SamplerTables {
    settings.tables(vocabulary as u32, 4_096, breakers).unwrap_or_else(|error| panic!("{error}"))
}

impl Case<'_> {
    fn vocabulary(&self) -> u32 {
        self.logits.len() as u32
    }

    /// Position of the first row of the step.
    fn position(&self) -> usize {
        self.tokens.len() - 1 - self.drafts as usize
    }

    /// The lane in a step that begins with its row number `index`.
    fn lane(&self, index: u32) -> Lane {
        Lane { position: self.position() as u32 + index, ..self.lane }
    }

    /// What the reference makes of the step's row number `index`.
    pub(crate) fn on_the_host(&self, index: u32) -> Stages {
        let history = &self.tokens[..=self.position() + index as usize];
        let lane = self.lane(index);
        let occurrences = reference::window_counts(history, self.tables.params.penalty_window, self.vocabulary());
        let dry_lengths = reference::dry(history, self.tables, self.vocabulary());
        let counts = HistoryCounts { occurrences: &occurrences, dry_lengths: &dry_lengths };
        let (lists, moments) = reference::adjust(self.logits, counts, self.limits, self.tables, &lane);
        let candidate = reference::choose(&lists, &moments, self.logits, &self.tables.params, &lane);
        assert_eq!(candidate, reference::draw(self.logits, history, self.limits, self.tables, &lane));
        Stages { dry_lengths, lists, moments, candidate }
    }

    /// What the kernels make of each of the step's rows, with the launch shapes of a target.
    pub(crate) fn on_the_device(&self, target: &Target) -> Vec<Stages> {
        let mut arena = Arena::new();
        let (vocabulary, copies) = (self.vocabulary(), 1 + self.drafts as usize);
        let shares = share_count(vocabulary) as usize;
        // What the rows own lies as far apart as the largest of the arrays needs, and a little more.
        let item_bytes = items_bytes(vocabulary) as usize;
        let stride = item_bytes + 64;
        let words = copies * stride / 4;
        let logits: Vec<f32> = copied(self.logits, copies, stride, f32::NAN);
        let dry_lengths = arena.in_out(&copied(&vec![0u32; self.logits.len()], copies, stride, 0x7fc0_1234));
        let items: Array<u32> = arena.output(words);
        let summaries: Array<u32> = arena.output(words);
        let moments: Array<u32> = arena.output(words);
        let candidates: Array<u32> = arena.output(words);
        let first_history = &self.tokens[..=self.position()];
        let counts = reference::window_counts(first_history, self.tables.params.penalty_window, vocabulary);
        let params = SamplerParams {
            biases: arena.input(&self.tables.biases).address,
            dry_penalties: arena.input(&self.tables.dry_penalties).address,
            breakers: arena.input(&self.tables.breakers).address,
            tails: arena.input(&self.tables.tails).address,
            counts: arena.input(&counts).address,
            ..self.tables.params
        };
        let step_input = match self.limits {
            StepLimits { mask: None, biases: [] } => None,
            limits => Some(arena.input(&step_input(limits, vocabulary)).address),
        };
        let lane = Lane {
            samplers: arena.input(&[params]).address,
            tokens: arena.input(self.tokens).address,
            gate: if step_input.is_some() { GATE_GUIDE } else { GATE_OPEN },
            ..self.lane(0)
        };
        let state = arena.state(StepState::new(lane, &self.tokens[self.position()..]));
        let strided = |address| Rows { address, stride: stride as u32 };
        let logits = strided(arena.input(&logits).address);
        let buffers = SamplerBuffers {
            dry_lengths: strided(dry_lengths.address),
            items: strided(items.address),
            shares: strided(summaries.address),
            moments: strided(moments.address),
        };
        let step_inputs = PerLane { address: step_input.unwrap_or(0), stride: 0 };
        let shape = StepShape::of(copies as u32);
        let dry = Dry { state, buffers, shape };
        let adjust = Adjust { state, logits, buffers, step_inputs, vocabulary, shape };
        let choose = Choose { state, logits, buffers, candidates: strided(candidates.address), vocabulary, shape };
        let own = |array: Array<u32>, copy: usize, bytes: usize| -> Vec<u8> {
            bytemuck::cast_slice(&arena.read(array))[copy * stride..][..bytes].to_vec()
        };
        let mut lengths = vec![Vec::new(); copies];
        if self.tables.params.dry_window != 0 {
            arena.run(&[dry.dispatch(target)]);
            lengths = (0..copies).map(|copy| values(&own(dry_lengths, copy, self.logits.len() * 4))).collect();
        }
        arena.run(&[adjust.dispatch(target), choose.dispatch(target)]);
        assert!(
            (0..copies).all(|copy| own(dry_lengths, copy, self.logits.len() * 4).iter().all(|byte| *byte == 0)),
            "lengths of repetitions are left behind"
        );
        let stages = |copy: usize| {
            let parts: Vec<u32> = values(&own(items, copy, item_bytes));
            let summaries: Vec<Share> = values(&own(summaries, copy, shares * size_of::<Share>()));
            Stages {
                dry_lengths: std::mem::take(&mut lengths[copy]),
                lists: read_lists(&parts, &summaries),
                moments: values(&own(moments, copy, shares * size_of::<Moments>())),
                candidate: values(&own(candidates, copy, size_of::<Candidate>()))[0],
            }
        };
        (0..copies).map(stages).collect()
    }

    /// Compares the kernels with the reference, bit for bit, for each row of the step. Returns what was chosen.
    #[track_caller]
    pub(crate) fn check(&self, name: &str) -> Vec<Candidate> {
        self.check_on(name, &Gpu::get().target())
    }

    /// As [`Case::check`], with the launch shapes of a target.
    #[track_caller]
    pub(crate) fn check_on(&self, name: &str, target: &Target) -> Vec<Candidate> {
        let found = self.on_the_device(target);
        for (index, found) in found.iter().enumerate() {
            let expected = self.on_the_host(index as u32);
            if self.tables.params.dry_window != 0 {
                assert_eq!(found.dry_lengths, expected.dry_lengths, "{name}: DRY's lengths of row {index}");
            }
            assert_eq!(found.lists.len(), expected.lists.len(), "{name}: shares");
            for (share, (found, expected)) in found.lists.iter().zip(&expected.lists).enumerate() {
                assert_eq!(found.share, expected.share, "{name}: share {share} of row {index}");
                assert_eq!(bits(&found.items), bits(&expected.items), "{name}: list {share} of row {index}");
            }
            if self.tables.params.sigma_squared != u32::MAX {
                assert_eq!(found.moments, expected.moments, "{name}: moments of row {index}");
            }
            let words = |candidate| bytemuck::cast::<Candidate, [u32; 4]>(candidate);
            let (found, expected) = (found.candidate, expected.candidate);
            assert_eq!(words(found), words(expected), "{name}: row {index} is {found:?} instead of {expected:?}");
        }
        found.into_iter().map(|stages| stages.candidate).collect()
    }
}

fn bits(items: &[Item]) -> Vec<(u32, u32, u32)> {
    items.iter().map(|item| (item.id, item.logit.to_bits(), item.score.to_bits())).collect()
}

/// Copies of some values, `stride` bytes apart, with `between` in the gaps.
fn copied<T: Copy>(values: &[T], copies: usize, stride: usize, between: T) -> Vec<T> {
    let mut all = vec![between; copies * stride / size_of::<T>()];
    for copy in all.chunks_mut(stride / size_of::<T>()) {
        copy[..values.len()].copy_from_slice(values);
    }
    all
}

/// What the host says of a step, as bytes. Where there are as many biases as can be, it claims to have more: kernels must not look for them.
fn step_input(limits: StepLimits<'_>, vocabulary: u32) -> Vec<u8> {
    assert!(limits.biases.len() <= MAX_STEP_BIASES as usize, "{} biases of a step", limits.biases.len());
    let count = limits.biases.len() as u32;
    let bias_count = if count == MAX_STEP_BIASES { u32::MAX } else { count };
    let header = StepInput { has_mask: limits.mask.is_some().into(), bias_count };
    let mut bytes = bytemuck::bytes_of(&header).to_vec();
    bytes.extend(bytemuck::cast_slice::<Bias, u8>(limits.biases));
    bytes.resize(STEP_MASK_OFFSET as usize, 0xa5);
    bytes.extend(bytemuck::cast_slice::<u32, u8>(limits.mask.unwrap_or(&[])));
    bytes.resize(step_input_bytes(vocabulary) as usize, 0xa5);
    bytes
}

/// Lists out of the words that a kernel left.
pub(crate) fn read_lists(words: &[u32], summaries: &[Share]) -> Vec<ShareList> {
    let list = |(index, share): (usize, &Share)| {
        let word = |part: usize, entry: usize| words[(part * summaries.len() + index) * SHARE_IDS as usize + entry];
        let item = |entry: usize| Item {
            logit: f32::from_bits(word(0, entry)),
            id: word(1, entry),
            score: f32::from_bits(word(2, entry)),
        };
        ShareList { share: *share, items: (0..share.listed as usize).map(item).collect() }
    };
    summaries.iter().enumerate().map(list).collect()
}

/// Lists as the kernels hand them on: the words of logits, ids and scores.
pub(crate) fn list_words(lists: &[ShareList]) -> Vec<u32> {
    let part_words = lists.len() * SHARE_IDS as usize;
    let mut words = vec![0; 3 * part_words];
    for (share, list) in lists.iter().enumerate() {
        for (entry, item) in list.items.iter().enumerate() {
            let at = share * SHARE_IDS as usize + entry;
            words[at] = item.logit.to_bits();
            words[part_words + at] = item.id;
            words[2 * part_words + at] = item.score.to_bits();
        }
    }
    words
}
