//! `zinc run`: one prompt, one answer.

use std::fs;
use std::path::Path;

use serde_json::json;
use zinc_model::Special;
use zinc_sched::{Completion, TraceSummary, Tracing};

use crate::answer::{self, Ending};
use crate::args::{Format, RunArgs};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::prompt::{self, Newline};
use crate::sampler::Sampler;
use crate::session::HostModel;
use crate::{demo, output};

pub(crate) fn run(args: &RunArgs) -> Result<()> {
    if args.engine.device.list_devices {
        return devices::list(Format::Text);
    }
    let sampler = Sampler::new(&args.generation)?;
    let host = HostModel::open(&demo::resolve(args.model.model.as_deref())?, &args.engine.cache)?;
    let sampler = sampler.for_model(&host)?;
    let text = prompt::read_text(&args.text, Newline::DropLast)?;
    let ids = prompt_ids(args, &host, &text)?;
    host.check_prompt(&ids)?;

    let tracing = if args.measure.trace.is_some() { Tracing::On } else { Tracing::Off };
    let session = host.load(&args.engine, args.measure.host_work, tracing)?;
    let request = sampler.request(&session.host, ids, tracing);
    let answer = answer::stream(&session, request, sampler.stop_matcher())?;

    output::stderr_line(&format!("load:       {:>26.1} ms", session.load.as_secs_f64() * 1e3));
    output::stderr_line(&answer::summary(&answer.completion));
    if sampler.is_random() {
        output::stderr_line(&format!("seed:       {}", sampler.seed()));
    }
    if let Some(path) = &args.measure.trace {
        write_trace(path, args, &answer.completion)?;
    }
    session.close()?;
    match answer.ending {
        Ending::Interrupted => Err(Error::Interrupted),
        Ending::ContextFull => {
            output::notice("the answer ends because the context is full; -c raises it");
            Ok(())
        }
        Ending::Stop | Ending::Length => Ok(()),
    }
}

fn prompt_ids(args: &RunArgs, host: &HostModel, text: &str) -> Result<Vec<u32>> {
    if args.raw {
        return Ok(host.tokenizer.encode_prompt(text, Special::Parse)?);
    }
    let messages = prompt::first_messages(args.chat.system_prompt.as_deref(), text);
    prompt::conversation_ids(&host.tokenizer, &host.template()?, &messages, args.chat.chat_template_kwargs.as_ref())
}

/// Writes the trace, with what it was taken of.
fn write_trace(path: &Path, args: &RunArgs, completion: &Completion) -> Result<()> {
    let trace = completion.trace.as_ref().expect("a trace was asked for");
    let document = json!({
        "sync": format!("{:?}", args.engine.sync).to_lowercase(),
        "depth": args.engine.depth.get(),
        "host_work_us": u64::try_from(args.measure.host_work.as_micros()).unwrap_or(u64::MAX),
        "prompt_tokens": completion.usage.prompt_tokens,
        "completion_tokens": completion.usage.completion_tokens,
        "summary": TraceSummary::of(trace),
        "counters": trace.counters,
        "steps": trace.steps,
    });
    let write = |source| Error::Write { path: path.to_owned(), source };
    fs::write(path, document.to_string() + "\n").map_err(write)
}
