//! Plans which tests are run, in which order, and how much context they take. Nothing is measured here.

use std::fmt;
use std::time::Duration;

use zinc_sched::adapter::{Queues, Sync};
use zinc_sched::{InflightDepth, SpeculativeDecoding};

use crate::args::{BenchArgs, BenchControl, BenchSync};
use crate::error::{Error, Result};

/// The work that a test times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Running this many prompt tokens through the model.
    Prompt(u32),
    /// Generating this many tokens.
    Generate(u32),
    /// Running this many prompt tokens, then generating this many tokens.
    Both(u32, u32),
}

impl Work {
    /// The number of prompt tokens.
    pub(crate) fn prompt(self) -> u32 {
        match self {
            Self::Prompt(tokens) | Self::Both(tokens, _) => tokens,
            Self::Generate(_) => 0,
        }
    }

    /// The number of generated tokens.
    pub(crate) fn generated(self) -> u32 {
        match self {
            Self::Generate(tokens) | Self::Both(_, tokens) => tokens,
            Self::Prompt(_) => 0,
        }
    }

    /// The number of all tokens, which is how many positions of the context they take.
    pub(crate) fn tokens(self) -> u32 {
        self.prompt().saturating_add(self.generated())
    }
}

/// One test: some work, with some context before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) work: Work,
    /// Tokens of context before the work.
    pub(crate) depth: u32,
}

/// The name that llama-bench gives the test: `pp512`, `tg128 @ d4096`.
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
    /// On which queue steps are to sample. With a fence the forward pass and sampling run on one queue.
    pub(crate) queues: Queues,
    pub(crate) control: BenchControl,
    /// Time for which the host is kept busy after every token.
    pub(crate) host_work: Duration,
    pub(crate) speculative: SpeculativeDecoding,
}

impl Drive {
    /// How `zinc run` drives the model without flags.
    pub(crate) const TIMELINE: Self = Self {
        sync: Sync::Timeline,
        in_flight: InflightDepth::DEFAULT,
        queues: Queues::One,
        control: BenchControl::Gpu,
        host_work: Duration::ZERO,
        speculative: SpeculativeDecoding::Off,
    };
    /// The fence baseline.
    pub(crate) const FENCE: Self = Self { sync: Sync::Fence, in_flight: InflightDepth::ONE, ..Self::TIMELINE };
    /// The fence with recordings that are kept.
    pub(crate) const FENCE_KEPT: Self = Self { sync: Sync::FenceKept, ..Self::FENCE };

    /// The drive that this one is compared with: the fence baseline with the same control, the same busy time of the
    /// host and the same drafts.
    pub(crate) fn baseline(self) -> Self {
        Self { sync: Sync::Fence, in_flight: InflightDepth::ONE, queues: Queues::One, ..self }
    }

    /// Returns this drive without drafts.
    pub(crate) fn undrafted(self) -> Self {
        Self { speculative: SpeculativeDecoding::Off, ..self }
    }

    /// The value of `--sync` that asks for this way of waiting.
    pub(crate) fn sync_name(self) -> &'static str {
        match self.sync {
            Sync::Timeline => "timeline",
            Sync::FenceKept => "fence-kept",
            Sync::Fence => "fence",
        }
    }
}

/// How the host waits for the GPU, in words: `timeline 4`, `fence`.
impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sync {
            Sync::Timeline => f.pad(&format!("timeline {}", self.in_flight)),
            Sync::FenceKept | Sync::Fence => f.pad(self.sync_name()),
        }
    }
}

/// Why the model is driven in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The tests that were asked for are run.
    Tests,
    /// All ways to wait for the GPU are compared, with each control and several amounts of host work.
    SyncMatrix,
}

/// The in-flight depths in the sync matrix.
const MATRIX_DEPTHS: [u32; 5] = [1, 2, 3, 4, 8];
/// The amounts of host work in the sync matrix, in microseconds per token.
const MATRIX_HOST_WORK_US: [u64; 3] = [0, 250, 500];
/// The controls in the sync matrix.
const MATRIX_CONTROLS: [BenchControl; 3] = [BenchControl::Gpu, BenchControl::Masked, BenchControl::HostFed];

/// The plan of all tests of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BenchPlan {
    /// Context depths in rising order, so that the context of each is the start of the next one's.
    pub(crate) depths: Vec<u32>,
    /// The work that is timed at each depth.
    pub(crate) works: Vec<Work>,
    /// The ways in which each work is driven. In the sync matrix a fence comes before the drives that are compared with it; with drafts, each
    /// drive comes first without and then with them.
    pub(crate) drives: Vec<Drive>,
    /// The most tokens of context that any of the tests takes.
    pub(crate) context: u32,
    pub(crate) purpose: Purpose,
}

impl BenchPlan {
    /// Plans the tests that the flags ask for.
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
        let purpose = if args.sync_matrix { Purpose::SyncMatrix } else { Purpose::Tests };
        let drives = match purpose {
            Purpose::SyncMatrix => matrix(args.queues.queues()),
            Purpose::Tests => drives(args)?,
        };
        if !args.mask_work.is_zero() && drives.iter().all(|drive| drive.control != BenchControl::Masked) {
            return Err(Error::usage(
                "--mask-us needs --control masked or --sync-matrix, since there are no masks otherwise",
            ));
        }
        if args.draft_replay.is_some() && !matches!((&works[..], &depths[..]), ([Work::Generate(_)], [_])) {
            return Err(Error::usage(
                "--draft-replay replays the tokens of a single test: give one -n, one -d and -p 0",
            ));
        }
        let deepest = depths.last().copied().unwrap_or(0);
        let Some(longest) = works.iter().map(|work| work.tokens()).max() else {
            return Err(Error::usage("there is nothing to time: -p and -n are both 0"));
        };
        let Some(context) = deepest.checked_add(longest) else {
            return Err(Error::usage(format!(
                "{deepest} tokens of -d and {longest} of -p or -n are more than a context can have"
            )));
        };
        Ok(Self { depths, works, drives, context, purpose })
    }
}

/// The drives that the flags ask for.
fn drives(args: &BenchArgs) -> Result<Vec<Drive>> {
    let is_drafted = args.is_drafted();
    if is_drafted && args.control != BenchControl::Gpu {
        return Err(Error::usage("drafts need --control gpu: a token that the host decides about cannot be drafted"));
    }
    let queues = args.queues.queues();
    let timelines = args.depth.iter().map(|&in_flight| Drive { in_flight, queues, ..Drive::TIMELINE });
    let paces = match args.sync {
        BenchSync::Timeline => timelines.collect(),
        BenchSync::Fence => vec![Drive::FENCE],
        BenchSync::FenceKept => vec![Drive::FENCE_KEPT],
        BenchSync::Both => timelines.chain([Drive::FENCE]).collect(),
    };
    let speculatives =
        if is_drafted { &[SpeculativeDecoding::Off, SpeculativeDecoding::On][..] } else { &[SpeculativeDecoding::Off] };
    let (control, host_work) = (args.control, args.host_work);
    let drives = paces.into_iter().flat_map(|pace| {
        speculatives.iter().map(move |&speculative| Drive { control, host_work, speculative, ..pace })
    });
    Ok(drives.collect())
}

/// Every drive of the sync matrix; behind each fence come the drives that are compared with it.
fn matrix(queues: Queues) -> Vec<Drive> {
    let depths = MATRIX_DEPTHS.map(|depth| InflightDepth::new(depth).expect("the depths of the matrix are depths"));
    let timelines = depths.map(|in_flight| Drive { in_flight, queues, ..Drive::TIMELINE });
    let mut drives = Vec::new();
    for control in MATRIX_CONTROLS {
        for host_work in MATRIX_HOST_WORK_US.map(Duration::from_micros) {
            let paces = [Drive::FENCE, Drive::FENCE_KEPT].into_iter().chain(timelines);
            drives.extend(paces.map(|pace| Drive { control, host_work, ..pace }));
        }
    }
    drives
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::{self, Command};

    fn plan(line: &[&str]) -> Result<BenchPlan> {
        let line = ["zinc", "bench"].iter().chain(line).map(OsString::from);
        match args::parse(line)?.command {
            Command::Bench(args) => BenchPlan::new(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_llama_bench() {
        let plan = plan(&[]).unwrap();
        assert_eq!((plan.depths, plan.works), (vec![0], vec![Work::Prompt(512), Work::Generate(128)]));
        assert_eq!(plan.drives, [Drive::TIMELINE]);
        assert_eq!((plan.context, plan.purpose), (512, Purpose::Tests));
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
    fn the_matrix_has_every_cell_once_behind_its_fence() {
        let plan = plan(&["--sync-matrix", "--queues", "2"]).unwrap();
        assert_eq!((plan.works, plan.context, plan.purpose), (vec![Work::Generate(64)], 64, Purpose::SyncMatrix));
        assert_eq!(plan.drives.len(), 3 * 3 * 7);
        for (at, drive) in plan.drives.iter().enumerate() {
            assert!(!plan.drives[..at].contains(drive), "{drive:?} is there twice");
            assert!(plan.drives[..=at].contains(&drive.baseline()), "{drive:?} comes before its fence");
            assert_eq!(drive.queues == Queues::Two, drive.sync == Sync::Timeline);
        }
        let names: Vec<String> = plan.drives[..7].iter().map(Drive::to_string).collect();
        assert_eq!(
            names,
            ["fence", "fence-kept", "timeline 1", "timeline 2", "timeline 3", "timeline 4", "timeline 8"]
        );
    }

    #[test]
    fn the_matrix_times_what_it_is_told_to() {
        let plan = plan(&["--sync-matrix", "-p", "8", "-n", "4,16", "-d", "0,5"]).unwrap();
        assert_eq!(plan.works, [Work::Prompt(8), Work::Generate(4), Work::Generate(16)]);
        assert_eq!((plan.depths, plan.context), (vec![0, 5], 21));
        for flags in [
            &["--sync", "fence"][..],
            &["--depth", "2"],
            &["--control", "gpu"],
            &["--host-work-us", "1"],
            &["--draft-ngram"],
            &["--draft", "x.gguf"],
        ] {
            let line = [&["--sync-matrix"], flags].concat();
            assert!(matches!(super::tests::plan(&line), Err(Error::Usage { .. })), "{line:?}");
        }
    }

    #[test]
    fn a_single_cell_can_be_asked_for() {
        let line = ["--sync", "fence-kept", "--control", "masked", "--mask-us", "900", "--host-work-us", "250"];
        let cell = Drive { control: BenchControl::Masked, host_work: Duration::from_micros(250), ..Drive::FENCE_KEPT };
        assert_eq!(plan(&line).unwrap().drives, [cell]);
        assert!(matrix(Queues::One).contains(&cell));
        assert!(matches!(plan(&["--control", "host-fed", "--mask-us", "1"]), Err(Error::Usage { .. })));
    }

    #[test]
    fn drafts_are_compared_with_none() {
        let plan = plan(&["--draft-ngram", "--sync", "both"]).unwrap();
        let drafted = |drive: &Drive| drive.speculative == SpeculativeDecoding::On;
        assert_eq!(plan.drives.iter().map(drafted).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(plan.drives[1].undrafted(), plan.drives[0]);
        assert_eq!(plan.drives[1].baseline(), plan.drives[3]);
        assert!(matches!(super::tests::plan(&["--draft-ngram", "--control", "masked"]), Err(Error::Usage { .. })));
    }

    #[test]
    fn a_single_test_is_replayed() {
        let drives = plan(&["--draft-replay", "x", "-p", "0"]).unwrap().drives;
        assert_eq!(drives.len(), 2, "without drafts, then with them");
        for more in
            [&["-p", "8"][..], &["-p", "0", "-n", "4,8"], &["-p", "0", "-d", "0,8"], &["-p", "0", "--draft-ngram"]]
        {
            let line = [&["--draft-replay", "x"], more].concat();
            assert!(matches!(super::tests::plan(&line), Err(Error::Usage { .. })), "{line:?}");
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
