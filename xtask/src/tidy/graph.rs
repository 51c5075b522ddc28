//! Checks which crate depends on which, and that every library crate has an example.

/// What the checks know of a crate of the workspace.
pub(super) struct Crate {
    pub(super) name: String,
    /// Names of all packages it depends on: normal, build and development dependencies.
    pub(super) dependencies: Vec<String>,
    pub(super) has_library: bool,
    pub(super) has_example: bool,
}

/// The crates of the workspace and the crates of the workspace that each may depend on. A crate comes after everything
/// it may use, so the table itself shows that there is no cycle.
const ALLOWED: &[(&str, &[&str])] = &[
    ("zinc-vk", &[]),
    ("zinc-kernels", &["zinc-vk"]),
    ("zinc-model", &["zinc-vk", "zinc-kernels"]),
    ("zinc-sched", &["zinc-vk", "zinc-kernels", "zinc-model"]),
    ("zinc-engine", &["zinc-vk", "zinc-kernels", "zinc-model", "zinc-sched"]),
    ("zinc-server", &["zinc-vk", "zinc-kernels", "zinc-model", "zinc-sched", "zinc-engine"]),
    ("zinc-cli", &["zinc-vk", "zinc-kernels", "zinc-model", "zinc-sched", "zinc-engine", "zinc-server"]),
    ("zinc-fuzz", &["zinc-model", "zinc-sched", "zinc-server"]),
    // xtask makes what the crates need, so it cannot need them.
    ("xtask", &[]),
];

/// Only this crate may use the shader compiler, whose build takes longer than everything else together.
const SHADER_COMPILER: (&str, &str) = ("shaderc", "xtask");

/// Checks the dependency rules and that every library crate that others may use has an example.
pub(super) fn check(crates: &[Crate]) -> Vec<String> {
    let mut findings = Vec::new();
    for Crate { name, dependencies, has_library, has_example } in crates {
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| known == name) else {
            findings.push(format!("{name}: not in the table of crates in xtask/src/tidy/graph.rs"));
            continue;
        };
        for dependency in dependencies {
            let ours = crates.iter().any(|other| other.name == *dependency);
            if ours && !allowed.contains(&dependency.as_str()) {
                findings.push(format!("{name}: depends on {dependency}, which ARCHITECTURE.md does not allow"));
            }
            if dependency == SHADER_COMPILER.0 && name != SHADER_COMPILER.1 {
                findings.push(format!("{name}: depends on {dependency}, which only {} may", SHADER_COMPILER.1));
            }
        }
        let is_shared = ALLOWED.iter().any(|(_, allowed)| allowed.contains(&name.as_str()));
        if *has_library && is_shared && !has_example {
            findings.push(format!("{name}: a library crate without an example"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Crate { name: name.to_owned(), dependencies, has_library: true, has_example: true }
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (position, (name, allowed)) in ALLOWED.iter().enumerate() {
            for dependency in *allowed {
                let earlier = ALLOWED[..position].iter().any(|(known, _)| known == dependency);
                assert!(earlier, "{name} may use {dependency}, which does not come before it");
            }
        }
    }

    #[test]
    fn allowed_edges_and_outside_packages_pass() {
        let crates = [
            library("zinc-vk", &["ash"]),
            library("zinc-kernels", &["zinc-vk", "half"]),
            library("xtask", &["shaderc"]),
        ];
        assert_eq!(check(&crates), Vec::<String>::new());
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found() {
        let findings = check(&[library("zinc-vk", &["zinc-kernels"]), library("zinc-kernels", &[])]);
        assert_eq!(findings, ["zinc-vk: depends on zinc-kernels, which ARCHITECTURE.md does not allow"]);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(check(&[library("zinc-utils", &[])]).len(), 1);
    }

    #[test]
    fn the_shader_compiler_outside_xtask_is_found() {
        assert_eq!(
            check(&[library("zinc-kernels", &["shaderc"])]),
            ["zinc-kernels: depends on shaderc, which only xtask may"]
        );
    }

    #[test]
    fn a_library_without_an_example_is_found() {
        let bare = Crate { has_example: false, ..library("zinc-vk", &[]) };
        assert_eq!(check(&[bare]), ["zinc-vk: a library crate without an example"]);
        // The library of the command line is for its own program and its tests.
        let bare = Crate { has_example: false, ..library("zinc-cli", &[]) };
        assert_eq!(check(&[bare]), Vec::<String>::new());
    }
}
