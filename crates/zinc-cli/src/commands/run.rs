//! `zinc run`: one prompt, one answer.

use std::time::Instant;

use zinc_engine::{Answer, AnswerRules, Conversation, Ending, ModelFile};
use zinc_model::Special;
use zinc_sched::Tracing;
use zinc_server::output::OutputFormat;

use crate::args::{self, Format, RunArgs};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::trace::{self, Taken};
use crate::{answer, chat_template, demo, options, output, prompt, surroundings};

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    if args.engine.device.list_devices {
        return devices::list(Format::Text);
    }
    let trace = if args.measure.trace.is_some() { Tracing::On } else { Tracing::Off };
    let mut answers = options::answer_options(&args.generation)?;
    answers.trace = trace;
    let mut opening = Opening::new();
    let mut show = |event| opening.show(event);
    let path = demo::resolve(args.model.model.as_deref())?;
    let file = ModelFile::open(&path, &options::engine_file_options(&args.engine), &mut show)?;
    answers.continues_text = args.raw;
    let format = match args.raw {
        true => OutputFormat::default(),
        false => chat_template::format(&args.chat.source, &file.model().file)?,
    };
    answers.shown = options::shown(&format);
    let rules = answers.for_model(&file)?;
    let prompt = prompt_ids(args, &file, &prompt::read_prompt(&args.text)?)?;

    let start = Instant::now();
    let place = surroundings::open_place(
        &options::device_options(args.engine.device.device.as_ref(), args.engine.device.units.matrix_units)?,
        &mut show,
    )?;
    let load = options::drive_options(&args.engine, args.measure.host_work, trace);
    let model = file.load(&place, &load, &mut show)?;
    let load = start.elapsed();
    let (answer, _) = answer::print(&model, &rules, &format, prompt)?;

    output::stderr_line(&format!("load:       {:>26.1} ms", load.as_secs_f64() * 1e3));
    tell(&answer, &rules);
    if let Some(path) = &args.measure.trace {
        let taken = Taken {
            sync: &args::word(&args.engine.sync),
            depth: args.engine.depth.get(),
            host_work: args.measure.host_work,
            device: place.name(),
        };
        trace::write(path, &taken.document(&answer.completion))?;
    }
    model.close()?;
    answer::tell_of_cut(&answer, &rules);
    match answer.ending {
        Ending::Cancelled => Err(Error::Interrupted),
        Ending::ContextFull => {
            output::notice("the answer ends because the context is full; -c raises it");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Tells what an answer took.
fn tell(answer: &Answer, rules: &AnswerRules) {
    output::stderr_line(&answer::summary(&answer.completion));
    if rules.is_random() {
        output::stderr_line(&format!("seed:       {}", rules.seed()));
    }
}

/// The ids of the text itself, or of a conversation that it opens.
fn prompt_ids(args: &RunArgs, file: &ModelFile, text: &str) -> Result<Vec<u32>> {
    if args.raw {
        return Ok(file.text_prompt(text, Special::Parse)?);
    }
    let mut conversation = Conversation::new(args.chat.system()?.as_deref());
    conversation.say(text);
    let kwargs = args.chat.chat_template_kwargs.clone().unwrap_or_default();
    let template = chat_template::of(&args.chat.source, &file.model().file)?;
    Ok(file.chat_prompt(&template, &conversation.input(kwargs))?)
}
