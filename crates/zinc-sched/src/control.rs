//! What the host can decide about the tokens of a request: which of them are allowed (a constraint), or which one it is (a sampler of the
//! caller's own).
//!
//! In both cases steps are queued ahead as always, and only their sampling waits for a value that the host signals. What a [`Constraint`]
//! computes for a step depends only on the tokens before it, so it is computed while the device runs the forward pass of that step. A
//! [`TokenSampler`] needs the logits, so the device idles while it decides; the next forward pass is queued behind it.

use std::fmt;
use std::sync::Arc;

use crate::sampling::total_biases;

/// The error of a constraint or a sampler. The request ends with [`Error::Control`](crate::Error::Control), and the engine goes on.
pub type ControlError = Box<dyn std::error::Error + Send + Sync>;

/// Who chooses the tokens of a request.
#[derive(Clone, Default)]
pub enum Control {
    /// The device chooses among all tokens.
    #[default]
    Device,
    /// The device chooses among the tokens that a constraint allows. The function makes a constraint for each run of the request.
    Masked(Arc<dyn Fn() -> Result<Box<dyn Constraint>, ControlError> + Send + Sync>),
    /// A sampler on the host chooses. The function makes a sampler for each run of the request.
    HostFed(Arc<dyn Fn() -> Result<Box<dyn TokenSampler>, ControlError> + Send + Sync>),
}

impl Control {
    /// The device chooses among the tokens that a constraint allows; `start` makes the constraint for each run of the request.
    pub fn masked<C: Constraint + 'static>(
        start: impl Fn() -> Result<C, ControlError> + Send + Sync + 'static,
    ) -> Self {
        Self::Masked(Arc::new(move || Ok(Box::new(start()?))))
    }

    /// A sampler on the host chooses; `start` makes the sampler for each run of the request.
    pub fn host_fed<S: TokenSampler + 'static>(
        start: impl Fn() -> Result<S, ControlError> + Send + Sync + 'static,
    ) -> Self {
        Self::HostFed(Arc::new(move || Ok(Box::new(start()?))))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "Device",
            Self::Masked(_) => "Masked",
            Self::HostFed(_) => "HostFed",
        })
    }
}

/// Says which tokens may come next: a grammar, a schema, a list of banned words.
///
/// It lives on the engine's thread while its request runs. `guide` and `accept` alternate, beginning with `guide`; what `guide` costs is
/// hidden as long as it is shorter than a forward pass. A token that ends the sequence is not accepted: an end-of-generation id, which a
/// guide has to allow where the text may end, or the last of the budget.
pub trait Constraint: Send {
    /// Writes into `guide` which tokens may follow those accepted so far. At the call, `guide` allows every token.
    ///
    /// # Errors
    /// Any error ends the request.
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError>;

    /// Takes note of the token that was chosen.
    ///
    /// # Errors
    /// Any error ends the request, for example because the token was not allowed. The token is then not delivered.
    fn accept(&mut self, token: u32) -> Result<(), ControlError>;
}

/// Whether a constraint lets the text go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The next token is chosen among those that the guide allows.
    Choose,
    /// The text is complete: nothing may follow, not even an end-of-generation id.
    Complete,
}

/// Chooses tokens from logits on the host.
///
/// It lives on the engine's thread while its request runs.
pub trait TokenSampler: Send {
    /// The token that follows `tokens` (prompt and what was generated), given its logits, `[vocabulary]` f32. Sampling parameters of the
    /// request are not applied. None of the logits is NaN or plus infinity, and at least one is finite.
    ///
    /// # Errors
    /// Any error ends the request.
    fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, ControlError>;
}

/// Which tokens one step may choose, and what is added to their logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    vocabulary_tokens: u32,
    /// Bit `id % 32` of word `id / 32`: whether the id is allowed.
    mask: Vec<u32>,
    biases: Vec<(u32, f32)>,
}

impl Guide {
    /// The most biases that a guide can have.
    pub const MAX_BIASES: usize = 1024;

    /// A guide that allows all ids of a vocabulary of the given size.
    pub fn new(vocabulary_tokens: u32) -> Self {
        let mut guide =
            Self { vocabulary_tokens, mask: vec![0; vocabulary_tokens.div_ceil(32) as usize], biases: Vec::new() };
        guide.reset();
        guide
    }

    /// Size of the vocabulary.
    pub fn vocabulary_tokens(&self) -> u32 {
        self.vocabulary_tokens
    }

    /// Allows everything and biases nothing.
    pub fn reset(&mut self) {
        self.mask.fill(u32::MAX);
        self.clear_tail();
        self.biases.clear();
    }

    /// Forbids everything.
    pub fn forbid_all(&mut self) {
        self.mask.fill(0);
    }

    /// Allows an id.
    ///
    /// # Panics
    /// If the id is outside the vocabulary.
    pub fn allow(&mut self, id: u32) {
        *self.word(id) |= 1 << (id % 32);
    }

    /// Forbids an id.
    ///
    /// # Panics
    /// If the id is outside the vocabulary.
    pub fn forbid(&mut self, id: u32) {
        *self.word(id) &= !(1 << (id % 32));
    }

    /// Sets the whole mask; bit `id % 32` of word `id / 32` allows the id. Ids of missing words are forbidden, and bits beyond the vocabulary
    /// are ignored.
    pub fn set_mask(&mut self, words: &[u32]) {
        let given = words.len().min(self.mask.len());
        self.mask[..given].copy_from_slice(&words[..given]);
        self.mask[given..].fill(0);
        self.clear_tail();
    }

    /// Adds `bias` to the logit of an id, on top of the request's own biases. A second bias for an id replaces the first.
    ///
    /// # Panics
    /// If the id is outside the vocabulary, if the bias is NaN or plus infinity, or if more than [`Self::MAX_BIASES`] ids have one.
    pub fn bias(&mut self, id: u32, bias: f32) {
        assert!(id < self.vocabulary_tokens, "id {id} is outside a vocabulary of {}", self.vocabulary_tokens);
        assert!(!bias.is_nan() && bias != f32::INFINITY, "a bias of {bias}");
        match self.biases.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => self.biases[at].1 = bias,
            Err(at) => {
                assert!(self.biases.len() < Self::MAX_BIASES, "more than {} biases in one step", Self::MAX_BIASES);
                self.biases.insert(at, (id, bias));
            }
        }
    }

    /// Whether an id is allowed.
    pub fn allows(&self, id: u32) -> bool {
        self.mask.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// Whether at least one id can be chosen, given the request's own biases too: an id whose biases add up to minus infinity cannot.
    pub(crate) fn leaves_a_choice(&self, logit_bias: &[(u32, f32)]) -> bool {
        let allowed = self.biases.iter().chain(logit_bias).copied().filter(|(id, _)| self.allows(*id));
        let totals = total_biases(allowed);
        let banned = totals.iter().filter(|(_, total)| *total == f32::NEG_INFINITY).count();
        banned < self.allowed() as usize
    }

    /// How many ids are allowed.
    pub fn allowed(&self) -> u32 {
        self.mask.iter().map(|word| word.count_ones()).sum()
    }

    /// The mask, `[ceil(vocabulary / 32)]`; bits beyond the vocabulary are 0.
    pub fn mask(&self) -> &[u32] {
        &self.mask
    }

    /// Ids and biases, by rising id.
    pub fn biases(&self) -> &[(u32, f32)] {
        &self.biases
    }

    fn word(&mut self, id: u32) -> &mut u32 {
        assert!(id < self.vocabulary_tokens, "id {id} is outside a vocabulary of {}", self.vocabulary_tokens);
        &mut self.mask[id as usize / 32]
    }

    fn clear_tail(&mut self) {
        let tail = self.vocabulary_tokens % 32;
        if tail > 0
            && let Some(last) = self.mask.last_mut()
        {
            *last &= (1 << tail) - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_guide_allows_exactly_the_vocabulary() {
        for vocabulary in [1, 31, 32, 33, 1031] {
            let guide = Guide::new(vocabulary);
            assert_eq!(guide.allowed(), vocabulary);
            assert!(guide.allows(vocabulary - 1) && !guide.allows(vocabulary));
        }
    }

    #[test]
    fn masks_are_set_id_by_id_or_whole() {
        let mut guide = Guide::new(40);
        guide.forbid_all();
        guide.allow(39);
        guide.allow(3);
        guide.forbid(3);
        assert_eq!((guide.allowed(), guide.mask()), (1, &[0, 1 << 7][..]));
        guide.set_mask(&[5]);
        assert_eq!((guide.allowed(), guide.allows(2)), (2, true));
        guide.set_mask(&[0, u32::MAX, u32::MAX]);
        assert_eq!(guide.mask(), [0, 0xff]);
    }

    #[test]
    fn biases_are_kept_by_id_and_the_last_counts() {
        let mut guide = Guide::new(40);
        guide.bias(7, 1.0);
        guide.bias(3, f32::NEG_INFINITY);
        guide.bias(7, 2.0);
        assert_eq!(guide.biases(), [(3, f32::NEG_INFINITY), (7, 2.0)]);
        guide.reset();
        assert!(guide.biases().is_empty());
    }

    #[test]
    fn a_guide_leaves_a_choice_unless_everything_is_forbidden_or_banned() {
        const BANNED: f32 = f32::NEG_INFINITY;
        let mut guide = Guide::new(40);
        guide.set_mask(&[0b1110]);
        assert!(guide.leaves_a_choice(&[]));
        guide.bias(1, BANNED);
        guide.bias(9, BANNED);
        assert!(guide.leaves_a_choice(&[(1, BANNED), (2, BANNED), (3, -5.0)]), "3 is left");
        assert!(!guide.leaves_a_choice(&[(2, BANNED), (3, BANNED)]));
        assert!(!guide.leaves_a_choice(&[(2, -3e38), (3, BANNED), (2, -3e38)]), "the biases of 2 add up");
        guide.forbid_all();
        assert!(!guide.leaves_a_choice(&[]));
    }

    #[test]
    #[should_panic(expected = "id 40 is outside a vocabulary of 40")]
    fn ids_outside_the_vocabulary_are_refused() {
        Guide::new(40).allow(40);
    }
}
