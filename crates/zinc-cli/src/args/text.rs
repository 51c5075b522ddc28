//! Where text comes from, and how conversations become text.

use std::path::PathBuf;

use zinc_model::template;

use crate::error::Result;
use crate::text_file;

/// The flags that say where a command's text comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct TextArgs {
    /// The text; without it and -f, stdin. For `zinc run`, stdin follows it on a new line where that is a pipe or a file; `< /dev/null` leaves it
    /// out
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) prompt: Option<String>,
    /// A file with the text
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// How conversations become text.
#[derive(Debug, clap::Args)]
pub(crate) struct ChatTemplateArgs {
    /// A system message, which comes before the user's first message [-sys]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, overrides_with = "system_prompt_file")]
    system_prompt: Option<String>,
    /// A file with the system message [-sysf]
    #[arg(long, value_name = "FILE", overrides_with = "system_prompt")]
    system_prompt_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: TemplateSourceArgs,
    /// Further variables of the chat template, as a JSON object
    #[arg(long, value_name = "JSON", alias = "kwargs", value_parser = super::json_object)]
    pub(crate) chat_template_kwargs: Option<super::JsonObject>,
}

impl ChatTemplateArgs {
    /// The text of the system message, from the command line or from its file; `None` if there is none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn system(&self) -> Result<Option<String>> {
        match &self.system_prompt_file {
            Some(path) => text_file::read(path).map(Some),
            None => Ok(self.system_prompt.clone()),
        }
    }
}

/// A chat template in place of the one in the model's file.
#[derive(Debug, clap::Args)]
pub(crate) struct TemplateSourceArgs {
    /// A chat template in place of the model's, by llama.cpp's name for it, such as chatml or llama3; or the template itself, in Jinja
    #[arg(long, value_name = "NAME", value_parser = template, overrides_with = "chat_template_file")]
    chat_template: Option<String>,
    /// A file with a chat template, in Jinja, in place of the model's
    #[arg(long, value_name = "FILE", overrides_with = "chat_template")]
    chat_template_file: Option<PathBuf>,
}

impl TemplateSourceArgs {
    /// The text of the template, from the command line or from its file; `None` stands for the template in the model's
    /// file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(&self) -> Result<Option<String>> {
        match &self.chat_template_file {
            Some(path) => text_file::read(path).map(Some),
            None => Ok(self.chat_template.clone()),
        }
    }
}

/// The text of the template of this name. What has Jinja's brackets in it is a template itself.
fn template(text: &str) -> Result<String, String> {
    if text.contains("{{") || text.contains("{%") {
        return Ok(text.to_owned());
    }
    template::builtin(text).ok_or_else(|| {
        let names = template::builtin_names().collect::<Vec<_>>().join(", ");
        format!("there is no template of this name; there are {names}; --chat-template-file takes others")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::error::Error;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        chat: ChatTemplateArgs,
    }

    fn chat(line: &[&str]) -> Result<ChatTemplateArgs> {
        Ok(Line::try_parse_from(std::iter::once(&"zinc").chain(line))?.chat)
    }

    #[test]
    fn system_messages_and_templates_are_texts_or_files_and_the_last_one_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        std::fs::write(&path, b"\xef\xbb\xbfFrom {{ file }}\n").unwrap();
        let file = path.to_str().unwrap();
        let system = |line: &[&str]| chat(line).unwrap().system().unwrap();
        let (own, from_file) = (Some("a".to_owned()), Some("From {{ file }}\n".to_owned()));
        assert_eq!(system(&[]), None);
        assert_eq!(system(&["--system-prompt-file", file]), from_file);
        assert_eq!(system(&["--system-prompt-file", file, "--system-prompt", "a"]), own);
        assert_eq!(system(&["--system-prompt", "a", "--system-prompt-file", file]), from_file);

        let template = |line: &[&str]| chat(line).unwrap().source.read().unwrap();
        assert_eq!(template(&[]), None);
        assert_eq!(template(&["--chat-template", "chatml"]), template::builtin("chatml"));
        assert_eq!(template(&["--chat-template", "{{ messages }}"]).as_deref(), Some("{{ messages }}"));
        let both = ["--chat-template", "llama3", "--chat-template-file", file];
        assert_eq!(template(&both), from_file);
        assert_eq!(template(&[&both[2..], &both[..2]].concat()), template::builtin("llama3"));
        let Err(Error::Usage { message }) = chat(&["--chat-template", "lama3"]) else { panic!("it is known") };
        assert!(message.contains("lama3") && message.contains("chatml") && message.contains("phi4"), "{message}");
    }
}
