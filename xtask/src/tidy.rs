//! `cargo xtask tidy`: the rules that neither the compiler nor clippy checks.
//!
//! Each check is a function from plain facts (a dependency graph, a list of tracked files) to findings, one line each, so
//! that it is tested on made-up facts; only this file gathers the facts of the real tree.

mod files;
mod graph;
mod kernels;
mod licences;

use std::process::Command;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand};

use crate::step;

/// Runs every check and reports every finding.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new()
        .current_dir(step::root())
        .features(CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()])
        .exec()
        .context("cargo metadata")?;
    let tracked = tracked_files()?;
    let mut findings = graph::check(&workspace_crates(&metadata));
    findings.extend(licences::check(&dependency_licences(&metadata), &licences::allowed(&step::root())?));
    findings.extend(files::check(&step::root(), &tracked)?);
    findings.extend(kernels::check(&tracked));
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    eprintln!("== tidy: {} tracked files, {} packages, nothing found", tracked.len(), metadata.packages.len());
    Ok(())
}

/// Paths of the files that git tracks, relative to the top, sorted.
fn tracked_files() -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("git");
    let output = command.args(["ls-files", "-z"]).current_dir(step::root()).output().context("git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).context("a tracked file's name is not UTF-8")?;
    let mut paths: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    paths.retain(|path| step::root().join(path).exists());
    paths.sort_unstable();
    Ok(paths)
}

fn workspace_crates(metadata: &Metadata) -> Vec<graph::Crate> {
    let packages = metadata.workspace_packages();
    let facts = packages.iter().map(|package| graph::Crate {
        name: package.name.to_string(),
        dependencies: package.dependencies.iter().map(|dependency| dependency.name.clone()).collect(),
        has_library: package.targets.iter().any(|target| target.is_lib()),
        has_example: package.targets.iter().any(|target| target.is_example()),
    });
    facts.collect()
}

fn dependency_licences(metadata: &Metadata) -> Vec<licences::Package> {
    let facts = metadata.packages.iter().map(|package| licences::Package {
        name: format!("{} {}", package.name, package.version),
        licence: package.license.clone(),
    });
    facts.collect()
}
