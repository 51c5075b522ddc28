//! Tokens that a request goes through whatever the model would choose, so that their log-probabilities become known.
//!
//! A prompt is fed many tokens a step, and only the last of a prompt has logits. So the tokens behind the first one are taken as an answer takes its
//! own: a step each, among the steps of all other requests. A mask allows one token, and log-probabilities are those before masks.

use std::sync::Arc;

use zinc_sched::{Constraint, Control, ControlError, Guide, Verdict};

/// The control of a request that goes through `tokens`, and then does what `then` says. A sampler on the host cannot come then; the device chooses
/// in its place.
pub(crate) fn control(tokens: Arc<[u32]>, then: Control) -> Control {
    if tokens.is_empty() {
        return then;
    }
    let start = if let Control::Masked(start) = then { Some(start) } else { None };
    Control::masked(move || {
        let then = start.as_ref().map(|start| start()).transpose()?;
        Ok(Scored { tokens: tokens.clone(), taken: 0, then })
    })
}

/// Allows the next of some tokens, and behind them what another constraint allows.
struct Scored {
    tokens: Arc<[u32]>,
    taken: usize,
    then: Option<Box<dyn Constraint>>,
}

impl Constraint for Scored {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        match (self.tokens.get(self.taken), &mut self.then) {
            (Some(&token), _) => {
                guide.forbid_all();
                guide.allow(token);
                Ok(Verdict::Choose)
            }
            (None, Some(then)) => then.guide(guide),
            (None, None) => Ok(Verdict::Choose),
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        match (self.tokens.get(self.taken), &mut self.then) {
            (Some(&expected), _) if expected != token => {
                Err(format!("token {token} was chosen where {expected} is the only one that is allowed").into())
            }
            (Some(_), _) => {
                self.taken += 1;
                Ok(())
            }
            (None, Some(then)) => then.accept(token),
            (None, None) => Ok(()),
        }
    }
}
