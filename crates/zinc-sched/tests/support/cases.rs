//! Random cases of a property, shared among threads.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};

/// How many threads share the cases.
const THREADS: u32 = 2;

/// Makes at least so many cases and lets each hold the property. Returns the sum of what `count` says of each, requests for example.
///
/// # Panics
/// With the smallest case found that does not hold it.
pub(crate) fn hold_all<S: Strategy>(
    cases: u32,
    strategy: fn() -> S,
    count: fn(&S::Value) -> usize,
    hold: fn(S::Value) -> Result<(), TestCaseError>,
) -> u64 {
    let share = move || {
        let config = ProptestConfig { cases: cases.div_ceil(THREADS), ..ProptestConfig::default() };
        let counted = std::cell::Cell::new(0);
        let held = TestRunner::new(config).run(&strategy(), |case| {
            counted.set(counted.get() + count(&case) as u64);
            hold(case)
        });
        match held {
            Ok(()) => counted.get(),
            Err(TestError::Fail(reason, case)) => panic!("{reason}\nin {case:#?}"),
            Err(TestError::Abort(reason)) => panic!("{reason}"),
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(share)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}
