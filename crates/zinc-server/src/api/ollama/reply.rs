//! What ollama says of an answer besides its text.

use serde::Serialize;

use crate::core::{End, Reason, Timings};

/// The end of an answer: why, and what it took.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    done_reason: &'static str,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: u32,
    prompt_eval_duration: u64,
    eval_count: u32,
    eval_duration: u64,
}

impl Done {
    pub(super) fn new(end: &End, timings: &Timings) -> Self {
        // ollama counts nanoseconds.
        let ns = |ms: f64| (ms * 1e6) as u64;
        Self {
            done_reason: match end.reason {
                Reason::Stop | Reason::StopString(_) | Reason::ToolCalls => "stop",
                Reason::Length | Reason::ContextFull | Reason::TimeOver => "length",
            },
            total_duration: ns(timings.prompt_ms + timings.predicted_ms),
            load_duration: 0,
            prompt_eval_count: end.usage.prompt_tokens,
            prompt_eval_duration: ns(timings.prompt_ms),
            eval_count: end.usage.completion_tokens,
            eval_duration: ns(timings.predicted_ms),
        }
    }
}
