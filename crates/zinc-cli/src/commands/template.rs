//! `zinc template`: a conversation as the model's chat template renders it. Needs only the vocabulary of a file.

use std::path::Path;

use serde_json::Value;
use zinc_model::{ChatInput, gguf};

use crate::args::TemplateArgs;
use crate::error::{Error, Result};
use crate::{demo, output, prompt};

pub(crate) fn run(args: &TemplateArgs) -> Result<()> {
    let file = gguf::File::open(demo::resolve(args.model.model.as_deref())?)?;
    let template = zinc_engine::chat_template(&file)?;
    let input = ChatInput {
        messages: read_array(&args.messages)?,
        tools: args.tools.as_deref().map(read_array).transpose()?,
        kwargs: args.kwargs.clone().unwrap_or_default(),
        add_generation_prompt: !args.no_generation_prompt,
    };
    output::stdout(&template.render(&input)?)
}

fn read_array(path: &Path) -> Result<Value> {
    let content = |reason: String| Error::Content { path: path.to_owned(), reason };
    match serde_json::from_str(&prompt::read_file(path)?) {
        Ok(array @ Value::Array(_)) => Ok(array),
        Ok(_) => Err(content("holds JSON that is not an array".to_owned())),
        Err(error) => Err(content(format!("is not JSON: {error}"))),
    }
}
