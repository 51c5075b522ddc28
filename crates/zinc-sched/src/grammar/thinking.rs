//! Thinking before an answer that a grammar constrains: the model thinks freely, and the grammar begins behind the tag that ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use llguidance::toktrie::TokTrie;

use super::error::GrammarError;
use super::{Grammar, GrammarMatcher};
use crate::control::{Constraint, Control, ControlError, Guide, Verdict};

/// Newlines between the tag that ends the thinking and the answer, which models write and grammars do not have.
const MAX_NEWLINES: usize = 2;

/// The tags around what a model thinks, over a vocabulary.
///
/// The tags are text: it does not matter into which tokens they are cut. A token that ends the thinking and goes on with the answer is not
/// allowed, so that the grammar begins with a token.
#[derive(Clone)]
pub struct ThinkingTags {
    tables: Arc<Tables>,
    anew: Option<Arc<Anew>>,
}

/// By what thinking begins anew in an answer.
struct Anew {
    /// What stands before the name.
    before: Tag,
    /// Tokens by which the name begins.
    begins: Vec<u32>,
}

/// Whether an answer begins with thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThinkingStart {
    /// The model may begin with the opening tag, or answer at once.
    MayBegin,
    /// The prompt ends behind the opening tag.
    Begun,
}

struct Tables {
    open: Tag,
    close: Tag,
    /// The bytes of each token, that of control tokens too.
    words: Vec<Box<[u8]>>,
    /// Tokens of newlines alone, at most [`MAX_NEWLINES`].
    newlines: Vec<u32>,
    eog: Arc<[u32]>,
}

/// A tag that is matched byte by byte.
struct Tag {
    bytes: Vec<u8>,
    /// For each number of matched bytes, how many are matched if the next byte does not fit.
    fallback: Vec<usize>,
    /// For each number of matched bytes, the tokens that are the next bytes of the tag.
    next: Vec<Vec<u32>>,
    /// For each number of matched bytes, the tokens that complete the tag and have more bytes behind it.
    across: Vec<Vec<u32>>,
}

impl Tag {
    fn new(text: &str, words: &[Box<[u8]>]) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut fallback = vec![0; bytes.len()];
        for at in 1..bytes.len() {
            let mut matched = fallback[at - 1];
            while matched > 0 && bytes[matched] != bytes[at - 1] {
                matched = fallback[matched];
            }
            fallback[at] = if at > 1 && bytes[matched] == bytes[at - 1] { matched + 1 } else { 0 };
        }
        let mut tag = Self { bytes, fallback, next: Vec::new(), across: Vec::new() };
        let last = tag.bytes.last().copied();
        // Only tokens with the last byte of the tag inside of them can end the tag and go on.
        let crossing: Vec<(u32, &[u8])> = (0..)
            .zip(words)
            .map(|(id, word)| (id, &**word))
            .filter(|(_, word)| {
                word.split_last().is_some_and(|(_, inside)| last.is_some_and(|last| inside.contains(&last)))
            })
            .collect();
        let mut by_first: BTreeMap<u8, Vec<(u32, &[u8])>> = BTreeMap::new();
        for (id, word) in (0..).zip(words) {
            if let Some(&first) = word.first() {
                by_first.entry(first).or_default().push((id, word));
            }
        }
        for matched in 0..tag.bytes.len() {
            let rest = &tag.bytes[matched..];
            let words = by_first.get(&rest[0]).into_iter().flatten();
            tag.next.push(words.filter(|(_, word)| rest.starts_with(word)).map(|&(id, _)| id).collect());
            let across =
                crossing.iter().filter(|(_, word)| matches!(tag.find(matched, word), Ok(end) if end < word.len()));
            let across = across.map(|&(id, _)| id).collect();
            tag.across.push(across);
        }
        tag
    }

    /// Matches a word behind `matched` bytes: the number of its bytes up to the end of the tag, or how many bytes of the tag are matched
    /// behind it.
    fn find(&self, mut matched: usize, word: &[u8]) -> Result<usize, usize> {
        for (at, &byte) in word.iter().enumerate() {
            while matched > 0 && self.bytes[matched] != byte {
                matched = self.fallback[matched];
            }
            if self.bytes[matched] == byte {
                matched += 1;
            }
            if matched == self.bytes.len() {
                return Ok(at + 1);
            }
        }
        Err(matched)
    }
}

impl ThinkingTags {
    /// # Errors
    /// [`GrammarError::Grammar`] if a tag is empty.
    pub(super) fn new(open: &str, close: &str, trie: &TokTrie, eog: Arc<[u32]>) -> Result<Self, GrammarError> {
        if open.is_empty() || close.is_empty() {
            return Err(GrammarError::Grammar { reason: "the tags around thinking cannot be empty".to_owned() });
        }
        let text = |id| match trie.token(id) {
            [TokTrie::SPECIAL_TOKEN_MARKER, name @ ..] => name,
            word => word,
        };
        let vocabulary = u32::try_from(trie.vocab_size()).unwrap_or(u32::MAX);
        let words: Vec<Box<[u8]>> = (0..vocabulary).map(|id| text(id).into()).collect();
        let is_newlines =
            |word: &[u8]| (1..=MAX_NEWLINES).contains(&word.len()) && word.iter().all(|&byte| byte == b'\n');
        let newlines = (0..).zip(&words).filter(|(_, word)| is_newlines(word)).map(|(id, _)| id).collect();
        let (open, close) = (Tag::new(open, &words), Tag::new(close, &words));
        Ok(Self { tables: Arc::new(Tables { open, close, words, newlines, eog }), anew: None })
    }

    /// Returns these tags for answers in which thinking may begin anew, by a name behind another text. That counts as thinking, so that it is not allowed
    /// once as many tokens were thought as may be; under a grammar it is not allowed at all. A token that has the end of `before` and goes on is not allowed.
    ///
    /// # Errors
    /// [`GrammarError::Grammar`] if a text is empty.
    pub fn with_anew(self, before: &str, name: &str) -> Result<Self, GrammarError> {
        if before.is_empty() || name.is_empty() {
            return Err(GrammarError::Grammar { reason: "the texts that begin thinking cannot be empty".to_owned() });
        }
        let words = &self.tables.words;
        let name = name.as_bytes();
        let is_begin = |word: &[u8]| !word.is_empty() && (name.starts_with(word) || word.starts_with(name));
        let begins = (0..).zip(words).filter(|(_, word)| is_begin(word)).map(|(id, _)| id).collect();
        let anew = Anew { before: Tag::new(before, words), begins };
        Ok(Self { anew: Some(Arc::new(anew)), ..self })
    }

    /// What makes a request think first, at most `max_tokens` tokens, and then follow a grammar, if there is one. Behind the last of these
    /// tokens the closing tag is all that is allowed. Thinking that goes on cannot be ended by an end-of-generation token.
    pub fn control(&self, start: ThinkingStart, max_tokens: Option<u32>, then: Option<&Grammar>) -> Control {
        let (tags, grammar) = (self.clone(), then.cloned());
        Control::masked(move || Ok(ThinkFirst::new(tags.clone(), start, max_tokens, grammar.clone())))
    }
}

impl fmt::Debug for ThinkingTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |tag: &Tag| String::from_utf8_lossy(&tag.bytes).into_owned();
        f.debug_struct("ThinkingTags")
            .field("open", &text(&self.tables.open))
            .field("close", &text(&self.tables.close))
            .finish_non_exhaustive()
    }
}

/// Follows one text through thinking and answer.
struct ThinkFirst {
    tags: ThinkingTags,
    /// Tokens that may still be thought.
    left: Option<u32>,
    grammar: Option<Grammar>,
    /// The answer under the grammar; `None` if there is no grammar, or if the text is no beginning of an answer.
    answer: Option<GrammarMatcher>,
    /// What the grammar allowed for the next token, where something else is allowed besides.
    allowed: Vec<u32>,
    state: State,
    /// How far what begins thinking anew has come in an answer without a grammar.
    anew: Begin,
}

/// How far what begins thinking anew has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// So many bytes of what stands before the name.
    Before(usize),
    /// The name is next.
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes of the opening tag have come, and nothing else.
    Opening(usize),
    /// In the thinking, which ends with so many bytes of the closing tag.
    Thinking(usize),
    /// Behind the closing tag and so many newlines.
    Between(usize),
    Answer,
}

impl ThinkFirst {
    fn new(tags: ThinkingTags, start: ThinkingStart, left: Option<u32>, grammar: Option<Grammar>) -> Self {
        let answer = grammar.as_ref().map(Grammar::matcher);
        let state = match start {
            ThinkingStart::MayBegin => State::Opening(0),
            ThinkingStart::Begun => State::Thinking(0),
        };
        Self { tags, left, grammar, answer, allowed: Vec::new(), state, anew: Begin::Before(0) }
    }

    /// Allows what the grammar does.
    fn guide_answer(&mut self, guide: &mut Guide) -> Result<Verdict, GrammarError> {
        match &mut self.answer {
            Some(answer) => answer.guide(guide),
            None => {
                if self.grammar.is_some() {
                    guide.forbid_all();
                } else if let Some(anew) = &self.tags.anew {
                    match self.anew {
                        Begin::Before(matched) => forbid(guide, &anew.before.across[matched]),
                        Begin::Name if self.left == Some(0) => forbid(guide, &anew.begins),
                        Begin::Name => {}
                    }
                }
                Ok(Verdict::Choose)
            }
        }
    }

    /// Allows what the grammar does, and these tokens.
    fn guide_answer_or(&mut self, guide: &mut Guide, ids: &[u32]) -> Result<Verdict, GrammarError> {
        let verdict = self.guide_answer(guide)?;
        self.allowed.clear();
        self.allowed.extend_from_slice(guide.mask());
        allow(guide, ids);
        Ok(verdict)
    }

    /// Whether the grammar allowed a token in the last guide.
    fn answer_allows(&self, token: u32) -> bool {
        self.allowed.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    fn accept_answer(&mut self, token: u32) -> Result<(), GrammarError> {
        self.state = State::Answer;
        match &mut self.answer {
            Some(answer) => answer.accept(token),
            None => {
                self.look_for_thinking(token);
                Ok(())
            }
        }
    }

    /// Looks whether a token of the answer begins thinking anew.
    fn look_for_thinking(&mut self, token: u32) {
        let (Some(anew), None) = (&self.tags.anew, &self.grammar) else { return };
        let word = self.tags.tables.words.get(token as usize).map_or(&[][..], |word| word);
        self.anew = match self.anew {
            Begin::Name if anew.begins.contains(&token) => {
                self.state = State::Thinking(0);
                Begin::Before(0)
            }
            Begin::Name => Begin::Before(0),
            Begin::Before(matched) => match anew.before.find(matched, word) {
                Ok(end) if end == word.len() => Begin::Name,
                Ok(_) => Begin::Before(0),
                Err(matched) => Begin::Before(matched),
            },
        };
    }

    /// Takes bytes of the thinking.
    fn think(&mut self, matched: usize, word: &[u8]) {
        self.state = match self.tags.tables.close.find(matched, word) {
            Ok(_) => State::Between(0),
            Err(matched) => State::Thinking(matched),
        };
        // Bytes of the opening tag may have been taken as the beginning of an answer.
        if self.state == State::Between(0) {
            self.answer = self.grammar.as_ref().map(Grammar::matcher);
        }
    }
}

impl Constraint for ThinkFirst {
    fn guide(&mut self, guide: &mut Guide) -> Result<Verdict, ControlError> {
        let tables = self.tags.tables.clone();
        match self.state {
            State::Opening(matched) => {
                let verdict = self.guide_answer_or(guide, &tables.open.next[matched])?;
                if self.left == Some(0) {
                    forbid(guide, &tables.open.across[matched]);
                }
                return Ok(verdict);
            }
            State::Thinking(matched) if self.left == Some(0) && !tables.close.next[matched].is_empty() => {
                guide.forbid_all();
                allow(guide, &tables.close.next[matched]);
            }
            State::Thinking(matched) => {
                forbid(guide, &tables.eog);
                forbid(guide, &tables.close.across[matched]);
            }
            State::Between(newlines) if self.grammar.is_some() => {
                let fits = |id: &&u32| tables.words[**id as usize].len() + newlines <= MAX_NEWLINES;
                let ids: Vec<u32> = tables.newlines.iter().filter(fits).copied().collect();
                return Ok(self.guide_answer_or(guide, &ids)?);
            }
            State::Between(_) | State::Answer => return Ok(self.guide_answer(guide)?),
        }
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, token: u32) -> Result<(), ControlError> {
        let tables = self.tags.tables.clone();
        let word = tables.words.get(token as usize).map_or(&[][..], |word| word);
        match self.state {
            State::Opening(matched) => {
                let rest = &tables.open.bytes[matched..];
                if !word.is_empty() && rest.starts_with(word) {
                    // The same bytes may be the beginning of an answer.
                    if self.answer_allows(token) {
                        self.answer.as_mut().map_or(Ok(()), |answer| answer.accept(token))?;
                    } else {
                        self.answer = None;
                    }
                    self.state = match rest.len() - word.len() {
                        0 => State::Thinking(0),
                        left => State::Opening(tables.open.bytes.len() - left),
                    };
                } else if let Some(thought) = word.strip_prefix(rest)
                    && self.grammar.is_none()
                {
                    self.left = self.left.map(|left| left.saturating_sub(1));
                    self.think(0, thought);
                } else {
                    self.accept_answer(token)?;
                }
            }
            State::Thinking(matched) => {
                self.left = self.left.map(|left| left.saturating_sub(1));
                self.think(matched, word);
            }
            State::Between(newlines) => {
                if self.grammar.is_none() || self.answer_allows(token) {
                    self.accept_answer(token)?;
                } else {
                    self.state = State::Between(newlines + word.len());
                }
            }
            State::Answer => self.accept_answer(token)?,
        }
        Ok(())
    }
}

/// Forbids some tokens.
fn forbid(guide: &mut Guide, ids: &[u32]) {
    for &id in ids {
        if guide.allows(id) {
            guide.forbid(id);
        }
    }
}

/// Allows those of some tokens that the model has: its tokenizer may know more.
fn allow(guide: &mut Guide, ids: &[u32]) {
    let tokens = guide.vocabulary_tokens();
    ids.iter().filter(|&&id| id < tokens).for_each(|&id| guide.allow(id));
}
