//! Runs programs with a newer Mesa than the machine's own.
//!
//! RDNA4 needs Mesa 25. A release of Debian that has it is unpacked once into a folder under cargo's target directory. A program is
//! copied into that folder and run with `chroot`. Nothing is mounted there, so that removing the folder removes nothing else.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

/// The release of Debian whose Mesa is used.
const RELEASE: &str = "trixie";
/// The packages that are unpacked, beside the smallest system.
const PACKAGES: &str = "mesa-vulkan-drivers,libvulkan1";
/// Path of RADV's manifest, inside the folder.
const DRIVER: &str = "/usr/share/vulkan/icd.d/radeon_icd.json";
/// Path that a program is copied to before it is run, inside the folder.
const PROGRAM: &str = "/tmp/program";

/// A folder with an unpacked Debian.
pub(super) struct Mesa {
    root: PathBuf,
}

impl Mesa {
    /// Finds the folder in cargo's target directory, or makes it with packages from `mirror` or, without one, from the mirror that apt
    /// uses.
    ///
    /// # Errors
    /// If the machine lacks something that is needed; the error says what, and what to do.
    pub(super) fn set_up(target_directory: &Path, mirror: Option<&str>) -> anyhow::Result<Self> {
        // `chroot` needs root, even if the folder is there already.
        let user = output("id", Command::new("id").arg("-u"))?;
        ensure!(
            user.trim() == "0",
            "the newer Mesa lies in a folder that only root can enter with chroot: run this as root, for example in a \
             container"
        );
        let root = target_directory.join(format!("mesa-{RELEASE}"));
        if !root.exists() {
            // It is made under another name and then renamed, so that a folder whose making was interrupted is not taken for whole.
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
    /// If the program fails; the error has the end of what it printed.
    pub(super) fn run(&self, program: &Path, target: &str) -> anyhow::Result<String> {
        let inside = self.root.join(PROGRAM.trim_start_matches('/'));
        fs::copy(program, &inside).with_context(|| format!("{} to {}", program.display(), inside.display()))?;
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg(PROGRAM).env_clear().env("PATH", search_path());
        command.env("RADV_FORCE_FAMILY", target).env("VK_DRIVER_FILES", DRIVER);
        // A result from Mesa's cache would hide what the compiler does now.
        command.env("MESA_SHADER_CACHE_DISABLE", "true").env("HOME", "/tmp");
        output("chroot", &mut command)
    }
}

/// Unpacks Debian into `directory` with debootstrap.
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
    // The downloaded packages and the lists of packages are a quarter of the folder, and are not needed any more.
    for leftover in ["var/cache/apt", "var/lib/apt/lists"] {
        let leftover = directory.join(leftover);
        fs::remove_dir_all(&leftover).with_context(|| leftover.display().to_string())?;
    }
    Ok(())
}

/// The last eight lines of what a program printed.
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

/// The mirror of Debian among apt's lists of packages. Each line of `lists` has the origin, the address, the release and the component of
/// one list.
fn find_mirror(lists: &str) -> Option<String> {
    lists.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        // The release's name alone means the archive; a name with a suffix means updates, which lie elsewhere.
        ["Debian", address, release, "main"] if !release.contains('-') => Some(address.to_owned()),
        _ => None,
    })
}

/// The search path with the folders of root's programs, which `su` without `-` leaves out.
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
