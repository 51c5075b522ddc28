//! A newer Mesa than the machine's own, in a folder of its own, and programs run inside it.
//!
//! RDNA4 needs Mesa 25. Debian's release of that time is unpacked once under cargo's target directory; a program is copied in
//! and run with `chroot`. Nothing is mounted there, so that removing the folder removes nothing else.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

/// The Debian release whose Mesa is used.
const RELEASE: &str = "trixie";
/// What is needed of it.
const PACKAGES: &str = "mesa-vulkan-drivers,libvulkan1";
/// The manifest of RADV, inside.
const DRIVER: &str = "/usr/share/vulkan/icd.d/radeon_icd.json";
/// Where a program is put to run, inside.
const PROGRAM: &str = "/tmp/program";

/// The folder.
pub(super) struct Mesa {
    root: PathBuf,
}

impl Mesa {
    /// The folder in cargo's target directory, made if it is not there; from `mirror`, or from the one that apt uses.
    ///
    /// # Errors
    /// What is missing for it, and what to do.
    pub(super) fn set_up(target_directory: &Path, mirror: Option<&str>) -> anyhow::Result<Self> {
        // Needed in any case: for `chroot`.
        let user = output("id", Command::new("id").arg("-u"))?;
        ensure!(
            user.trim() == "0",
            "the newer Mesa lies in a folder that only root can enter with chroot: run this as root, for example in a \
             container"
        );
        let root = target_directory.join(format!("mesa-{RELEASE}"));
        if !root.exists() {
            // Made elsewhere and renamed, so that what was interrupted is not taken for whole.
            let partial = target_directory.join(format!("mesa-{RELEASE}.partial"));
            if partial.exists() {
                fs::remove_dir_all(&partial).with_context(|| partial.display().to_string())?;
            }
            let mirror = match mirror {
                Some(mirror) => mirror.to_owned(),
                None => apt_mirror()?,
            };
            eprintln!("== unpacking Mesa of Debian {RELEASE} from {mirror} into {}, once", root.display());
            unpack(&partial, &mirror)?;
            fs::rename(&partial, &root).with_context(|| root.display().to_string())?;
        }
        Ok(Self { root })
    }

    /// Runs a program on RADV's null device of a target such as `gfx1201`, and returns what it prints.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub(super) fn run(&self, program: &Path, target: &str) -> anyhow::Result<String> {
        let inside = self.root.join(PROGRAM.trim_start_matches('/'));
        fs::copy(program, &inside).with_context(|| format!("{} to {}", program.display(), inside.display()))?;
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg(PROGRAM).env_clear().env("PATH", search_path());
        command.env("RADV_FORCE_FAMILY", target).env("VK_DRIVER_FILES", DRIVER);
        // A result of the day before would hide what the compiler does now.
        command.env("MESA_SHADER_CACHE_DISABLE", "true").env("HOME", "/tmp");
        output("chroot", &mut command)
    }
}

/// Makes the folder with debootstrap.
fn unpack(directory: &Path, mirror: &str) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE]).arg(directory).arg(mirror);
    let result = command.env("PATH", search_path()).env("DEBIAN_FRONTEND", "noninteractive").output();
    let result = match result {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("debootstrap is not installed: `apt-get install debootstrap`")
        }
        result => result.context("debootstrap")?,
    };
    ensure!(
        result.status.success(),
        "debootstrap failed ({}); it needs to reach {mirror}, which must have Debian {RELEASE} (--mirror URL names \
         another):\n{}",
        result.status,
        tail(&result)
    );
    // The packages as they were downloaded and the lists of those that there are: a quarter of the whole.
    for leftover in ["var/cache/apt", "var/lib/apt/lists"] {
        let leftover = directory.join(leftover);
        fs::remove_dir_all(&leftover).with_context(|| leftover.display().to_string())?;
    }
    Ok(())
}

/// The last lines of what a program printed.
fn tail(output: &Output) -> String {
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// The mirror of Debian that this machine's apt uses.
fn apt_mirror() -> anyhow::Result<String> {
    const HOW: &str =
        "cannot tell a mirror of Debian: on Debian run `apt-get update` first, elsewhere pass --mirror URL";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]);
    find_mirror(&output("apt-get indextargets", &mut command).context(HOW)?).context(HOW)
}

/// The mirror among the lists of packages that apt has, one a line: origin, address, release, component.
fn find_mirror(lists: &str) -> Option<String> {
    lists.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        // The archive itself, and not its security updates, which lie apart.
        ["Debian", address, release, "main"] if !release.contains('-') => Some(address.to_owned()),
        _ => None,
    })
}

/// The search path, with the places of root's programs, which a `su` without `-` leaves out.
fn search_path() -> String {
    env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/bin:/bin"
}

/// Runs a program and returns what it prints.
fn output(name: &str, command: &mut Command) -> anyhow::Result<String> {
    let result = command.output().with_context(|| format!("cannot start {name}"))?;
    ensure!(result.status.success(), "{name} failed ({}):\n{}", result.status, tail(&result));
    String::from_utf8(result.stdout).with_context(|| format!("what {name} prints"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_archive_of_debian_among_apts_lists() {
        let lists = "Vendor, Inc. http://vendor.invalid/apt bookworm main\n\
                     Debian http://security.invalid/debian-security bookworm-security main\n\
                     Debian http://mirror.invalid/debian bookworm contrib\n\
                     Debian http://mirror.invalid/debian bookworm main\n";
        assert_eq!(find_mirror(lists).as_deref(), Some("http://mirror.invalid/debian"));
    }

    #[test]
    fn another_distribution_has_no_mirror_of_debian() {
        assert_eq!(find_mirror("Ubuntu http://mirror.invalid/ubuntu noble main\n"), None);
        assert_eq!(find_mirror(""), None);
    }
}
