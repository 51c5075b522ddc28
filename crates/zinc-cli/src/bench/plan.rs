//! Which tests there are, in which order, and how much context they take. Pure.

use std::fmt;

use zinc_sched::InflightDepth;
use zinc_sched::adapter::Sync;

use crate::args::{BenchArgs, BenchSync};
use crate::error::{Error, Result};

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// So many prompt tokens are run through the model.
    Prompt(u32),
    /// So many tokens are generated.
    Generate(u32),
    /// The one, then the other.
    Both(u32, u32),
}

impl Work {
    /// Prompt tokens.
    pub(crate) fn prompt(self) -> u32 {
        match self {
            Self::Prompt(tokens) | Self::Both(tokens, _) => tokens,
            Self::Generate(_) => 0,
        }
    }

    /// Generated tokens.
    pub(crate) fn generated(self) -> u32 {
        match self {
            Self::Generate(tokens) | Self::Both(_, tokens) => tokens,
            Self::Prompt(_) => 0,
        }
    }

    /// All tokens: positions of the context that are taken.
    pub(crate) fn tokens(self) -> u32 {
        self.prompt().saturating_add(self.generated())
    }
}

/// One test: some work behind some context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) work: Work,
    /// Tokens of context before it.
    pub(crate) depth: u32,
}

/// llama-bench's name: `pp512`, `tg128 @ d4096`.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.work {
            Work::Prompt(tokens) => format!("pp{tokens}"),
            Work::Generate(tokens) => format!("tg{tokens}"),
            Work::Both(prompt, generated) => format!("pp{prompt}+tg{generated}"),
        };
        if self.depth == 0 { f.pad(&name) } else { f.pad(&format!("{name} @ d{}", self.depth)) }
    }
}

/// A way to drive the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drive {
    pub(crate) sync: Sync,
    pub(crate) in_flight: InflightDepth,
}

impl Drive {
    /// What `zinc run` does without flags.
    pub(crate) const TIMELINE: Self = Self { sync: Sync::Timeline, in_flight: InflightDepth::DEFAULT };
    /// The fence baseline.
    pub(crate) const FENCE: Self = Self { sync: Sync::Fence, in_flight: InflightDepth::ONE };

    /// The word on the command line.
    pub(crate) fn sync_name(self) -> &'static str {
        match self.sync {
            Sync::Timeline => "timeline",
            Sync::FenceKept => "fence-kept",
            Sync::Fence => "fence",
        }
    }
}

/// All tests of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BenchPlan {
    /// Depths in rising order, so that the context of one is the start of the next one's.
    pub(crate) depths: Vec<u32>,
    /// What is timed at each depth.
    pub(crate) works: Vec<Work>,
    /// How each of it is driven.
    pub(crate) drives: Vec<Drive>,
    /// Tokens of context that all of it takes.
    pub(crate) context: u32,
}

impl BenchPlan {
    /// The tests that were asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are none, or their context does not fit 32 bits.
    pub(crate) fn new(args: &BenchArgs) -> Result<Self> {
        let mut depths = args.n_depth.clone();
        depths.sort_unstable();
        depths.dedup();
        let prompts = args.n_prompt.iter().map(|&tokens| Work::Prompt(tokens));
        let generations = args.n_gen.iter().map(|&tokens| Work::Generate(tokens));
        let both = args.n_prompt_gen.iter().map(|&(prompt, generated)| Work::Both(prompt, generated));
        let works: Vec<Work> = prompts.chain(generations).chain(both).filter(|work| work.tokens() > 0).collect();
        let timeline = args.depth.iter().map(|&in_flight| Drive { sync: Sync::Timeline, in_flight });
        let drives = match args.sync {
            BenchSync::Timeline => timeline.collect(),
            BenchSync::Fence => vec![Drive::FENCE],
            BenchSync::Both => timeline.chain([Drive::FENCE]).collect(),
        };
        let deepest = depths.last().copied().unwrap_or(0);
        let Some(longest) = works.iter().map(|work| work.tokens()).max() else {
            return Err(Error::usage("there is nothing to time: -p and -n are both 0"));
        };
        let Some(context) = deepest.checked_add(longest) else {
            return Err(Error::usage(format!("{deepest} tokens of -d and {longest} of -p or -n are no context")));
        };
        Ok(Self { depths, works, drives, context })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::{self, Command};

    fn plan(line: &[&str]) -> Result<BenchPlan> {
        let line = ["zinc", "bench"].iter().chain(line).map(OsString::from);
        match args::parse(line)? {
            Command::Bench(args) => BenchPlan::new(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_llama_bench() {
        let plan = plan(&[]).unwrap();
        assert_eq!((plan.depths, plan.works), (vec![0], vec![Work::Prompt(512), Work::Generate(128)]));
        assert_eq!(plan.drives, [Drive { sync: Sync::Timeline, in_flight: InflightDepth::DEFAULT }]);
        assert_eq!(plan.context, 512);
    }

    #[test]
    fn lists_are_sorted_by_depth_and_the_context_holds_all() {
        let plan = plan(&["-p", "0", "-n", "16,32", "-d", "100,0,50", "--sync", "both", "--depth", "1,8"]).unwrap();
        assert_eq!(plan.depths, [0, 50, 100]);
        assert_eq!(plan.works, [Work::Generate(16), Work::Generate(32)]);
        assert_eq!(
            plan.drives.iter().map(|drive| drive.sync_name()).collect::<Vec<_>>(),
            ["timeline", "timeline", "fence"]
        );
        assert_eq!(plan.context, 132);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in
            [&["-p", "0", "-n", "0"][..], &["-d", "4294967295"], &["-r", "0"], &["--depth", "2,9"], &["-p", "x"]]
        {
            assert!(matches!(plan(line), Err(Error::Usage { .. })), "{line:?}");
        }
    }

    #[test]
    fn prompt_and_generation_together() {
        let plan = plan(&["-p", "0", "-n", "0", "-pg", "12,3", "-pg", "4,5", "-d", "6"]).unwrap();
        assert_eq!((plan.works, plan.context), (vec![Work::Both(12, 3), Work::Both(4, 5)], 21));
        for bad in ["12", "0,3", "3,0", "1,2,3", "a,b"] {
            assert!(matches!(super::tests::plan(&["-pg", bad]), Err(Error::Usage { .. })), "{bad}");
        }
    }

    #[test]
    fn tests_have_llama_benchs_names() {
        assert_eq!(Test { work: Work::Prompt(512), depth: 0 }.to_string(), "pp512");
        assert_eq!(Test { work: Work::Generate(64), depth: 4096 }.to_string(), "tg64 @ d4096");
        assert_eq!(Test { work: Work::Both(8, 2), depth: 0 }.to_string(), "pp8+tg2");
    }
}
