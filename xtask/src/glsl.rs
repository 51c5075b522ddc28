//! Reads comments and plain `const uint` values from the text of GLSL files, because SPIR-V does not carry them.

#![cfg(feature = "shaderc")]

use std::collections::BTreeMap;

/// The comment at the head of a file, by lines.
pub(crate) fn summary(source: &str) -> Vec<String> {
    source
        .lines()
        .take_while(|line| line.starts_with("//"))
        .map(|line| without_links(line.trim_start_matches("//").trim()))
        .collect()
}

/// Escapes the brackets of a comment, which are indices, so that rustdoc does not take them for links.
fn without_links(comment: &str) -> String {
    comment.replace('[', "\\[").replace(']', "\\]")
}

/// Names and values of constants that are declared as `const uint A = 0, B = 1;` at the start of a line. Constants whose values are
/// expressions are left out.
pub(crate) fn constants(source: &str) -> Vec<(String, String)> {
    source
        .lines()
        .filter_map(|line| line.strip_prefix("const uint "))
        .filter_map(|line| line.split_once(';'))
        .flat_map(|(list, _)| list.split(','))
        .filter_map(|item| item.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_end_matches('u').to_owned()))
        .filter(|(_, value)| value.parse::<u32>().is_ok() || value.starts_with("0x"))
        .collect()
}

/// Whether a line declares the buffer or push-constant block `name`.
fn declaration(line: &str, name: &str) -> bool {
    line.starts_with("layout(")
        && (line.ends_with(&format!("buffer {name} {{")) || line.ends_with(&format!("uniform {name} {{")))
}

/// Whether the file declares the buffer or push-constant block `name`.
pub(crate) fn declares_block(source: &str, name: &str) -> bool {
    source.lines().any(|line| declaration(line, name))
}

/// The comment above the declaration of the block `name`, in one line.
pub(crate) fn block_doc(source: &str, name: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let Some(at) = lines.iter().position(|line| declaration(line, name)) else { return String::new() };
    let above: Vec<&str> = lines[..at].iter().rev().take_while(|line| line.starts_with("//")).copied().collect();
    let doc: Vec<&str> = above.into_iter().rev().map(|line| line.trim_start_matches("//").trim()).collect();
    without_links(&doc.join(" "))
}

/// The comments behind the members of the block `name`, by the members' names.
pub(crate) fn member_docs(source: &str, name: &str) -> BTreeMap<String, String> {
    source
        .lines()
        .skip_while(|line| !declaration(line, name))
        .skip(1)
        .take_while(|line| !line.starts_with('}'))
        .filter_map(|line| line.split_once("//"))
        .filter_map(|(code, comment)| {
            let member = code.trim().trim_end_matches(';').split_whitespace().last()?;
            let member = member.split_once('[').map_or(member, |(array, _)| array);
            Some((member.to_owned(), without_links(comment.trim())))
        })
        .collect()
}
