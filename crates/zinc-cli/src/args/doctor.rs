//! Flags of `zinc doctor`.

use std::path::PathBuf;

use super::{CacheArgs, Device, FormatArgs, device};

/// Flags of `zinc doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// A GGUF file whose speed is to be estimated
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The device, by index or part of its name as `zinc devices` lists them [-dev]
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) device: Option<Device>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
