//! `zinc chat`: a conversation, line by line.

mod input;
mod lines;

use std::time::Duration;

use zinc_engine::{AnswerRules, Conversation, Ending, LoadedModel, ModelFile};
use zinc_model::ChatTemplate;
use zinc_sched::Tracing;
use zinc_server::output::OutputFormat;

use crate::args::{ChatArgs, Format, JsonObject};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::{answer, chat_template, demo, interrupt, options, output, surroundings, text_file};
use input::{HELP, Input};
use lines::{Editing, Line, Lines};

pub(crate) fn run(args: &ChatArgs) -> Result<()> {
    if args.engine.device.list_devices {
        return devices::list(Format::Text);
    }
    let mut answers = options::answer_options(&args.generation)?;
    let conversation = Conversation::new(args.chat.system()?.as_deref());
    let mut opening = Opening::new();
    let mut show = |event| opening.show(event);
    let path = demo::resolve(args.model.model.as_deref())?;
    let file = ModelFile::open(&path, &options::engine_file_options(&args.engine), &mut show)?;
    let template = chat_template::of(&args.chat.source, &file.model().file)?;
    let format = chat_template::format(&args.chat.source, &file.model().file)?;
    answers.shown = options::shown(&format);
    let rules = answers.for_model(&file)?;
    let place = surroundings::open_place(
        &options::device_options(args.engine.device.device.as_ref(), args.engine.device.units.matrix_units)?,
        &mut show,
    )?;
    let load = options::drive_options(&args.engine, Duration::ZERO, Tracing::Off);
    let model = file.load(&place, &load, &mut show)?;
    interrupt::install()?;
    output::stderr_line(HELP);

    let kwargs = args.chat.chat_template_kwargs.clone().unwrap_or_default();
    let mut chat = Chat { model: &model, template, format, rules, conversation, kwargs };
    let mut lines = Lines::open(if args.simple_io { Editing::Off } else { Editing::WherePossible });
    // The last line, if it was a mistake. It is offered again, so that the user can correct it.
    let mut kept = String::new();
    loop {
        let text = match lines.next(&std::mem::take(&mut kept))? {
            Line::Message(text) => text,
            Line::Broken(reason) => {
                output::stderr_line(&reason);
                continue;
            }
            Line::End => break,
        };
        match Input::parse(&text) {
            Input::Exit => break,
            Input::Mistake(reason) => {
                output::stderr_line(&reason);
                kept = text;
            }
            input => chat.take(input)?,
        }
    }
    Ok(model.close()?)
}

/// A conversation, and the model that answers in it.
struct Chat<'a> {
    model: &'a LoadedModel,
    template: ChatTemplate,
    format: OutputFormat,
    rules: AnswerRules,
    conversation: Conversation,
    /// Variables for the chat template besides the messages.
    kwargs: JsonObject,
}

impl Chat<'_> {
    /// Does what a line asks for.
    fn take(&mut self, input: Input) -> Result<()> {
        match input {
            Input::Nothing | Input::Exit | Input::Mistake(_) => {}
            Input::Help => output::stderr_line(HELP),
            Input::Clear => {
                self.conversation.clear();
                output::stderr_line("cleared");
            }
            Input::Regenerate if self.conversation.reopen() => self.answer()?,
            Input::Regenerate => output::stderr_line("there is no answer yet"),
            Input::Read(path) => match text_file::read(&path) {
                Ok(text) => {
                    output::stderr_line(&format!("{} characters go with the next message", text.chars().count()));
                    self.conversation.attach(&text);
                }
                Err(error) => output::stderr_line(&error.to_string()),
            },
            Input::Say(text) => {
                self.conversation.say(text);
                self.answer()?;
            }
        }
        Ok(())
    }

    /// Answers the last message. An error that concerns this message alone is printed, and the message is taken back.
    /// Any other error ends the chat.
    fn answer(&mut self) -> Result<()> {
        let told = match self.try_answer() {
            Err(Error::Engine(zinc_engine::Error::Scheduler(zinc_sched::Error::PromptTooLong {
                prompt_tokens,
                context_tokens,
            }))) => format!(
                "the conversation has {prompt_tokens} tokens and the context holds {context_tokens}: the last message is \
                 taken back; /clear starts again"
            ),
            Err(Error::Engine(error)) if error.concerns_one_request() => {
                format!("{error}: the last message is taken back")
            }
            other => return other,
        };
        output::stderr_line(&told);
        self.conversation.take_back();
        Ok(())
    }

    fn try_answer(&mut self) -> Result<()> {
        let prompt = self.model.file().chat_prompt(&self.template, &self.conversation.input(self.kwargs.clone()))?;
        let answer = answer::print(self.model, &self.rules, &self.format, prompt);
        self.rules.advance_seed();
        let (answer, kept) = answer?;
        if answer.ending == Ending::ContextFull {
            output::notice("the answer ends because the context is full; /clear starts again");
        }
        answer::tell_of_cut(&answer, &self.rules);
        // An answer that was cut short stays in the conversation, since the next message may refer to it.
        match &kept.thought {
            Some(thought) => self.conversation.answered_after(thought, &kept.text),
            None => self.conversation.answered(&kept.text),
        }
        Ok(())
    }
}
