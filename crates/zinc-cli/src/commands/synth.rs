//! `zinc synth`: writes a model file with random weights.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use zinc_sched::CancelHandle;

use crate::args::SynthArgs;
use crate::error::{Error, Result};
use crate::synth::Synthesis;
use crate::{interrupt, output};

pub(crate) fn run(args: &SynthArgs) -> Result<()> {
    check_target(&args.out, args.force)?;
    let start = Instant::now();
    let mix = args.quant.unwrap_or_else(|| args.preset.usual_mix());
    let synthesis = Synthesis::new(args.preset, mix, args.layers, args.seed);
    let failed = |path: &Path, source| Error::Write { path: path.to_owned(), source };
    let partial = Partial::new(&args.out);
    interrupt::install()?;
    let cancel = CancelHandle::new();
    let bytes = synthesis.tensor_bytes();
    let progress = output::progress_bytes(bytes, "writing");
    let written = interrupt::during(&cancel, || {
        synthesis.write(&partial.path, |done| {
            progress.set_position(done);
            if cancel.is_cancelled() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        })
    });
    progress.finish_and_clear();
    if cancel.is_cancelled() {
        return Err(Error::Interrupted);
    }
    written.map_err(|source| failed(&partial.path, source))?;
    fs::rename(&partial.path, &args.out).map_err(|source| failed(&args.out, source))?;
    output::notice(&format!(
        "{}: {} layers, {} parameters, {} of random weights in {:.1} s",
        args.out.display(),
        synthesis.config().n_layer(),
        output::parameters(synthesis.parameters()),
        output::bytes(bytes),
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Whether the file may be put there. What is there is replaced and not written into, so it must be a file: a device or a directory
/// would be gone.
fn check_target(out: &Path, force: bool) -> Result<()> {
    let refused = |why: &str| Err(Error::usage(format!("{} {why}", out.display())));
    match fs::symlink_metadata(out) {
        Err(_) => Ok(()),
        Ok(found) if !found.is_file() => refused("exists and is no regular file; give another name"),
        Ok(_) if !force => refused("exists; --force overwrites it"),
        Ok(_) => Ok(()),
    }
}

/// A file beside the one that was asked for, until it is whole; removed if it never is.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn new(out: &Path) -> Self {
        let mut name = OsString::from(out);
        name.push(".partial");
        Self { path: name.into() }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Usually it is not there any more, under this name.
        let _ = fs::remove_file(&self.path);
    }
}
