//! `zinc chat`: a conversation, line by line.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zinc_model::ChatTemplate;
use zinc_sched::Tracing;

use crate::answer::{self, Ending};
use crate::args::{ChatArgs, Format, JsonObject};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::sampler::Sampler;
use crate::session::{HostModel, Session};
use crate::{demo, interrupt, output, prompt};

const HELP: &str = "/exit leaves, /clear starts again, /regen answers again, /read FILE adds a file to the next message; \
                    Ctrl-C stops an answer, and leaves where there is none";

pub(crate) fn run(args: &ChatArgs) -> Result<()> {
    if args.engine.device.list_devices {
        return devices::list(Format::Text);
    }
    let sampler = Sampler::new(&args.generation)?;
    let host = HostModel::open(&demo::resolve(args.model.model.as_deref())?, &args.engine.cache)?;
    let sampler = sampler.for_model(&host)?;
    let template = host.template()?;
    let session = host.load(&args.engine, std::time::Duration::ZERO, Tracing::Off)?;
    interrupt::install()?;
    output::stderr_line(HELP);

    let conversation = Conversation::new(args.chat.system_prompt.as_deref());
    let mut chat =
        Chat { session: &session, template, sampler, conversation, kwargs: args.chat.chat_template_kwargs.as_ref() };
    while let Some(line) = read_line()? {
        match Input::parse(&line) {
            Input::Nothing => {}
            Input::Exit => break,
            Input::Clear => {
                chat.conversation.clear();
                output::stderr_line("cleared");
            }
            Input::Regenerate => match chat.conversation.reopen() {
                true => chat.answer()?,
                false => output::stderr_line("there is no answer yet"),
            },
            Input::Read(path) => match prompt::read_file(&path) {
                Ok(text) => {
                    output::stderr_line(&format!("{} characters go with the next message", text.chars().count()));
                    chat.conversation.attach(&text);
                }
                Err(error) => output::stderr_line(&error.to_string()),
            },
            Input::Unknown(word) => output::stderr_line(&format!("{word} is no command: {HELP}")),
            Input::Say(text) => {
                chat.conversation.say(text);
                chat.answer()?;
            }
        }
    }
    session.close()
}

/// The next line; `None` at the end of the input.
fn read_line() -> Result<Option<String>> {
    let interactive = io::stdin().is_terminal();
    if interactive {
        output::stderr("> ");
    }
    let mut line = String::new();
    let read =
        io::stdin().read_line(&mut line).map_err(|source| Error::Read { path: PathBuf::from("stdin"), source })?;
    if read == 0 && interactive {
        output::stderr("\n");
    }
    Ok((read > 0).then_some(line))
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    Exit,
    Clear,
    Regenerate,
    Read(PathBuf),
    Unknown(String),
    Say(String),
}

impl Input {
    fn parse(line: &str) -> Self {
        let line = line.trim_end_matches(['\n', '\r']);
        let words = line.trim();
        if words.is_empty() {
            return Self::Nothing;
        }
        if !words.starts_with('/') {
            return Self::Say(line.to_owned());
        }
        let (word, rest) =
            words.split_once(char::is_whitespace).map_or((words, ""), |(word, rest)| (word, rest.trim()));
        match (word, rest) {
            ("/exit", "") => Self::Exit,
            ("/clear", "") => Self::Clear,
            ("/regen", "") => Self::Regenerate,
            ("/read", path) if !path.is_empty() => Self::Read(Path::new(path).to_owned()),
            _ => Self::Unknown(word.to_owned()),
        }
    }
}

/// A conversation with the model that holds it.
struct Chat<'a> {
    session: &'a Session,
    template: ChatTemplate,
    sampler: Sampler,
    conversation: Conversation,
    kwargs: Option<&'a JsonObject>,
}

impl Chat<'_> {
    /// Answers the last message. What concerns this message alone is told and forgotten; anything else ends the chat.
    fn answer(&mut self) -> Result<()> {
        match self.try_answer() {
            Err(Error::PromptTooLong { prompt, context }) => {
                let take_back = "the last message is taken back; /clear starts again";
                output::stderr_line(&format!(
                    "the conversation has {prompt} tokens and the context holds {context}: {take_back}"
                ));
                self.conversation.take_back();
                Ok(())
            }
            Err(error @ (Error::Scheduler(zinc_sched::Error::NonFinite { .. }) | Error::Model(_))) => {
                output::stderr_line(&format!("{error}: the last message is taken back"));
                self.conversation.take_back();
                Ok(())
            }
            other => other,
        }
    }

    fn try_answer(&mut self) -> Result<()> {
        let host = &self.session.host;
        let messages = &self.conversation.messages;
        let ids = prompt::conversation_ids(&host.tokenizer, &self.template, messages, self.kwargs)?;
        host.check_prompt(&ids)?;
        let request = self.sampler.request(host, ids, Tracing::Off);
        self.sampler.advance();
        let answer = answer::stream(self.session, request, self.sampler.stop_matcher())?;
        if answer.ending == Ending::ContextFull {
            output::notice("the answer ends because the context is full; /clear starts again");
        }
        // A stopped answer stays: what comes next may refer to it.
        self.conversation.answered(&answer.text);
        Ok(())
    }
}

/// The messages so far, and what was read for the next one.
#[derive(Debug, Default)]
struct Conversation {
    messages: Vec<Value>,
    system: Option<String>,
    attached: String,
}

impl Conversation {
    fn new(system: Option<&str>) -> Self {
        let mut conversation = Self { system: system.map(str::to_owned), ..Self::default() };
        conversation.clear();
        conversation
    }

    fn clear(&mut self) {
        let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
        self.messages = system.collect();
        self.attached.clear();
    }

    fn attach(&mut self, text: &str) {
        if !self.attached.is_empty() {
            self.attached.push_str("\n\n");
        }
        self.attached.push_str(text);
    }

    fn say(&mut self, text: String) {
        let attached = std::mem::take(&mut self.attached);
        let content = if attached.is_empty() { text } else { format!("{attached}\n\n{text}") };
        self.messages.push(json!({ "role": "user", "content": content }));
    }

    fn answered(&mut self, text: &str) {
        self.messages.push(json!({ "role": "assistant", "content": text }));
    }

    /// Removes the last answer, so that it can be given again; says whether there was one.
    fn reopen(&mut self) -> bool {
        let answered = self.last_role() == Some("assistant");
        if answered {
            self.messages.pop();
        }
        answered
    }

    /// Removes the last message of the user.
    fn take_back(&mut self) {
        if self.last_role() == Some("user") {
            self.messages.pop();
        }
    }

    fn last_role(&self) -> Option<&str> {
        self.messages.last()?["role"].as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(Input::parse(" \n"), Input::Nothing);
        assert_eq!(Input::parse("/exit\r\n"), Input::Exit);
        assert_eq!(Input::parse(" /clear \n"), Input::Clear);
        assert_eq!(Input::parse("/regen"), Input::Regenerate);
        assert_eq!(Input::parse("/read  a b.txt\n"), Input::Read(PathBuf::from("a b.txt")));
        assert_eq!(Input::parse("/read\n"), Input::Unknown("/read".to_owned()));
        assert_eq!(Input::parse("/exit now\n"), Input::Unknown("/exit".to_owned()));
        assert_eq!(Input::parse("  What is 1/2? \n"), Input::Say("  What is 1/2? ".to_owned()));
    }

    #[test]
    fn a_file_goes_with_the_next_message_only() {
        let mut conversation = Conversation::new(None);
        conversation.attach("one");
        conversation.attach("two");
        conversation.say("Sum up.".to_owned());
        conversation.answered("Numbers.");
        conversation.say("And?".to_owned());
        assert_eq!(conversation.messages[0]["content"], "one\n\ntwo\n\nSum up.");
        assert_eq!(conversation.messages[2]["content"], "And?");
    }

    #[test]
    fn an_answer_is_given_again_and_a_message_taken_back() {
        let mut conversation = Conversation::new(Some("Be brief."));
        assert!(!conversation.reopen());
        conversation.take_back();
        assert_eq!(conversation.messages.len(), 1);
        conversation.say("hi".to_owned());
        conversation.answered("Hello.");
        assert!(conversation.reopen());
        assert_eq!(conversation.last_role(), Some("user"));
        conversation.take_back();
        assert_eq!(conversation.last_role(), Some("system"));
    }

    #[test]
    fn clearing_keeps_the_system_message_and_forgets_files() {
        let mut conversation = Conversation::new(Some("Be brief."));
        conversation.attach("file");
        conversation.say("hi".to_owned());
        conversation.attach("file");
        conversation.clear();
        conversation.say("again".to_owned());
        assert_eq!(conversation.messages.len(), 2);
        assert_eq!(conversation.messages[1]["content"], "again");
    }
}
