//! What a resolved step changes: the cache, the count of delivered tokens, the phase. The only place where a sequence's state changes.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::Result;
use crate::kv::KvCache;
use crate::plan::Phase;
use crate::request::{FinishReason, Outlet, Token};
use crate::resolve::Resolved;
use crate::step::{StepOutput, TokenLogprobs};

/// How far a sequence is, as the host has observed it.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    prompt: &'a [u32],
    position: u32,
    last_token: Option<u32>,
    delivered: u32,
    overshoot: u32,
    first_token_ns: Option<u64>,
    last_token_ns: Option<u64>,
    end: Option<Result<FinishReason>>,
}

impl<'a> Progress<'a> {
    /// A sequence whose first step is at `position`.
    pub(crate) fn new(prompt: &'a [u32], position: u32) -> Self {
        Self {
            prompt,
            position,
            last_token: None,
            delivered: 0,
            overshoot: 0,
            first_token_ns: None,
            last_token_ns: None,
            end: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.end.is_some() { Phase::Draining } else { Phase::Running }
    }

    /// Where the next observed step puts its first token in.
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    pub(crate) fn delivered(&self) -> u32 {
        self.delivered
    }

    pub(crate) fn overshoot(&self) -> u32 {
        self.overshoot
    }

    /// When the first and the last delivered token were observed.
    pub(crate) fn token_times_ns(&self) -> Option<(u64, u64)> {
        self.first_token_ns.zip(self.last_token_ns)
    }

    /// Ends the sequence; the first end stays.
    pub(crate) fn end(&mut self, end: Result<FinishReason>) {
        self.end.get_or_insert(end);
    }

    /// The end.
    ///
    /// # Panics
    /// When there was none: the plan's last step always brings one.
    pub(crate) fn into_end(self) -> Result<FinishReason> {
        self.end.expect("the loop is done only when the sequence has ended")
    }

    /// Applies what the step observed as `output` at `observed_ns` resolved to, and says how many tokens went to the outlet.
    pub(crate) fn apply(
        &mut self,
        resolved: Result<Resolved>,
        output: &StepOutput,
        observed_ns: u64,
        kv: &mut KvCache,
        outlet: &mut dyn Outlet,
    ) -> u32 {
        let delivered_before = self.delivered;
        match resolved {
            Ok(Resolved::Fed) => self.consume(kv),
            Ok(Resolved::Sampled(tokens, end)) => {
                for &id in tokens.as_slice() {
                    if self.cancelled_since(delivered_before, outlet) {
                        break;
                    }
                    self.consume(kv);
                    if self.deliver(id, output.logprobs.clone(), observed_ns, outlet).is_break() {
                        self.end(Ok(FinishReason::Cancelled));
                        break;
                    }
                }
                let stops = matches!(end, Some(FinishReason::Stop { .. }));
                if stops && self.phase() == Phase::Running && !self.cancelled_since(delivered_before, outlet) {
                    self.consume(kv);
                }
                if let Some(reason) = end {
                    self.end(Ok(reason));
                }
            }
            Ok(Resolved::Stale) => self.overshoot += 1,
            Err(error) => {
                // The K/V that nothing finite came out of are not worth keeping.
                kv.forget();
                self.end(Err(error));
            }
        }
        self.delivered - delivered_before
    }

    /// Ends the sequence if the outlet cancels after the first token of a run: without speculation it would be asked there too.
    fn cancelled_since(&mut self, delivered_before: u32, outlet: &dyn Outlet) -> bool {
        let cancelled = self.delivered > delivered_before && outlet.cancelled();
        if cancelled {
            self.end(Ok(FinishReason::Cancelled));
        }
        cancelled
    }

    /// The K/V of the token that went in at the present position are valid from here on.
    fn consume(&mut self, kv: &mut KvCache) {
        let token = match self.prompt.get(self.position as usize) {
            Some(&token) => token,
            None => self.last_token.expect("a step behind the prompt consumes the token delivered before it"),
        };
        kv.push(self.position, token);
        // A token sampled at the last position of the context has none of its own; its number is still the next one.
        self.position = self.position.saturating_add(1);
    }

    fn deliver(
        &mut self,
        id: u32,
        logprobs: Option<Arc<TokenLogprobs>>,
        observed_ns: u64,
        outlet: &mut dyn Outlet,
    ) -> ControlFlow<()> {
        outlet.token(Token { id, position: self.position, logprobs })?;
        self.last_token = Some(id);
        self.delivered += 1;
        self.first_token_ns.get_or_insert(observed_ns);
        self.last_token_ns = Some(observed_ns);
        ControlFlow::Continue(())
    }
}
