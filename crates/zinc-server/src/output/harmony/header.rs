//! The header of a message in harmony: who says it, to whom, in which channel, and of which type its text is.

use super::super::Tool;
use super::super::held::{could_be_name, is_in_name, is_space};
use super::super::text::Lane;
use super::{CHANNEL, START};

/// The most bytes of a header. What is longer is text in front of which the model has left out a mark.
const MAX_HEADER_BYTES: usize = 256;

const CHANNELS: [&str; 3] = ["analysis", "commentary", "final"];
/// Further words of headers: the only role that an answer has, and types of texts.
const OTHERS: [&str; 3] = ["assistant", "json", "code"];
/// What stands before the name of whom a message goes to.
const TO: &str = "to=";
/// The namespace of the tools of a request.
const FUNCTIONS: &str = "functions.";
/// Names of those whom a message can go to and who are no tools.
const NO_TOOLS: [&str; 5] = ["assistant", "user", "system", "developer", "all"];

/// A header as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Header {
    /// The parts between the marks, with the mark before each. The first is that of the role; it has none where a header is only expected.
    parts: Vec<(Option<&'static str>, String)>,
    bytes: usize,
}

/// What a character of a header makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It may be a header.
    Header,
    /// It has gone over into the text of a message.
    Text,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// Whoever reads that lane.
    Lane(Lane),
    /// The tool of this name. If it is no call, whoever reads the lane.
    Tool { name: String, lane: Lane },
}

impl Header {
    /// What comes where a message may begin: a header, of which the mark may be missing, or text without one.
    pub(super) fn expected() -> Self {
        Self { parts: vec![(None, String::new())], bytes: 0 }
    }

    /// Takes a mark within the header, or the one that begins it.
    pub(super) fn part(&mut self, mark: &'static str) {
        if mark == START {
            self.parts.clear();
        }
        self.parts.push((Some(mark), String::new()));
    }

    /// Whether a mark has come behind the role.
    pub(super) fn is_behind_role(&self) -> bool {
        self.parts.len() > 1
    }

    /// Takes a character.
    pub(super) fn push(&mut self, c: char) -> Look {
        self.bytes += c.len_utf8();
        let is_expected = self.parts.len() == 1 && self.parts[0].0.is_none();
        let Some((_, text)) = self.parts.last_mut() else { return Look::Text };
        text.push(c);
        if self.bytes > MAX_HEADER_BYTES || is_expected && !could_be_header(text) { Look::Text } else { Look::Header }
    }

    /// Whom the message is for. `lane` is that of messages without a channel, and in the one for calls and remarks.
    pub(super) fn addressee(&self, lane: Lane, tools: &[Tool]) -> Addressee {
        if self.is_of_another() {
            // The model makes up what a user or a tool says.
            return Addressee::Lane(Lane::Reasoning);
        }
        let channel = self.channel();
        let lane = match channel {
            Some("analysis") => Lane::Reasoning,
            Some("final") => Lane::Content,
            _ => lane,
        };
        let own = Addressee::Lane(lane);
        let Some(recipient) = self.recipient().filter(|_| !tools.is_empty()) else { return own };
        let function = recipient.strip_prefix(FUNCTIONS);
        let name = function.unwrap_or(recipient);
        let is_tool = function.is_some() || tools.iter().any(|tool| tool.name == name);
        let may_be_tool = !matches!(channel, Some("analysis" | "final")) && !NO_TOOLS.contains(&name);
        match (is_tool || may_be_tool) && could_be_name(name) {
            true => Addressee::Tool { name: name.to_owned(), lane },
            false => own,
        }
    }

    /// Whom [`Self::text`] is for. Without any mark and recipient it is an answer that has no header.
    pub(super) fn addressee_of_text(&self, lane: Lane, tools: &[Tool]) -> Addressee {
        let is_bare = matches!(&self.parts[..], [(None, _)]) && self.recipient().is_none();
        if is_bare { Addressee::Lane(Lane::Content) } else { self.addressee(lane, tools) }
    }

    /// What in the header is none of it: the text of a message before which a mark is missing.
    pub(super) fn text(&self) -> &str {
        let Some((mark, text)) = self.parts.last() else { return "" };
        match mark {
            None if text.trim_matches(is_space).is_empty() => "",
            None if self.recipient().is_none() => text,
            Some(START) => behind_words(behind_word(text)),
            _ => behind_words(text),
        }
    }

    /// What [`Self::text`] is at the end of an answer, where a word of a header may be cut off.
    pub(super) fn last_text(&self) -> &str {
        let text = self.text();
        let is_cut = self.parts.last().is_some_and(|(mark, _)| mark.is_some()) && could_be_header(text);
        if is_cut { "" } else { text }
    }

    /// Whether the message is not the model's.
    fn is_of_another(&self) -> bool {
        let Some((Some(START), role)) = self.parts.first() else { return false };
        let role = role.split(is_space).find(|word| !word.is_empty());
        role.is_some_and(|role| !role.starts_with(TO) && !words().any(|word| role.starts_with(word)))
    }

    /// The last channel that is named.
    fn channel(&self) -> Option<&'static str> {
        let of_part = |(mark, text): &(Option<&str>, String)| {
            CHANNELS.into_iter().find(|name| match *mark {
                Some(CHANNEL) => text.trim_start_matches(is_space).starts_with(name),
                // Models leave out the mark before the channel.
                _ => text.split(is_space).any(|word| word == *name),
            })
        };
        self.parts.iter().rev().find_map(of_part)
    }

    /// The last one to whom it says that it goes.
    fn recipient(&self) -> Option<&str> {
        let named = self.parts.iter().flat_map(|(_, text)| text.split(TO).skip(1));
        named
            .map(|text| &text[..text.find(|c| !is_in_name(c)).unwrap_or(text.len())])
            .filter(|name| !name.is_empty())
            .last()
    }
}

/// The words that headers are made of, besides names.
fn words() -> impl Iterator<Item = &'static str> {
    CHANNELS.into_iter().chain(OTHERS)
}

/// Whether a text has nothing but words of headers, of which the last may not be complete.
fn could_be_header(text: &str) -> bool {
    let mut given = text.split(is_space).filter(|word| !word.is_empty()).peekable();
    let is_open = !text.ends_with(is_space);
    while let Some(word) = given.next() {
        let may_go_on = is_open && given.peek().is_none();
        let is_known = words().any(|known| known == word || may_go_on && known.starts_with(word));
        let is_name =
            [TO, FUNCTIONS].iter().any(|begin| word.starts_with(begin) || may_go_on && begin.starts_with(word));
        if !is_known && !is_name {
            return false;
        }
    }
    true
}

/// A text without its first word.
fn behind_word(text: &str) -> &str {
    let text = text.trim_start_matches(is_space);
    &text[text.find(is_space).unwrap_or(text.len())..]
}

/// A text without the words of headers that it begins with, and punctuation that models write behind them.
fn behind_words(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches(|c| is_space(c) || "?!.,:;".contains(c));
        let behind = |word| text.strip_prefix(word).filter(|rest: &&str| !rest.starts_with(char::is_lowercase));
        text = match text.strip_prefix(TO) {
            Some(name) => name.trim_start_matches(is_in_name),
            None => match words().find_map(behind) {
                Some(rest) => rest,
                None => return text,
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::{CONSTRAIN, MARKS};
    use super::*;

    /// A header as models write it, behind the mark that ends the message before.
    fn header(text: &str) -> Header {
        let mut header = Header::expected();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
                header.part(mark);
                rest = &rest[mark.len()..];
            } else {
                let c = rest.chars().next().unwrap();
                header.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        header
    }

    #[test]
    fn headers_say_whom_a_message_is_for() {
        let tools = [Tool { name: "get".to_owned(), description: None, parameters: Value::Null }];
        let tool = |name: &str, lane| Addressee::Tool { name: name.to_owned(), lane };
        let [content, reasoning] = [Lane::Content, Lane::Reasoning].map(Addressee::Lane);
        for (text, addressee) in [
            ("<|channel|>analysis", reasoning.clone()),
            ("<|start|>assistant<|channel|>final", content.clone()),
            ("<|channel|>commentary", content.clone()),
            ("<|channel|>commentary to=functions.get <|constrain|>json", tool("get", Lane::Content)),
            (" to=functions.get<|channel|>commentary json", tool("get", Lane::Content)),
            ("<|start|>assistant to=functions.get<|channel|>analysis", tool("get", Lane::Reasoning)),
            ("<|channel|>commentary to=functions.get<|constrain|>json", tool("get", Lane::Content)),
            ("<|channel|>commentary to=get", tool("get", Lane::Content)),
            ("<|channel|>analysis to=get code", tool("get", Lane::Reasoning)),
            ("<|channel|>commentary to=repo.open", tool("repo.open", Lane::Content)),
            ("<|channel|>analysis to=python code", reasoning.clone()),
            ("<|channel|>commentary to=assistant", content.clone()),
            ("<|channel|>commentary to=", content.clone()),
            // Malformed ones.
            ("<|channel|>commentary to=assistant<|channel|>commentary?", content.clone()),
            ("<|channel|>commentary 2?", content.clone()),
            ("<|channel|>??<|channel|>analysis", reasoning.clone()),
            ("<|channel|>??", content.clone()),
            ("analysis", reasoning.clone()),
            ("<|start|><|channel|>analysis", reasoning.clone()),
            ("<|start|>assistantassistant<|channel|>analysis", reasoning.clone()),
            // Made up by the model.
            ("<|start|>user", reasoning.clone()),
            ("<|start|>functions.get to=assistant<|channel|>commentary", reasoning.clone()),
        ] {
            assert_eq!(header(text).addressee(Lane::Content, &tools), addressee, "{text}");
        }
        let call = header("<|channel|>commentary to=functions.get");
        assert_eq!(call.addressee(Lane::Content, &[]), content, "without tools there are no calls");
        assert_eq!(header("<|channel|>??").addressee(Lane::Reasoning, &tools), reasoning);
        assert_eq!(header("analysis o").addressee_of_text(Lane::Reasoning, &tools), content);
    }

    #[test]
    fn text_without_a_mark_is_told_from_words_of_headers() {
        for (text, expected) in [
            ("<|channel|>final Hello", "Hello"),
            ("<|channel|>finally done", "finally done"),
            ("<|channel|>analysisWe need", "We need"),
            ("<|channel|>commentary?commentary?", ""),
            ("<|channel|>commentary to=functions.get json{\"a\":1}", "{\"a\":1}"),
            ("<|channel|>commentary to=functions.get<|constrain|>json {}", "{}"),
            ("<|start|>assistant Hello there", "Hello there"),
            ("<|start|>user", ""),
            ("final answer", "final answer"),
            (" \n", ""),
        ] {
            assert_eq!(header(text).text(), expected, "{text}");
        }
        for (text, expected) in [
            ("<|channel|>ana", ""),
            ("<|channel|>final Hello", "Hello"),
            ("<|channel|>commentary to=func", ""),
            ("final", "final"),
        ] {
            assert_eq!(header(text).last_text(), expected, "{text}");
        }
        assert!(["", " to=functions.g", "assistant", "ana", "final "].iter().all(|text| could_be_header(text)));
        assert!(["x", "analyst", "ana lysis", "The answer"].iter().all(|text| !could_be_header(text)));
        assert!(header(CONSTRAIN).is_behind_role());
    }

    #[test]
    fn headers_have_a_largest_length() {
        let mut header = Header::expected();
        header.part(CHANNEL);
        let taken = std::iter::repeat_n('?', 1000).position(|c| header.push(c) == Look::Text);
        assert_eq!(taken, Some(MAX_HEADER_BYTES));
    }
}
