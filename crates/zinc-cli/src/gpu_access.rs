//! Why a machine that may have a GPU shows none to Vulkan. Containers without the device files are the usual reason.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use zinc_engine::Place;
use zinc_vk::AdapterKind;

use crate::error::{Error, Result};

/// Where Linux has the device files of GPUs.
const NODES: &str = "/dev/dri";

/// Fails if a model would run on the processor because no GPU was found, instead of being slow without a word.
///
/// # Errors
/// [`Error::NoGpu`] with the likely reason and what to do.
pub(crate) fn require(place: &Place) -> Result<()> {
    let facts = place.device().map(|device| device.facts());
    match facts {
        Some(facts) if facts.kind == AdapterKind::Cpu => {
            Err(Error::NoGpu { used: facts.name.clone(), reason: reason(Path::new(NODES)) })
        }
        _ => Ok(()),
    }
}

/// Why there is likely no GPU, by the device files in this folder.
fn reason(folder: &Path) -> String {
    let nodes = match fs::read_dir(folder) {
        Ok(nodes) => nodes.filter_map(|node| Some(node.ok()?.path())),
        Err(_) => {
            return format!(
                "there is no {}; hand it into a container (docker run --device {}, or --gpus all for NVIDIA)",
                folder.display(),
                folder.display()
            );
        }
    };
    let is_render_node =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD"));
    let is_denied = |path: &Path| {
        let opened = File::options().read(true).write(true).open(path);
        opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    match nodes.filter(|path| is_render_node(path)).find(|path| is_denied(path)) {
        Some(path) => {
            format!(
                "this user may not open {}; add it to the group of that file, mostly render or video",
                path.display()
            )
        }
        None => "the Vulkan loader lists none; install the GPU's Vulkan driver, and look at `zinc devices`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_38_and_39_the_reason_is_told_instead_of_using_the_processor() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("dri");
        assert!(reason(&missing).contains("there is no") && reason(&missing).contains("--device"));
        fs::create_dir(&missing).unwrap();
        assert!(reason(&missing).contains("Vulkan driver"));
        fs::write(missing.join("card0"), "").unwrap();
        fs::write(missing.join("renderD128"), "").unwrap();
        assert!(reason(&missing).contains("Vulkan driver"), "{}", reason(&missing));
        let text = Error::NoGpu { used: "llvmpipe".to_owned(), reason: reason(&missing) }.to_string();
        assert!(text.contains("llvmpipe") && text.contains("--cpu"), "{text}");
        require(&Place::Interpreter).unwrap();
    }

    /// The root user may open every file.
    #[cfg(unix)]
    #[test]
    fn report_38_a_file_that_may_not_be_opened_is_named() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("renderD128");
        fs::write(&node, "").unwrap();
        fs::set_permissions(&node, fs::Permissions::from_mode(0o000)).unwrap();
        let is_root = File::open(&node).is_ok();
        assert_eq!(reason(folder.path()).contains("renderD128"), !is_root, "{}", reason(folder.path()));
    }
}
