//! Finding the model: the file that was given, or the demo model.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::{output, surroundings};

const FILE_NAME: &str = "zinc-demo-q4_k_m.gguf";

/// Names another file to use as the demo model.
const VARIABLE: &str = "ZINC_DEMO_MODEL";

/// The path that was given, or that of the demo model, of which the user is told.
///
/// # Errors
/// [`Error::NoDemoModel`] with the places where it was looked for.
pub(crate) fn resolve(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let executable = env::current_exe().ok();
    let candidates = candidates(surroundings::variable(VARIABLE).map(PathBuf::from), executable.as_deref());
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => {
            output::notice(&format!("no -m given; using the demo model, a pocket dictionary ({})", path.display()));
            Ok(path.clone())
        }
        None => Err(Error::NoDemoModel { tried: candidates }),
    }
}

/// Where the demo model may be. A path in the environment is the only candidate, so that a typo in it does not go unnoticed.
fn candidates(named: Option<PathBuf>, executable: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path];
    }
    let mut candidates = Vec::new();
    if let Some(directory) = executable.and_then(Path::parent) {
        candidates.push(directory.join(FILE_NAME));
        if let Some(prefix) = directory.parent() {
            candidates.push(prefix.join("share/zinc").join(FILE_NAME));
        }
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    candidates.extend(source.map(|top| top.join("models").join(FILE_NAME)));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_comes_first_and_alone() {
        assert_eq!(candidates(Some("/a/b.gguf".into()), Some(Path::new("/usr/bin/zinc"))), [Path::new("/a/b.gguf")]);
    }

    #[test]
    fn beside_the_executable_then_in_share_then_in_the_source_tree() {
        let found = candidates(None, Some(Path::new("/usr/bin/zinc")));
        assert_eq!(found[0], Path::new("/usr/bin/zinc-demo-q4_k_m.gguf"));
        assert_eq!(found[1], Path::new("/usr/share/zinc/zinc-demo-q4_k_m.gguf"));
        assert!(found[2].is_file(), "{}", found[2].display());
    }
}
