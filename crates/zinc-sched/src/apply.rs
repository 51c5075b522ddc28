//! Applies the result of a step: to the cache, the count of delivered tokens and the phase. No other place changes the state of a sequence.

use std::sync::Arc;

use crate::error::Result;
use crate::kv::ValidKv;
use crate::plan::Phase;
use crate::request::{FinishReason, Outlet, PromptProgress, Request, Token};
use crate::resolve::Resolved;
use crate::step::LaneOutput;

/// How far a sequence has come, as far as the host has observed it.
#[derive(Debug)]
pub(crate) struct Progress {
    request: Arc<Request>,
    /// Position of the first input token of the next step to be observed.
    position: u32,
    /// The delivered tokens.
    delivered: Vec<u32>,
    /// How many tokens of the prompt the outlet was told of as done.
    reported: u32,
    /// Number of observed steps whose output was stale.
    overshoot: u32,
    /// When the first delivered token was observed.
    first_token_ns: Option<u64>,
    /// When the last delivered token was observed.
    last_token_ns: Option<u64>,
    /// Why the sequence ended, once it has.
    end: Option<Result<FinishReason>>,
}

impl Progress {
    /// A sequence whose first step is at `position`.
    pub(crate) fn new(request: Arc<Request>, position: u32) -> Self {
        Self {
            request,
            position,
            delivered: Vec::new(),
            reported: 0,
            overshoot: 0,
            first_token_ns: None,
            last_token_ns: None,
            end: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.end.is_some() { Phase::Draining } else { Phase::Running }
    }

    /// Position of the first input token of the next step to be observed.
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    pub(crate) fn delivered(&self) -> u32 {
        // No more than the context has positions.
        self.delivered.len() as u32
    }

    /// All tokens so far: the prompt and those that were delivered.
    pub(crate) fn tokens(&self) -> Vec<u32> {
        [&self.request.prompt[..], &self.delivered].concat()
    }

    /// Goes back to `position`, from which on keys and values are computed again.
    pub(crate) fn rewind(&mut self, position: u32) {
        self.position = position;
    }

    pub(crate) fn overshoot(&self) -> u32 {
        self.overshoot
    }

    /// When the first and the last delivered token were observed; `None` before the first.
    pub(crate) fn token_times_ns(&self) -> Option<(u64, u64)> {
        self.first_token_ns.zip(self.last_token_ns)
    }

    /// Ends the sequence. If it has ended already, the earlier reason stays.
    pub(crate) fn end(&mut self, end: Result<FinishReason>) {
        self.end.get_or_insert(end);
    }

    /// Why the sequence ended.
    ///
    /// # Panics
    /// If it has not ended. The last step of a plan always ends its sequence.
    pub(crate) fn into_end(self) -> Result<FinishReason> {
        self.end.expect("the loop is done only when the sequence has ended")
    }

    /// Applies what `output`, observed at `observed_ns`, was resolved to. Returns how many tokens were delivered to the outlet.
    pub(crate) fn apply(
        &mut self,
        resolved: Result<Resolved>,
        output: &LaneOutput,
        observed_ns: u64,
        kv: &mut dyn ValidKv,
        outlet: &mut dyn Outlet,
    ) -> u32 {
        let delivered_before = self.delivered();
        match resolved {
            Ok(Resolved::Fed(rows)) => self.feed(rows, kv, outlet),
            Ok(Resolved::Sampled(tokens, end)) => {
                if output.fed > 0 {
                    self.feed(output.fed, kv, outlet);
                }
                self.deliver(tokens.as_slice(), output, observed_ns, kv, outlet);
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
                // The K/V of a sequence with logits that are not finite may be broken themselves.
                kv.forget();
                self.end(Err(error));
            }
        }
        self.delivered() - delivered_before
    }

    /// Ends the sequence if tokens were delivered and the outlet has cancelled it since.
    fn cancelled_since(&mut self, delivered_before: u32, outlet: &dyn Outlet) -> bool {
        let cancelled = self.delivered() > delivered_before && outlet.cancelled();
        if cancelled {
            self.end(Ok(FinishReason::Cancelled));
        }
        cancelled
    }

    /// Notes that so many tokens have been fed: of the prompt, and of those that were delivered before their keys and values were given up.
    fn feed(&mut self, rows: u32, kv: &mut dyn ValidKv, outlet: &mut dyn Outlet) {
        (0..rows).for_each(|_| self.consume(kv));
        let tokens = self.request.prompt.len() as u32;
        if self.reported < self.position && self.position < tokens {
            self.reported = self.position;
            outlet.prompt(PromptProgress { done: self.position, tokens });
        }
    }

    /// Notes that the K/V of the input token at the present position are valid from now on.
    fn consume(&mut self, kv: &mut dyn ValidKv) {
        let (position, prompt) = (self.position as usize, &self.request.prompt);
        let token = prompt.get(position).or_else(|| self.delivered.get(position - prompt.len()));
        kv.push(self.position, *token.expect("a step behind the prompt consumes a token that was delivered before"));
        // A token that was sampled at the last position of the context has no position of its own, but it still gets the next number.
        self.position = self.position.saturating_add(1);
    }

    /// Hands the tokens of a step to the outlet, and notes the K/V of their inputs. One that the outlet does not take ends the sequence.
    fn deliver(
        &mut self,
        ids: &[u32],
        output: &LaneOutput,
        observed_ns: u64,
        kv: &mut dyn ValidKv,
        outlet: &mut dyn Outlet,
    ) {
        let at = |index: usize| self.position.saturating_add(1 + index as u32);
        let token =
            |(index, id): (usize, &u32)| Token { id: *id, position: at(index), logprobs: output.logprobs.clone() };
        let tokens: Vec<Token> = ids.iter().enumerate().map(token).collect();
        if tokens.is_empty() {
            return;
        }
        let taken = outlet.tokens(&tokens).min(tokens.len());
        let refused = taken < tokens.len();
        // The step that has chosen a refused token was valid. One that comes behind a cancel is not looked at.
        let inputs = taken + usize::from(refused && !outlet.cancelled());
        for (index, token) in tokens.iter().enumerate().take(inputs) {
            self.consume(kv);
            if index < taken {
                self.delivered.push(token.id);
                self.first_token_ns.get_or_insert(observed_ns);
                self.last_token_ns = Some(observed_ns);
            }
        }
        if refused {
            self.end(Ok(FinishReason::Cancelled));
        }
    }
}
