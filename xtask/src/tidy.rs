//! `cargo xtask tidy`: the rules that neither the compiler nor clippy checks.
//!
//! Each check is a function from plain facts (a dependency graph, a list of tracked files) to findings, one line each, so
//! that it is tested on made-up facts; only this file gathers the facts of the real tree.

mod files;
mod graph;
mod kernels;
mod licences;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand};

use crate::{fuzz, step};

/// Runs every check and reports every finding.
pub(crate) fn run() -> anyhow::Result<()> {
    // The fuzz targets are a workspace of their own, with the same rules.
    let workspaces = [metadata("Cargo.toml")?, metadata(fuzz::MANIFEST)?];
    let tracked = tracked_files()?;
    let mut findings = graph::check(&workspaces.iter().flat_map(workspace_crates).collect::<Vec<_>>());
    let packages: BTreeSet<_> = workspaces.iter().flat_map(dependency_licences).collect();
    findings.extend(licences::check(&packages, &licences::allowed(&step::root())?));
    findings.extend(files::check(&step::root(), &tracked)?);
    findings.extend(kernels::check(&tracked));
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    eprintln!("== tidy: {} tracked files, {} packages, nothing found", tracked.len(), packages.len());
    Ok(())
}

/// What cargo knows of the workspace of a manifest.
fn metadata(manifest: &str) -> anyhow::Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.manifest_path(step::root().join(manifest)).features(CargoOpt::AllFeatures);
    command.other_options(["--locked".to_owned()]).exec().with_context(|| format!("cargo metadata of {manifest}"))
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
