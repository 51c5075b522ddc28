//! `cargo xtask isa` shows the machine code of the kernels for an AMD card that is not at hand, and what it needs of the card.
//!
//! RADV's null device compiles for any AMD target and runs nothing. The example `isa` of zinc-kernels compiles every kernel
//! there. Its output becomes a table, which is compared with a budget; `docs/rdna4.md` explains both. There are no times in it: they
//! can only be measured on a card.

mod assembly;
mod budget;
mod mesa;
mod occupancy;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cargo_metadata::MetadataCommand;

use self::budget::Budget;
use self::mesa::Mesa;
use self::table::{Compiled, Row};
use crate::step;

/// The budget, relative to the root.
const BUDGET: &str = "docs/rdna4-budget.toml";
/// The committed table, relative to the root.
const TABLE: &str = "docs/rdna4-table.md";

/// Flags of `cargo xtask isa`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Mesa's name of the target: gfx1201 (RDNA4), navi31 (RDNA3), navi21 (RDNA2).
    #[arg(long, default_value = "gfx1201")]
    target: String,
    /// Compare with docs/rdna4-budget.toml, and fail with a list of the figures that exceed it.
    #[arg(long, group = "what")]
    check: bool,
    /// Write the table to docs/rdna4-table.md.
    #[arg(long, group = "what")]
    write: bool,
    /// Print the figures as JSON, one object a line.
    #[arg(long, group = "what")]
    json: bool,
    /// Print the assembly of the variants whose name contains this, such as "mat_vec (head".
    #[arg(long, group = "what", value_name = "NAME")]
    show: Option<String>,
    /// The mirror of Debian to take Mesa from, instead of apt's.
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
}

/// Compiles the kernels and does what was asked for with the figures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let directory = target_directory()?;
    // Before anything is built, since a machine may lack what Mesa needs.
    let mesa = Mesa::set_up(&directory, args.mirror.as_deref())?;
    let example = ["build", "--quiet", "--locked", "--package", "zinc-kernels", "--example", "isa"];
    step::run("compiler of kernels", &mut step::cargo(example))?;
    let compiled = compile(&mesa, &directory.join("debug/examples/isa"), &args.target)?;
    if let Some(name) = &args.show {
        return show(&compiled, name);
    }
    let rows = rows(&compiled)?;
    if args.check {
        return check(&compiled, &rows, &args.target);
    }
    if args.json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else if args.write {
        ensure!(args.target == budget()?.target, "{TABLE} is for {}, not for {}", budget()?.target, args.target);
        fs::write(step::root().join(TABLE), document(&compiled, &rows)).context(TABLE)?;
    } else {
        print!("{}", table::markdown(&rows));
    }
    Ok(())
}

/// Unpacks the newer Mesa under cargo's target directory if it is not there.
pub(crate) fn set_up(target_directory: &Path) -> anyhow::Result<()> {
    Mesa::set_up(target_directory, None).map(|_| ())
}

/// Compares the kernels with the budget. `program` is the example `isa`, which must have been built.
pub(crate) fn run_check(target_directory: &Path, program: &Path) -> anyhow::Result<()> {
    let target = budget()?.target;
    let mesa = Mesa::set_up(target_directory, None)?;
    let compiled = compile(&mesa, program, &target)?;
    check(&compiled, &rows(&compiled)?, &target)
}

fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata = MetadataCommand::new().current_dir(step::root()).no_deps().exec().context("cargo metadata")?;
    Ok(metadata.target_directory.into())
}

/// Runs the example `isa` and reads what it prints of every variant.
fn compile(mesa: &Mesa, program: &Path, target: &str) -> anyhow::Result<Vec<Compiled>> {
    let printed = mesa.run(program, target)?;
    let lines: Vec<Compiled> =
        printed.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("what the example isa prints")?;
    let [first, ..] = &lines[..] else { bail!("{target}: the driver tells nothing of what it compiles") };
    ensure!(first.device.contains("Null hardware"), "{target}: compiled for {}, not for a null device", first.device);
    Ok(lines)
}

/// The figures of every variant, by kernel.
fn rows(compiled: &[Compiled]) -> anyhow::Result<Vec<Row>> {
    let mut rows = compiled.iter().map(Compiled::row).collect::<anyhow::Result<Vec<_>>>()?;
    rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(rows)
}

/// Prints the assembly of the variants whose name contains `name`.
fn show(compiled: &[Compiled], name: &str) -> anyhow::Result<()> {
    let matching: Vec<_> = compiled.iter().filter(|compiled| compiled.name().contains(name)).collect();
    ensure!(!matching.is_empty(), "no variant's name contains '{name}'");
    for compiled in matching {
        println!("{}\n{}", compiled.name(), compiled.assembly()?);
    }
    Ok(())
}

/// The text of the committed table.
fn document(compiled: &[Compiled], rows: &[Row]) -> String {
    // `compile` has checked that the list is not empty.
    let (device, driver) = compiled.first().map_or(("", ""), |first| (&first.device, &first.driver));
    let table = table::markdown(rows);
    format!(
        "<!-- Written by `cargo xtask isa --write`. -->\n\n{device}, {driver}. [rdna4.md](rdna4.md) explains the \
         columns.\n\n{table}"
    )
}

/// Reads the budget.
fn budget() -> anyhow::Result<Budget> {
    let text = fs::read_to_string(step::root().join(BUDGET)).context(BUDGET)?;
    Budget::parse(&text).context(BUDGET)
}

/// Fails if a figure exceeds the budget, and says so if the committed table is out of date.
fn check(compiled: &[Compiled], rows: &[Row], target: &str) -> anyhow::Result<()> {
    let budget = budget()?;
    ensure!(budget.target == target, "{BUDGET} is for {}, not for {target}", budget.target);
    let violations = budget.violations(rows, &kernels()?);
    for violation in &violations {
        eprintln!("isa: {violation}");
    }
    ensure!(violations.is_empty(), "isa: {} violations of {BUDGET}", violations.len());
    eprintln!("== isa: {} variants for {target} within the budget", rows.len());
    // A table out of date is no failure, because another version of Mesa changes the figures as well.
    if fs::read_to_string(step::root().join(TABLE)).ok() != Some(document(compiled, rows)) {
        eprintln!("isa: {TABLE} is out of date; `cargo xtask isa --write` renews it");
    }
    Ok(())
}

/// The names of all kernels, which are the file names of the shaders without `.comp`.
fn kernels() -> anyhow::Result<BTreeSet<String>> {
    let mut kernels = BTreeSet::new();
    for file in fs::read_dir(step::root().join("shaders")).context("shaders")? {
        let path = file.context("shaders")?.path();
        if path.extension().is_some_and(|extension| extension == "comp") {
            kernels.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    Ok(kernels)
}
