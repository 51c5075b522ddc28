//! Checks the licences of all dependencies against the list in `deny.toml`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use spdx::{Expression, LicenseItem, ParseMode};

/// A package of the dependency graph, optional ones included.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    /// Name and version.
    pub(super) name: String,
    /// The SPDX expression of its manifest.
    pub(super) licence: Option<String>,
}

#[derive(Deserialize)]
struct DenyFile {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

/// The licences that `deny.toml` allows.
pub(super) fn allowed(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let file: DenyFile = toml::from_str(&text).context("deny.toml")?;
    Ok(file.licenses.allow)
}

/// Checks that every package can be used under allowed licences alone.
pub(super) fn check<'p>(packages: impl IntoIterator<Item = &'p Package>, allowed: &[String]) -> Vec<String> {
    packages.into_iter().filter_map(|package| finding(package, allowed)).collect()
}

fn finding(Package { name, licence }: &Package, allowed: &[String]) -> Option<String> {
    let Some(licence) = licence else {
        return Some(format!("{name}: states no licence"));
    };
    // Lax, because older packages write "MIT/Apache-2.0" for "MIT OR Apache-2.0".
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => {
            return Some(format!("{name}: licence '{licence}' is not an SPDX expression: {}", error.reason));
        }
    };
    let acceptable = expression.evaluate(|requirement| {
        // An exception only adds permissions, so "X WITH exception" is acceptable wherever X is.
        let LicenseItem::Spdx { id, .. } = &requirement.license else {
            return false;
        };
        allowed.iter().any(|allowed| allowed == id.name)
    });
    (!acceptable).then(|| format!("{name}: licence '{licence}' is not covered by the list in deny.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(licence: Option<&str>) -> Option<String> {
        let package = Package { name: "thing 1.0.0".to_owned(), licence: licence.map(str::to_owned) };
        finding(&package, &["MIT".to_owned(), "Apache-2.0".to_owned(), "Unicode-3.0".to_owned()])
    }

    #[test]
    fn one_allowed_choice_is_enough() {
        for licence in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "MIT/GPL-2.0-only",
            "(MIT OR BSL-1.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(verdict(Some(licence)), None, "{licence}");
        }
    }

    #[test]
    fn every_required_part_must_be_allowed() {
        for licence in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "BSL-1.0", "no licence at all"] {
            assert!(verdict(Some(licence)).is_some(), "{licence}");
        }
        assert_eq!(verdict(None).as_deref(), Some("thing 1.0.0: states no licence"));
    }
}
