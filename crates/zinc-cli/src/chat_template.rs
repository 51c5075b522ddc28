//! The chat template of a command: the one that was asked for, or the model's own.

use zinc_model::{ChatTemplate, gguf};
use zinc_server::output::OutputFormat;

use crate::args::TemplateSourceArgs;
use crate::error::Result;

/// The template that was asked for, compiled for a file, or the file's own.
///
/// # Errors
/// A file with a template that cannot be read, a template that does not compile, or [`zinc_engine::Error::NoTemplate`].
pub(crate) fn of(args: &TemplateSourceArgs, file: &gguf::File) -> Result<ChatTemplate> {
    match args.read()? {
        Some(source) => Ok(ChatTemplate::for_file(&source, file)?),
        None => Ok(zinc_engine::chat_template(file)?),
    }
}

/// The form in which a model answers to such a template.
///
/// # Errors
/// A file with a template that cannot be read.
pub(crate) fn format(args: &TemplateSourceArgs, file: &gguf::File) -> Result<OutputFormat> {
    let own = || file.metadata().get_str("tokenizer.chat_template").ok().flatten().map(str::to_owned);
    Ok(args.read()?.or_else(own).map_or(OutputFormat::default(), |source| OutputFormat::of_template(&source)))
}
