//! `zinc run`: one prompt, one answer.

use zinc_model::Special;
use zinc_sched::Tracing;

use crate::answer::{self, Ending};
use crate::args::{self, Format, RunArgs};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::prompt::{self, Newline};
use crate::sampler::Sampler;
use crate::session::HostModel;
use crate::trace::{self, Taken};
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
        let taken = Taken {
            sync: &args::word(&args.engine.sync),
            depth: args.engine.depth.get(),
            host_work: args.measure.host_work,
            device: &session.device,
        };
        trace::write(path, &taken.document(&answer.completion))?;
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
