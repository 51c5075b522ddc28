//! Shared by the tests of the loop: an engine on a simulated model, and outlets that cancel.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod control;

use control::Chooser;
use zinc_sched::fake::{FakeModel, FakeOptions, Probe, TokenStream};
use zinc_sched::{
    CancelHandle, Completion, Engine, EngineOptions, FinishReason, InflightDepth, ManualClock, ModelLimits, Outlet,
    Request, Result, Token,
};

pub(crate) const DEPTHS: [u32; 5] = [1, 2, 3, 4, 8];
pub(crate) const VOCABULARY: u32 = 1000;

pub(crate) fn depth(depth: u32) -> EngineOptions {
    EngineOptions::default().with_depth(InflightDepth::new(depth).unwrap())
}

pub(crate) fn engine(options: EngineOptions, fake: FakeOptions) -> (Engine<FakeModel>, Probe) {
    let clock = ManualClock::new();
    let model = FakeModel::new(fake, clock.clone());
    let probe = model.probe();
    (Engine::new(model, clock, options).unwrap(), probe)
}

pub(crate) fn scripted(tokens: &[u32]) -> FakeOptions {
    FakeOptions { tokens: TokenStream::Script(tokens.to_vec()), ..FakeOptions::default() }
}

pub(crate) fn context(context_tokens: u32) -> FakeOptions {
    let limits = ModelLimits { context_tokens, ..FakeOptions::default().limits };
    FakeOptions { limits, ..FakeOptions::default() }
}

/// Options of a model that drafts at most `max_drafts` tokens in a step. One in `wrong_drafts` drafts is wrong; 0 is none.
pub(crate) fn drafting(max_drafts: u32, wrong_drafts: u64, fake: FakeOptions) -> FakeOptions {
    FakeOptions { limits: ModelLimits { max_drafts, ..fake.limits }, wrong_drafts, ..fake }
}

pub(crate) fn request(prompt: &[u32], max_tokens: u32) -> Request {
    Request::new(prompt, []).with_max_tokens(max_tokens)
}

pub(crate) fn run(engine: &mut Engine<FakeModel>, request: &Request) -> Result<(Vec<u32>, Completion)> {
    let mut tokens: Vec<Token> = Vec::new();
    let completion = engine.run(request, &mut tokens)?;
    assert_positions(&tokens, request);
    Ok((ids(&tokens), completion))
}

pub(crate) fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

/// What an uncut request delivers on a model of this vocabulary and context, and why it ends.
pub(crate) fn reference(
    request: &Request,
    chooser: Chooser,
    vocabulary: u32,
    context: u32,
) -> (Vec<u32>, FinishReason) {
    let mut history = request.prompt.clone();
    let mut delivered = Vec::new();
    loop {
        if request.max_tokens == Some(delivered.len() as u32) {
            return (delivered, FinishReason::Length);
        }
        if history.len() > context as usize {
            return (delivered, FinishReason::ContextFull);
        }
        let token = chooser.choose(&history, &request.sampling, vocabulary);
        if request.eog.contains(&token) {
            return (delivered, FinishReason::Stop { token });
        }
        history.push(token);
        delivered.push(token);
    }
}

/// Checks that the delivered tokens follow the prompt without a gap.
pub(crate) fn assert_positions(tokens: &[Token], request: &Request) {
    for (i, token) in tokens.iter().enumerate() {
        assert_eq!(token.position as usize, request.prompt.len() + i);
    }
}

/// An outlet that cancels once it holds `count` tokens.
pub(crate) struct CancelAfter {
    pub(crate) tokens: Vec<Token>,
    pub(crate) count: usize,
}

impl Outlet for CancelAfter {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        let taken = tokens.len().min(self.count - self.tokens.len());
        self.tokens.extend_from_slice(&tokens[..taken]);
        taken
    }

    fn cancelled(&self) -> bool {
        self.tokens.len() >= self.count
    }
}

/// An outlet that refuses the token after `count` tokens, as a dropped receiver does.
pub(crate) struct BreakAfter {
    pub(crate) tokens: Vec<Token>,
    pub(crate) count: usize,
}

impl Outlet for BreakAfter {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        let taken = tokens.len().min(self.count - self.tokens.len());
        self.tokens.extend_from_slice(&tokens[..taken]);
        taken
    }
}

/// An outlet that cancels when its handle was cancelled.
#[derive(Default)]
pub(crate) struct Cancellable {
    pub(crate) tokens: Vec<Token>,
    pub(crate) cancel: CancelHandle,
}

impl Outlet for Cancellable {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.tokens.extend_from_slice(tokens);
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
