//! Constraints and samplers whose choices depend on all tokens before, and functions that make the same choices without an engine.

use std::time::Duration;

use zinc_sched::fake::next_token;
use zinc_sched::{
    CancelHandle, Clock, Constraint, Control, ControlError, Guide, ManualClock, Sampling, TokenSampler, Verdict,
};

/// Who chooses the tokens of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chooser {
    Device,
    Constraint,
    Sampler,
}

impl Chooser {
    pub(crate) const HOST: [Self; 2] = [Self::Constraint, Self::Sampler];

    /// The token that follows `history`, computed without a model or a window.
    pub(crate) fn choose(self, history: &[u32], sampling: &Sampling, vocabulary: u32) -> u32 {
        let wished = next_token(history, sampling, vocabulary);
        match self {
            Self::Device => wished,
            Self::Constraint => {
                let anchor = anchor(history, vocabulary);
                let mut from_wished = (0..vocabulary).map(|offset| (wished + offset) % vocabulary);
                from_wished.find(|id| is_allowed(anchor, *id)).expect("the anchor is allowed")
            }
            Self::Sampler => shifted(wished, history.len(), vocabulary),
        }
    }

    /// The first `count` tokens that follow `prompt`, computed without a model or a window.
    pub(crate) fn continuation(self, prompt: &[u32], count: usize, sampling: &Sampling, vocabulary: u32) -> Vec<u32> {
        let mut history = prompt.to_vec();
        for _ in 0..count {
            history.push(self.choose(&history, sampling, vocabulary));
        }
        history.split_off(prompt.len())
    }

    /// The control of a request for these choices.
    pub(crate) fn control(self, prompt: &[u32], vocabulary: u32, behaviour: Behaviour) -> Control {
        let first = prompt.len();
        let history = prompt.to_vec();
        match self {
            Self::Device => Control::Device,
            Self::Constraint => Control::masked(move || {
                Ok(Anchored { history: history.clone(), first, vocabulary, behaviour: behaviour.clone() })
            }),
            Self::Sampler => {
                Control::host_fed(move || Ok(Shifting { first, vocabulary, behaviour: behaviour.clone() }))
            }
        }
    }
}

/// What a constraint or sampler does besides choosing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// Time that it takes for each token.
    pub(crate) work: Option<(ManualClock, Duration)>,
    /// The index of the token at which it fails or ends the text, and how.
    pub(crate) turn: Option<(usize, Turn)>,
    /// The index of the token at which it cancels its own request, and the handle for it.
    pub(crate) cancel: Option<(usize, CancelHandle)>,
}

/// How a constraint or sampler fails or ends the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Computing the guide, or the sampler's choice, is an error.
    Fails,
    /// The constraint refuses the token that was chosen.
    Refuses,
    /// The guide allows nothing, or the sampler chooses an id outside of the vocabulary.
    LeavesNothing,
    /// The guide biases everything that it allows to minus infinity.
    BiasesAway,
    /// The constraint says that the text is complete.
    Completes,
}

impl Turn {
    pub(crate) const ALL: [Self; 5] =
        [Self::Fails, Self::Refuses, Self::LeavesNothing, Self::BiasesAway, Self::Completes];
}

impl Behaviour {
    pub(crate) fn working(clock: &ManualClock, work: Duration) -> Self {
        Self { work: Some((clock.clone(), work)), ..Self::default() }
    }

    pub(crate) fn turning(at: usize, turn: Turn) -> Self {
        Self { turn: Some((at, turn)), ..Self::default() }
    }

    fn begin(&self, index: usize) -> Option<Turn> {
        if let Some((clock, work)) = &self.work {
            clock.spend(*work);
        }
        if let Some((at, cancel)) = &self.cancel
            && *at == index
        {
            cancel.cancel();
        }
        self.turn.filter(|(at, _)| *at == index).map(|(_, turn)| turn)
    }
}

/// A constraint that allows about a third of the ids. Which ones, depends on all tokens before.
struct Anchored {
    history: Vec<u32>,
    first: usize,
    vocabulary: u32,
    behaviour: Behaviour,
}

impl Constraint for Anchored {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        let anchor = anchor(&self.history, self.vocabulary);
        for id in (0..self.vocabulary).filter(|id| !is_allowed(anchor, *id)) {
            guide.forbid(id);
        }
        match self.behaviour.begin(self.history.len() - self.first) {
            Some(Turn::Fails) => return Err("the guide failed".into()),
            Some(Turn::LeavesNothing) => guide.forbid_all(),
            Some(Turn::BiasesAway) => {
                guide.set_mask(&[0b11]);
                guide.bias(0, f32::NEG_INFINITY);
                guide.bias(1, f32::NEG_INFINITY);
            }
            Some(Turn::Completes) => return Ok(Verdict::Complete),
            Some(Turn::Refuses) | None => {}
        }
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        let index = self.history.len() - self.first;
        if self.behaviour.turn == Some((index, Turn::Refuses)) {
            return Err(format!("token {token} was refused").into());
        }
        assert!(is_allowed(anchor(&self.history, self.vocabulary), token), "token {token} was not allowed");
        self.history.push(token);
        Ok(())
    }
}

fn anchor(history: &[u32], vocabulary: u32) -> u32 {
    next_token(history, &Sampling { seed: 1, temperature: 1.0, ..Sampling::GREEDY }, vocabulary)
}

fn is_allowed(anchor: u32, id: u32) -> bool {
    id.abs_diff(anchor).is_multiple_of(3)
}

/// A sampler that takes the likeliest id plus the number of tokens so far.
struct Shifting {
    first: usize,
    vocabulary: u32,
    behaviour: Behaviour,
}

impl TokenSampler for Shifting {
    fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, ControlError> {
        assert_eq!(logits.len(), self.vocabulary as usize);
        match self.behaviour.begin(tokens.len() - self.first) {
            Some(Turn::Fails) => return Err("the sampler failed".into()),
            Some(Turn::LeavesNothing) => return Ok(self.vocabulary),
            Some(Turn::Refuses | Turn::BiasesAway | Turn::Completes) | None => {}
        }
        let likeliest = (0..self.vocabulary).max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize]));
        Ok(shifted(likeliest.expect("a vocabulary is not empty"), tokens.len(), self.vocabulary))
    }
}

fn shifted(id: u32, tokens: usize, vocabulary: u32) -> u32 {
    (id + tokens as u32) % vocabulary
}
