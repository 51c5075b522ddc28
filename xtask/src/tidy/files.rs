//! Checks size, kind and content of the tracked files.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The most lines of a source file. Longer files hold more than one job. Generated files are exempt.
const MAX_SOURCE_LINES: usize = 700;

/// Text that the first line of every generated file contains.
const GENERATED: &str = "Written by `cargo xtask";

/// The most bytes of a file. Larger files do not belong in a repository that people clone over slow lines.
const MAX_FILE_BYTES: u64 = 25 * 1024 * 1024;

/// Where `unsafe` is allowed. The compiler denies it everywhere by a workspace lint, so that code elsewhere can only hold
/// it after lifting that lint by name.
const UNSAFE_PLACES: [&str; 2] = ["crates/zinc-vk/", "crates/zinc-model/src/gguf/"];

/// Name of the lint against unsafe code. It is written in two parts so that this file does not contain what it looks for.
const UNSAFE_LINT: &str = concat!("unsafe", "_code");

/// Endings of the names of files that compilers and linkers write.
const BUILD_OUTPUT: [&str; 7] = [".o", ".a", ".so", ".rlib", ".rmeta", ".d", ".profraw"];

/// Checks every tracked file. Sources and manifests are read; of other files only size and name are checked.
pub(super) fn check(root: &Path, tracked: &[String]) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in tracked {
        let bytes = fs::metadata(root.join(path)).with_context(|| path.clone())?.len();
        findings.extend(check_kind(path, bytes));
        if is_source(path) {
            let text = fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
            findings.extend(check_source(path, &text));
        }
        if path.ends_with("Cargo.toml") {
            let text = fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
            findings.extend(check_manifest(path, &text));
        }
    }
    Ok(findings)
}

fn is_source(path: &str) -> bool {
    [".rs", ".comp", ".glsl"].iter().any(|suffix| path.ends_with(suffix))
}

fn check_kind(path: &str, bytes: u64) -> Vec<String> {
    let mut findings = Vec::new();
    if bytes > MAX_FILE_BYTES {
        findings.push(format!("{path}: {bytes} bytes, more than {MAX_FILE_BYTES}"));
    }
    let built = BUILD_OUTPUT.iter().any(|suffix| path.ends_with(suffix));
    if built || path.split('/').any(|part| part == "target") {
        findings.push(format!("{path}: build output is tracked"));
    }
    findings
}

fn check_source(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let generated = text.lines().next().is_some_and(|line| line.contains(GENERATED));
    if lines > MAX_SOURCE_LINES && !generated {
        findings.push(format!("{path}: {lines} lines, more than {MAX_SOURCE_LINES}: split it by jobs"));
    }
    // A crate may forbid what the workspace denies.
    let forbidden = format!("forbid({UNSAFE_LINT})");
    if text.replace(&forbidden, "").contains(UNSAFE_LINT) && !UNSAFE_PLACES.iter().any(|place| path.starts_with(place))
    {
        findings.push(format!("{path}: lifts the lint against unsafe code outside {}", UNSAFE_PLACES.join(" and ")));
    }
    findings
}

/// A package that does not take the workspace's lints would escape the lint against unsafe code.
fn check_manifest(path: &str, text: &str) -> Vec<String> {
    let inherits = text.lines().skip_while(|line| *line != "[lints]").nth(1) == Some("workspace = true");
    if text.contains("[package]") && !inherits {
        return vec![format!("{path}: does not inherit the workspace's lints")];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sources_are_found_unless_generated() {
        let long = "line\n".repeat(MAX_SOURCE_LINES + 1);
        assert_eq!(check_source("a.rs", &long), ["a.rs: 701 lines, more than 700: split it by jobs"]);
        assert_eq!(check_source("a.rs", &"line\n".repeat(MAX_SOURCE_LINES)), Vec::<String>::new());
        assert_eq!(check_source("a.rs", &format!("//! {GENERATED} shaders`.\n{long}")), Vec::<String>::new());
    }

    #[test]
    fn lifting_the_unsafe_lint_is_found_outside_its_places() {
        let text = format!("#![allow({UNSAFE_LINT})]");
        assert_eq!(check_source("crates/zinc-vk/src/lib.rs", &text), Vec::<String>::new());
        assert_eq!(check_source("crates/zinc-model/src/gguf/map.rs", &text), Vec::<String>::new());
        assert_eq!(check_source("crates/zinc-model/src/plan.rs", &text).len(), 1);
        assert_eq!(check_source("crates/zinc-vk-tools/src/lib.rs", &text).len(), 1);
        let stricter = format!("#![forbid({UNSAFE_LINT})]");
        assert_eq!(check_source("crates/zinc-server/src/lib.rs", &stricter), Vec::<String>::new());
        assert_eq!(check_source("crates/zinc-server/src/lib.rs", &(stricter + &text)).len(), 1);
    }

    #[test]
    fn large_files_and_build_output_are_found() {
        assert_eq!(check_kind("models/demo.gguf", MAX_FILE_BYTES), Vec::<String>::new());
        assert_eq!(check_kind("models/demo.gguf", MAX_FILE_BYTES + 1).len(), 1);
        assert_eq!(check_kind("crates/a/target/debug/a", 1), ["crates/a/target/debug/a: build output is tracked"]);
        assert_eq!(check_kind("liba.rlib", 1).len(), 1);
    }

    #[test]
    fn packages_inherit_the_lints() {
        assert_eq!(check_manifest("Cargo.toml", "[workspace]\n"), Vec::<String>::new());
        assert_eq!(check_manifest("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), Vec::<String>::new());
        assert_eq!(check_manifest("a/Cargo.toml", "[package]\n").len(), 1);
    }
}
