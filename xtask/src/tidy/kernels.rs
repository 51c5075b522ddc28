//! Checks that each kernel has its four files of one stem: a shader, its op, its reference and its table of tests, which is a module of the
//! test binary `kernels`. A shader `X_units` is the form of `X` for matrix units and shares the other three files with it; it may be the only form.

use std::collections::BTreeSet;

/// Checks that every `shaders/X.comp` has its three companions, and that no companion has lost its shader.
pub(super) fn check(tracked: &[String]) -> Vec<String> {
    let paths: BTreeSet<&str> = tracked.iter().map(String::as_str).collect();
    let mut findings = Vec::new();
    for stem in paths.iter().filter_map(|path| stem(path, "shaders/", ".comp")) {
        let op = stem.strip_suffix("_units").unwrap_or(stem);
        for directory in ["src/ops", "src/reference", "tests/kernels"] {
            let companion = format!("crates/zinc-kernels/{directory}/{op}.rs");
            if !paths.contains(companion.as_str()) {
                findings.push(format!("shaders/{stem}.comp: has no {companion}"));
            }
        }
    }
    let ops = paths.iter().filter_map(|path| stem(path, "crates/zinc-kernels/src/ops/", ".rs"));
    for op in ops.filter(|op| *op != "mod") {
        let forms = [format!("shaders/{op}.comp"), format!("shaders/{op}_units.comp")];
        if !forms.iter().any(|shader| paths.contains(shader.as_str())) {
            findings.push(format!("crates/zinc-kernels/src/ops/{op}.rs: has no shaders/{op}.comp"));
        }
    }
    findings
}

/// The part of a path between a prefix and a suffix, if it has both and nothing between them is a folder.
fn stem<'a>(path: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    path.strip_prefix(prefix)?.strip_suffix(suffix).filter(|stem| !stem.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn four_files_pass_and_includes_are_not_kernels() {
        let tree = paths(&[
            "shaders/include/load.glsl",
            "shaders/advance.comp",
            "shaders/advance_units.comp",
            "crates/zinc-kernels/src/ops/advance.rs",
            "crates/zinc-kernels/src/ops/mod.rs",
            "crates/zinc-kernels/src/reference/advance.rs",
            "crates/zinc-kernels/tests/kernels/advance.rs",
            "shaders/check_units.comp",
            "crates/zinc-kernels/src/ops/check.rs",
            "crates/zinc-kernels/src/reference/check.rs",
            "crates/zinc-kernels/tests/kernels/check.rs",
        ]);
        assert_eq!(check(&tree), Vec::<String>::new());
    }

    #[test]
    fn each_missing_companion_is_named() {
        let findings = check(&paths(&["shaders/advance.comp", "crates/zinc-kernels/src/ops/advance.rs"]));
        assert_eq!(
            findings,
            [
                "shaders/advance.comp: has no crates/zinc-kernels/src/reference/advance.rs",
                "shaders/advance.comp: has no crates/zinc-kernels/tests/kernels/advance.rs",
            ]
        );
    }

    #[test]
    fn an_op_without_a_shader_is_found() {
        let findings = check(&paths(&["crates/zinc-kernels/src/ops/gather.rs"]));
        assert_eq!(findings, ["crates/zinc-kernels/src/ops/gather.rs: has no shaders/gather.comp"]);
    }
}
