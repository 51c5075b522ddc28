//! When to use speculative decoding: a pure policy that compares the time per token with drafts and without.

use crate::step::StepKind;

/// When an engine uses speculative decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeculationMode {
    /// In no step.
    Off,
    /// As long as measurements say that it is faster.
    #[default]
    Automatic,
    /// In every step that samples.
    Always,
}

/// How many steps speculated, what they drafted and how many tokens they sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SpeculationStats {
    /// Steps that drafted and verified.
    pub steps: u64,
    /// Tokens that these steps sampled: one per step, and one for each accepted draft. An end-of-generation id counts. Tokens that a device
    /// sampled behind an end-of-generation id it does not know do not count.
    pub tokens: u64,
    /// Drafts of these steps, accepted or not.
    pub drafts: u64,
}

impl SpeculationStats {
    /// How many drafts were accepted. Counts that were read at different moments may say too few.
    pub fn accepted(&self) -> u64 {
        self.tokens.saturating_sub(self.steps)
    }

    /// Mean number of accepted drafts per step; `None` if there were no steps.
    pub fn accepted_per_step(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.accepted() as f64 / self.steps as f64)
    }

    /// Adds those of other steps.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.tokens += other.tokens;
        self.drafts += other.drafts;
    }
}

/// The most sequences that may run where steps speculate. One alone leaves the device room for drafts, which others' rows need otherwise; the kernels that make
/// drafts make them for one lane.
pub(crate) const MOST_LANES_WITH_DRAFTS: usize = 1;

/// How many plain steps (`Decode`) are timed before speculation is tried for the first time.
const TIMED_STEPS: usize = 8;
/// How many plain steps are timed again after speculation has been on for [`ON_TOKENS`].
const RETIMED_STEPS: usize = 4;
/// How many speculative steps a trial has.
const TRIAL_STEPS: u32 = 3;
/// The fewest tokens that are sampled without drafts after a trial that lost time.
const LEAST_PAUSE_TOKENS: u64 = 32;
/// The most tokens that are sampled without drafts before the next trial.
const LONGEST_PAUSE_TOKENS: u64 = 1 << 16;
/// For each plain step's time that speculation lost, the pause that follows lasts this many tokens. This bounds the loss to 2 %.
const PAUSE_TOKENS_PER_LOST: u64 = 50;
/// Speculation is switched off when it has lost this many plain steps' time since its best moment.
const MOST_BEHIND_TOKENS: i64 = 8;
/// How many tokens are sampled with speculation on before plain steps are timed again: their time changes, for example with the length of
/// the context.
const ON_TOKENS: u64 = 512;

/// What it costs to draft again in the middle of a sequence, after steps without drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumeCost {
    /// Nothing, as with drafts that are looked up in the sequence itself.
    #[default]
    Free,
    /// A draft model must first be fed every token that it has missed. A pause therefore lasts at least to the end of the sequence.
    CatchUp,
}

/// Decides for each step whether it speculates. Its memory outlives sequences, because the worth of drafts changes slowly.
///
/// It times a few plain steps, tries a few speculative ones, and compares the time that these took with the time that plain steps would have
/// taken for as many tokens. It compares sums, because a step that samples seven tokens makes up for six that sample one each. If the trial
/// wins, speculation stays on until it has lost too much time. After that, or after a trial that loses, there is a pause, which is the
/// longer the more time was lost.
#[derive(Debug, Clone)]
pub struct SpeculationPolicy {
    speculation: SpeculationMode,
    stage: Stage,
    /// Times of the latest plain steps.
    plain: PlainSteps,
    /// The kind of the last observed step of the running sequence, and when it was observed.
    before: Option<(StepKind, u64)>,
    /// How many trials in a row have lost more than the shortest pause makes up for. Each of them doubles the pause after the next.
    losses: u32,
    /// What it costs the running sequence to draft again after a pause.
    resume_cost: ResumeCost,
}

/// Times of the latest plain steps, in ns.
#[derive(Debug, Clone, Default)]
struct PlainSteps {
    /// The last [`TIMED_STEPS`] times; entry `n % TIMED_STEPS` is that of step `n`.
    ring_ns: [u64; TIMED_STEPS],
    /// How many steps were timed in all.
    timed: usize,
}

impl PlainSteps {
    fn push(&mut self, took_ns: u64) {
        self.ring_ns[self.timed % TIMED_STEPS] = took_ns;
        self.timed += 1;
    }

    /// The time of one plain step, in ns: the median, which a single step that was held up does not move.
    fn step_ns(&self) -> Option<u64> {
        let mut sorted = self.ring_ns;
        let sorted = &mut sorted[..self.timed.min(TIMED_STEPS)];
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// What the policy is doing at present.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// It times plain steps until `steps` of them are timed.
    Timing { steps: usize },
    /// It tries speculation: `submits` more speculative steps are to be submitted, and the trial is judged when `observations` more of them
    /// have been observed.
    Trial { submits: u32, observations: u32, balance: Balance },
    /// It speculates for `left` more tokens.
    On { left: u64, balance: Balance },
    /// It does not speculate for `left` more tokens.
    Paused { left: u64 },
}

/// The time that speculative steps took beyond the time of as many tokens without drafts, in ns; negative is a gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Balance {
    /// The sum over all speculative steps of the stage.
    lost_ns: i64,
    /// The sum over the speculative steps that followed another speculative step. The time of the first one of a row contains other work: a
    /// draft model is fed what it has missed, or the sequence has just begun.
    steady_ns: i64,
    /// The time lost since the moment at which [`steady_ns`](Self::steady_ns) was lowest, never negative.
    behind_ns: i64,
}

impl Balance {
    /// Adds one speculative step that took `excess_ns` longer than plain steps would have.
    fn add(&mut self, excess_ns: i64, steady: Steady) {
        self.lost_ns = self.lost_ns.saturating_add(excess_ns);
        if steady == Steady::Yes {
            self.steady_ns = self.steady_ns.saturating_add(excess_ns);
            self.behind_ns = self.behind_ns.saturating_add(excess_ns).max(0);
        }
    }
}

/// Whether the step before the one that is looked at was of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steady {
    Yes,
    No,
}

impl SpeculationPolicy {
    /// A policy that has timed nothing yet.
    pub fn new(speculation: SpeculationMode) -> Self {
        Self {
            speculation,
            stage: Stage::Timing { steps: TIMED_STEPS },
            plain: PlainSteps::default(),
            before: None,
            losses: 0,
            resume_cost: ResumeCost::Free,
        }
    }

    /// Whether a sequence of at most `tokens` sampled tokens may come to use drafts. If not, the model need not prepare for them.
    pub fn wants_drafts(&self, tokens: u32, resume_cost: ResumeCost) -> bool {
        match (self.speculation, self.stage) {
            (SpeculationMode::Off, _) => false,
            (SpeculationMode::Always, _) | (_, Stage::On { .. } | Stage::Trial { .. }) => true,
            (_, Stage::Timing { steps }) => tokens as usize > steps.saturating_sub(self.plain.timed),
            (_, Stage::Paused { left }) => match resume_cost {
                ResumeCost::Free => u64::from(tokens) > left,
                ResumeCost::CatchUp => left == 0,
            },
        }
    }

    /// Whether the step that is submitted next speculates. To be called once for each step that samples.
    pub fn speculates(&mut self) -> bool {
        match (self.speculation, &mut self.stage) {
            (SpeculationMode::Off, _) | (SpeculationMode::Automatic, Stage::Timing { .. } | Stage::Paused { .. }) => {
                false
            }
            (SpeculationMode::Always, _) | (SpeculationMode::Automatic, Stage::On { .. }) => true,
            (SpeculationMode::Automatic, Stage::Trial { submits, .. }) => {
                let more = *submits > 0;
                *submits = submits.saturating_sub(1);
                more
            }
        }
    }

    /// Notes that a sequence begins at `at_ns`.
    pub fn begun(&mut self, at_ns: u64, resume_cost: ResumeCost) {
        self.resume_cost = resume_cost;
        if self.stage == (Stage::Paused { left: 0 }) {
            self.stage = Stage::trial();
        }
        // The first step is measured from here, as if a prompt token had just been observed.
        self.before = Some((StepKind::Feed, at_ns));
    }

    /// Notes a step of the sequence that was observed at `at_ns` and sampled `tokens`. Steps must come in the order of submission.
    pub fn observed(&mut self, kind: StepKind, tokens: u32, at_ns: u64) {
        if self.speculation != SpeculationMode::Automatic {
            return;
        }
        let Some((before, before_ns)) = self.before.replace((kind, at_ns)) else { return };
        let took_ns = at_ns.saturating_sub(before_ns);
        let steady = if before == kind { Steady::Yes } else { Steady::No };
        match (kind, steady) {
            (StepKind::Feed | StepKind::FeedDecode, _) | (StepKind::Decode, Steady::No) => {}
            (StepKind::Decode, Steady::Yes) => self.plain.push(took_ns),
            (StepKind::Speculate, _) => self.charge(took_ns, tokens, steady),
        }
        self.sampled(kind, tokens);
    }

    /// Notes that the device has done something else up to `at_ns`: the next step is measured from there. Steps of a trial that are in flight do not come to its
    /// judgement, unless they are observed later.
    pub fn interrupted(&mut self, at_ns: u64) {
        self.before = Some((StepKind::Feed, at_ns));
        self.repeat_submits();
    }

    /// Notes that the sequence has ended. Steps that were still in flight will not be reported.
    pub fn ended(&mut self) {
        self.before = None;
        self.repeat_submits();
    }

    /// Lets as many steps of a trial be submitted as it has still to observe.
    fn repeat_submits(&mut self) {
        if let Stage::Trial { submits, observations, .. } = &mut self.stage {
            *submits = *observations;
        }
    }

    /// Compares the time of a speculative step with that of plain steps, and adds the difference to the balance of the stage.
    fn charge(&mut self, took_ns: u64, tokens: u32, steady: Steady) {
        let Some(plain_ns) = self.plain.step_ns() else { return };
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let excess_ns = signed(took_ns).saturating_sub(signed(plain_ns.saturating_mul(u64::from(tokens))));
        match &mut self.stage {
            Stage::Trial { balance, .. } | Stage::On { balance, .. } => balance.add(excess_ns, steady),
            // The step was in flight when speculation was switched off, so its loss makes the pause longer.
            Stage::Paused { left } => *left = (*left + pause_for(excess_ns, plain_ns)).min(LONGEST_PAUSE_TOKENS),
            Stage::Timing { .. } => {}
        }
    }

    /// Counts the tokens of an observed step, and moves on to the next stage if the present one is over.
    fn sampled(&mut self, kind: StepKind, tokens: u32) {
        let speculative = kind == StepKind::Speculate;
        let plain_ns = self.plain.step_ns();
        match &mut self.stage {
            Stage::Timing { steps } if self.plain.timed >= *steps => self.stage = Stage::trial(),
            Stage::Trial { observations, balance, .. } if speculative => {
                *observations = observations.saturating_sub(1);
                if *observations > 0 {
                    return;
                }
                let balance = *balance;
                if balance.steady_ns < 0 {
                    self.losses = 0;
                    self.stage = Stage::On { left: ON_TOKENS, balance: Balance::default() };
                } else {
                    self.pause(balance);
                }
            }
            Stage::On { left, balance } if speculative => {
                let most_ns = i64::try_from(plain_ns.unwrap_or(0)).unwrap_or(i64::MAX);
                *left = left.saturating_sub(u64::from(tokens));
                if balance.behind_ns > most_ns.saturating_mul(MOST_BEHIND_TOKENS) {
                    let balance = *balance;
                    self.pause(balance);
                } else if *left == 0 {
                    self.plain = PlainSteps::default();
                    self.stage = Stage::Timing { steps: RETIMED_STEPS };
                }
            }
            Stage::Paused { left } => {
                *left = left.saturating_sub(u64::from(tokens));
                if *left == 0 && self.resume_cost == ResumeCost::Free {
                    self.stage = Stage::trial();
                }
            }
            Stage::Timing { .. } | Stage::Trial { .. } | Stage::On { .. } => {}
        }
    }

    /// Begins a pause that makes up for what was lost.
    fn pause(&mut self, balance: Balance) {
        let owed = pause_for(balance.lost_ns, self.plain.step_ns().unwrap_or(0)).max(LEAST_PAUSE_TOKENS);
        let left = owed.saturating_mul(1 << self.losses.min(16)).min(LONGEST_PAUSE_TOKENS);
        self.stage = Stage::Paused { left };
        // Drafts that nearly pay may pay soon, and a trial of them is cheap, unless a draft model has to take every token in for it.
        if owed > LEAST_PAUSE_TOKENS || self.resume_cost == ResumeCost::CatchUp {
            self.losses += 1;
        }
    }
}

impl Stage {
    fn trial() -> Self {
        Self::Trial { submits: TRIAL_STEPS, observations: TRIAL_STEPS, balance: Balance::default() }
    }
}

/// How many tokens without drafts make up for `lost_ns`, where a plain step takes `plain_ns`.
fn pause_for(lost_ns: i64, plain_ns: u64) -> u64 {
    let lost_ns = u64::try_from(lost_ns).unwrap_or(0);
    (lost_ns.saturating_mul(PAUSE_TOKENS_PER_LOST) / plain_ns.max(1)).min(LONGEST_PAUSE_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a sequence of `tokens` tokens. A plain step takes `plain_ns`; a speculative one takes `drafted_ns` and samples as many tokens as
    /// the next entry of `runs`, which starts over at its end. Returns the time taken in ns and the number of speculative steps.
    fn sequence(
        policy: &mut SpeculationPolicy,
        tokens: u32,
        plain_ns: u64,
        drafted_ns: u64,
        runs: &[u32],
    ) -> (u64, u32) {
        let (mut sampled, mut at_ns, mut speculative) = (0, 0, 0);
        let mut runs = runs.iter().cycle();
        let drafted = policy.wants_drafts(tokens, ResumeCost::Free);
        policy.begun(0, ResumeCost::Free);
        while sampled < tokens {
            let (kind, ns, count) = if drafted && policy.speculates() {
                speculative += 1;
                (StepKind::Speculate, drafted_ns, *runs.next().unwrap())
            } else {
                (StepKind::Decode, plain_ns, 1)
            };
            at_ns += ns;
            sampled += count;
            policy.observed(kind, count, at_ns);
        }
        policy.ended();
        (at_ns, speculative)
    }

    fn automatic() -> SpeculationPolicy {
        SpeculationPolicy::new(SpeculationMode::Automatic)
    }

    #[test]
    fn drafts_that_pay_stay_on() {
        let mut policy = automatic();
        let (ns, _) = sequence(&mut policy, 500, 100, 200, &[4]);
        assert!(ns < 27_000, "{ns} ns where 50,000 are plain and 25,000 the best");
        let (ns, _) = sequence(&mut policy, 10_000, 100, 200, &[4]);
        assert!(ns < 510_000, "{ns} ns where 1,000,000 are plain and 500,000 the best");
    }

    #[test]
    fn runs_are_weighed_by_what_they_bring() {
        // 8 tokens in 400 ns, where plain steps need 800; yet a token of the short runs costs 200.
        let mut policy = automatic();
        let (ns, _) = sequence(&mut policy, 10_000, 100, 200, &[7, 1]);
        assert!(ns < 515_000, "{ns} ns where 1,000,000 are plain and 500,000 the best");
    }

    #[test]
    fn drafts_that_lose_cost_little() {
        for (drafted_ns, run) in [(101, 1), (150, 1), (700, 5), (700, 1), (5_000, 1), (1_000_000, 8)] {
            let mut policy = automatic();
            let trial_ns = 3 * (drafted_ns - 100 * u64::from(run));
            let (ns, speculative) = sequence(&mut policy, 1000, 100, drafted_ns, &[run]);
            assert!(speculative > 0 && ns <= 100_000 * 102 / 100 + 2 * trial_ns, "{ns} ns at {drafted_ns} for {run}");
            let mut more_ns = 0;
            for _ in 0..100 {
                more_ns += sequence(&mut policy, 1000, 100, drafted_ns, &[run]).0;
            }
            assert!(more_ns <= 10_000_000 * 102 / 100 + trial_ns, "{more_ns} ns where 10,000,000 are plain");
        }
    }

    #[test]
    fn many_short_sequences_do_not_try_for_ever() {
        for tokens in 1..12 {
            let mut policy = automatic();
            let mut ns = 0;
            for _ in 0..2000 {
                ns += sequence(&mut policy, tokens, 100, 300, &[1]).0;
            }
            let plain_ns = 2000 * u64::from(tokens) * 100;
            assert!(ns <= plain_ns * 103 / 100, "{ns} ns in sequences of {tokens} where {plain_ns} are plain");
        }
    }

    #[test]
    fn what_turns_out_slow_is_switched_off() {
        let mut policy = automatic();
        sequence(&mut policy, 200, 100, 200, &[4]);
        let (ns, speculative) = sequence(&mut policy, 10_000, 100, 300, &[1]);
        assert!(speculative < 30 && ns < 1_020_000, "{speculative} steps, {ns} ns where 1,000,000 are plain");
    }

    #[test]
    fn plain_steps_that_become_faster_are_noticed() {
        let mut policy = automatic();
        // With a long context a plain step takes 1,000 ns, with a short one 100.
        sequence(&mut policy, 200, 1000, 1200, &[4]);
        let (ns, _) = sequence(&mut policy, 10_000, 100, 500, &[4]);
        assert!(ns < 1_030_000, "{ns} ns where 1,000,000 are plain");
    }

    #[test]
    fn a_plain_step_that_was_held_up_does_not_turn_speculation_on() {
        let mut policy = automatic();
        let mut at_ns = 0;
        policy.begun(0, ResumeCost::Free);
        for took_ns in [0, 100_000, 100, 100, 100, 100, 100, 100, 100] {
            at_ns += took_ns;
            policy.observed(StepKind::Decode, 1, at_ns);
        }
        policy.ended();
        assert!(policy.speculates());
        let (_, speculative) = sequence(&mut policy, 60, 100, 150, &[1]);
        assert_eq!(speculative, 2, "the rest of the trial");
    }

    #[test]
    fn what_the_device_does_for_others_is_not_timed() {
        let mut policy = automatic();
        let mut at_ns = 0;
        policy.begun(0, ResumeCost::Free);
        let mut speculative = 0;
        for step in 0..1_000 {
            let (kind, took_ns, tokens) =
                if policy.speculates() { (StepKind::Speculate, 200, 4) } else { (StepKind::Decode, 100, 1) };
            speculative += u32::from(kind == StepKind::Speculate);
            // Every fifth step waits for a prompt of another sequence.
            if step % 5 == 4 {
                at_ns += 1_000_000;
                policy.interrupted(at_ns);
            }
            at_ns += took_ns;
            policy.observed(kind, tokens, at_ns);
        }
        assert!(speculative > 900, "{speculative} of 1,000 steps, where drafts halve the time of a token");
        assert_eq!(policy.plain.step_ns(), Some(100));
    }

    #[test]
    fn a_trial_that_others_interrupt_goes_on_later() {
        let mut policy = automatic();
        policy.begun(0, ResumeCost::Free);
        (0..=TIMED_STEPS as u64).for_each(|step| policy.observed(StepKind::Decode, 1, 100 * step));
        let trial = |policy: &mut SpeculationPolicy| (0..10).take_while(|_| policy.speculates()).count() as u32;
        assert_eq!(trial(&mut policy), TRIAL_STEPS);
        policy.observed(StepKind::Speculate, 1, 1_100);
        policy.interrupted(5_000);
        assert_eq!(trial(&mut policy), TRIAL_STEPS - 1, "the steps that were not observed");
        (1..TRIAL_STEPS).for_each(|step| policy.observed(StepKind::Speculate, 1, 5_000 + 300 * u64::from(step)));
        assert!(matches!(policy.stage, Stage::Paused { .. }), "{:?}", policy.stage);
    }

    #[test]
    fn off_and_always_measure_nothing() {
        assert_eq!(sequence(&mut SpeculationPolicy::new(SpeculationMode::Off), 100, 100, 10, &[4]), (10_000, 0));
        assert_eq!(
            sequence(&mut SpeculationPolicy::new(SpeculationMode::Always), 100, 100, 1000, &[1]),
            (100_000, 100)
        );
        assert!(!SpeculationPolicy::new(SpeculationMode::Off).wants_drafts(1000, ResumeCost::Free));
        assert!(SpeculationPolicy::new(SpeculationMode::Always).wants_drafts(1, ResumeCost::Free));
    }

    #[test]
    fn short_sequences_are_not_drafted_before_anything_is_known() {
        let policy = automatic();
        assert!(
            !policy.wants_drafts(TIMED_STEPS as u32, ResumeCost::Free)
                && policy.wants_drafts(TIMED_STEPS as u32 + 1, ResumeCost::Free)
        );
    }

    #[test]
    fn times_beyond_all_measure_do_not_overflow() {
        let mut policy = automatic();
        policy.begun(0, ResumeCost::Free);
        for (kind, tokens) in [(StepKind::Decode, 1), (StepKind::Speculate, 8)].into_iter().cycle().take(100) {
            policy.observed(kind, tokens, 0);
            policy.observed(kind, tokens, u64::MAX);
        }
    }

    #[test]
    fn acceptance_counts_drafts_only() {
        assert_eq!(SpeculationStats::default().accepted_per_step(), None);
        assert_eq!(SpeculationStats { steps: 10, tokens: 35, drafts: 30 }.accepted_per_step(), Some(2.5));
    }

    #[test]
    fn what_is_dear_to_resume_stays_off_to_the_end_of_the_sequence() {
        let mut policy = automatic();
        let mut at_ns = 0;
        let mut run = |policy: &mut SpeculationPolicy, tokens: u32| {
            let (mut sampled, mut speculative_at) = (0, Vec::new());
            let drafted = policy.wants_drafts(tokens, ResumeCost::CatchUp);
            policy.begun(at_ns, ResumeCost::CatchUp);
            while sampled < tokens {
                let speculates = drafted && policy.speculates();
                let (kind, ns) = if speculates { (StepKind::Speculate, 1_000) } else { (StepKind::Decode, 100) };
                if speculates {
                    speculative_at.push(sampled);
                }
                at_ns += ns;
                sampled += 1;
                policy.observed(kind, 1, at_ns);
            }
            policy.ended();
            speculative_at
        };
        assert_eq!(run(&mut policy, 10_000).len(), TRIAL_STEPS as usize, "one trial, however long the sequence");
        assert!(
            run(&mut policy, 10)[..3] == [0, 1, 2],
            "the next comes with the next sequence, before anything is missed"
        );
        assert!(run(&mut policy, 10).is_empty(), "and the pause is a longer one");
    }
}
