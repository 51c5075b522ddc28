//! Room for recursion.
//!
//! llguidance's compiler of Lark calls itself for each group inside of a group and for each rule that a rule refers to. A thread's usual
//! stack holds a few thousand of such calls; one that is too deep ends the whole process.

use std::thread::Builder;

/// Bytes of the stack that grammars are compiled on. The system sets memory aside only for what is used of it.
const STACK_BYTES: usize = 512 << 20;

/// Runs some work on a stack that is large enough for it.
///
/// # Errors
/// There is no room for the stack, or the work panicked.
pub(super) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("zinc-grammar".to_owned()).stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("there is no room for a stack of {STACK_BYTES} bytes: {error}"))?;
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            format!("it is not supported: {}", text.unwrap_or("it made the compiler panic"))
        })
    })
}
