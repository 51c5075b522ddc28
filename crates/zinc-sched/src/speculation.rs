//! When to speculate: a pure policy that compares what a token costs with drafts and without.

/// Whether an engine speculates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speculation {
    /// Never.
    Off,
    /// As long as it measures faster than not.
    #[default]
    Automatic,
    /// With every token.
    Always,
}

/// What speculative steps have brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Speculated {
    /// Speculative steps.
    pub steps: u64,
    /// Tokens that they sampled: one each, and one for each draft that was accepted.
    pub tokens: u64,
}

impl Speculated {
    /// Drafts accepted per step; `None` without steps.
    pub fn accepted_per_step(&self) -> Option<f64> {
        (self.steps > 0).then(|| (self.tokens - self.steps) as f64 / self.steps as f64)
    }
}

/// Steps that are timed without drafts before any is tried.
const PLAIN_STEPS: u32 = 8;
/// Speculative steps of a trial.
const TRIAL_STEPS: u32 = 3;
/// Tokens without drafts after the first trial that lost; doubled by each further one in a row.
const FIRST_PAUSE_TOKENS: u64 = 64;
/// The longest pause.
const LONGEST_PAUSE_TOKENS: u64 = 1 << 16;
/// Weight of the latest measurement in the running means.
const LATEST_WEIGHT: f64 = 0.125;

/// Decides step by step. Its memory outlives sequences, because what a draft is worth changes slowly.
///
/// It alternates between *plain* steps, a short *trial* of speculative ones, and *on*, which lasts until the running mean of a token's
/// cost exceeds that of plain steps. A trial that loses is repeated after a pause that doubles each time, so what trials cost is bounded.
#[derive(Debug, Clone)]
pub struct Policy {
    speculation: Speculation,
    stage: Stage,
    plain_ns: Option<f64>,
    drafted_ns: Option<f64>,
    pause_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Times plain steps, so many more.
    Timing {
        left: u32,
    },
    /// Submits so many more speculative steps, and judges when so many more have been observed.
    Trial {
        submits: u32,
        observations: u32,
    },
    On,
    Paused {
        left: u64,
    },
}

impl Policy {
    /// A policy that knows nothing yet.
    pub fn new(speculation: Speculation) -> Self {
        Self {
            speculation,
            stage: Stage::Timing { left: PLAIN_STEPS },
            plain_ns: None,
            drafted_ns: None,
            pause_tokens: FIRST_PAUSE_TOKENS,
        }
    }

    /// Whether drafts may be of use in a sequence of at most so many tokens.
    pub fn wants_drafts(&self, tokens: u32) -> bool {
        match (self.speculation, self.stage) {
            (Speculation::Off, _) => false,
            (Speculation::Always, _) | (_, Stage::On | Stage::Trial { .. }) => true,
            (_, Stage::Timing { left }) => tokens > left,
            (_, Stage::Paused { left }) => u64::from(tokens) > left,
        }
    }

    /// Whether the next step that is submitted speculates.
    pub fn speculates(&mut self) -> bool {
        match (self.speculation, &mut self.stage) {
            (Speculation::Off, _) => false,
            (Speculation::Always, _) => true,
            (_, Stage::On) => true,
            (_, Stage::Trial { submits, .. }) => {
                let more = *submits > 0;
                *submits = submits.saturating_sub(1);
                more
            }
            (_, Stage::Timing { .. } | Stage::Paused { .. }) => false,
        }
    }

    /// Takes an observed step that sampled `tokens`. `elapsed_ns` is the time since the step before it was observed, where that was one of
    /// the same kind.
    pub fn observed(&mut self, speculative: bool, tokens: u32, elapsed_ns: Option<u64>) {
        if self.speculation != Speculation::Automatic {
            return;
        }
        if let Some(elapsed_ns) = elapsed_ns
            && tokens > 0
        {
            let mean = if speculative { &mut self.drafted_ns } else { &mut self.plain_ns };
            let latest = elapsed_ns as f64 / f64::from(tokens);
            *mean = Some(mean.map_or(latest, |mean| mean + LATEST_WEIGHT * (latest - mean)));
        }
        let wins = self.wins();
        match &mut self.stage {
            Stage::Timing { left } if elapsed_ns.is_some() && !speculative => {
                *left -= 1;
                if *left == 0 {
                    self.stage = self.trial();
                }
            }
            Stage::Trial { observations, .. } if speculative => {
                *observations = observations.saturating_sub(1);
                if *observations == 0 {
                    self.judge();
                }
            }
            Stage::On if speculative && !wins => self.pause(),
            Stage::Paused { left } => {
                *left = left.saturating_sub(u64::from(tokens));
                if *left == 0 {
                    self.stage = self.trial();
                }
            }
            Stage::Timing { .. } | Stage::Trial { .. } | Stage::On => {}
        }
    }

    /// Forgets what was in flight, because the sequence has ended.
    pub fn ended(&mut self) {
        if let Stage::Trial { .. } = self.stage {
            self.stage = self.trial();
        }
    }

    fn trial(&mut self) -> Stage {
        self.drafted_ns = None;
        Stage::Trial { submits: TRIAL_STEPS, observations: TRIAL_STEPS }
    }

    fn judge(&mut self) {
        if self.wins() {
            self.pause_tokens = FIRST_PAUSE_TOKENS;
            self.stage = Stage::On;
        } else {
            self.pause();
        }
    }

    fn wins(&self) -> bool {
        matches!((self.plain_ns, self.drafted_ns), (Some(plain), Some(drafted)) if drafted < plain)
    }

    fn pause(&mut self) {
        self.stage = Stage::Paused { left: self.pause_tokens };
        self.pause_tokens = (2 * self.pause_tokens).min(LONGEST_PAUSE_TOKENS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs so many tokens where a plain step takes 100 ns and a speculative one `drafted_ns` for `run` tokens. Gives the time taken and
    /// the speculative steps.
    fn run(policy: &mut Policy, tokens: u32, drafted_ns: u64, run: u32) -> (u64, u32) {
        let (mut sampled, mut time_ns, mut speculative, mut before) = (0, 0, 0, None);
        while sampled < tokens {
            let speculates = policy.speculates();
            let (ns, count) = if speculates { (drafted_ns, run) } else { (100, 1) };
            time_ns += ns;
            sampled += count;
            speculative += u32::from(speculates);
            policy.observed(speculates, count, (before == Some(speculates)).then_some(ns));
            before = Some(speculates);
        }
        policy.ended();
        (time_ns, speculative)
    }

    #[test]
    fn drafts_that_pay_stay_on() {
        let mut policy = Policy::new(Speculation::Automatic);
        let (time_ns, _) = run(&mut policy, 1000, 200, 4);
        assert!(time_ns < 55_000, "{time_ns} ns where 100,000 are plain and 50,000 the best");
        let (time_ns, _) = run(&mut policy, 1000, 200, 4);
        assert_eq!(time_ns, 50_000, "a later sequence begins with what is known");
    }

    #[test]
    fn drafts_that_lose_cost_little() {
        let mut policy = Policy::new(Speculation::Automatic);
        let (time_ns, speculative) = run(&mut policy, 1000, 700, 5);
        assert!(speculative > 0 && time_ns < 103_000, "{speculative} steps, {time_ns} ns where 100,000 are plain");
        let (time_ns, _) = run(&mut policy, 10_000, 700, 5);
        assert!(time_ns < 1_010_000, "trials become rare: {time_ns} ns where 1,000,000 are plain");
    }

    #[test]
    fn what_turns_out_slow_is_switched_off() {
        let mut policy = Policy::new(Speculation::Automatic);
        run(&mut policy, 200, 200, 4);
        let (_, speculative) = run(&mut policy, 1000, 300, 1);
        assert!(speculative < 40, "{speculative} steps");
    }

    #[test]
    fn off_and_always_measure_nothing() {
        assert_eq!(run(&mut Policy::new(Speculation::Off), 100, 10, 4), (10_000, 0));
        assert_eq!(run(&mut Policy::new(Speculation::Always), 100, 1000, 1), (100_000, 100));
        assert!(!Policy::new(Speculation::Off).wants_drafts(1000));
        assert!(Policy::new(Speculation::Always).wants_drafts(1));
    }

    #[test]
    fn short_sequences_are_not_drafted_before_anything_is_known() {
        let policy = Policy::new(Speculation::Automatic);
        assert!(!policy.wants_drafts(PLAIN_STEPS) && policy.wants_drafts(PLAIN_STEPS + 1));
    }

    #[test]
    fn acceptance_counts_drafts_only() {
        assert_eq!(Speculated::default().accepted_per_step(), None);
        assert_eq!(Speculated { steps: 10, tokens: 35 }.accepted_per_step(), Some(2.5));
    }
}
