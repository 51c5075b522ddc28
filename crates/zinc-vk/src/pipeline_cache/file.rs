//! The file of a pipeline cache: its name, its layout, and how it is read and replaced.
//!
//! The file is named after the device and the build of the driver, so a new driver starts afresh and two cards do not
//! overwrite each other. It starts with a magic number of 8 bytes, the length of the data and their checksum, both 64 bits
//! with the lowest byte first: drivers trust the bytes that they are given, so a file that is not whole must be noticed here.
//!
//! A file is replaced, never changed: the new one is written beside it and then renamed. Of two processes that end at the
//! same time, the later one's file stays.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::facts::AdapterFacts;

const MAGIC: [u8; 8] = *b"zincvkp1";

/// Bytes before the driver's data: magic number, length, checksum.
const HEADER: usize = 24;

/// Bytes of the largest file that is read. A larger one was not written by this crate.
const LARGEST: u64 = 256 << 20;

/// Suffix of a file that is being written.
const TEMPORARY: &str = "tmp";

/// Age after which a temporary file is taken for the remains of a process that ended while it wrote. A write takes seconds
/// at most.
const ABANDONED: Duration = Duration::from_secs(600);

/// Returns the file's name for one device and one build of its driver. A driver would refuse the cache of another
/// device or build by its own header, so those get another name.
pub(super) fn name(adapter: &AdapterFacts) -> String {
    let mut uuid = String::new();
    for byte in adapter.driver_uuid {
        // Writing to a string cannot fail.
        let _ = write!(uuid, "{byte:02x}");
    }
    format!("{:04x}-{:04x}-{uuid}-{:08x}.pipelines", adapter.vendor_id, adapter.device_id, adapter.driver.version)
}

/// Reads the file and returns the driver's data in it; `None` if there is no such file.
///
/// # Errors
/// A sentence that says why the file cannot be used: the error of the system, or what is wrong with its content.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // Opening a pipe would wait for a writer, and a device file has no end.
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > LARGEST {
        return Err(format!("it has {} bytes, at most {LARGEST} are read", metadata.len()));
    }
    let mut bytes = Vec::new();
    // At most `LARGEST` bytes are read, since the file may have grown after its length was checked.
    File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    match unpack(&bytes) {
        Some(data) => Ok(Some(data.to_vec())),
        None => Err("it is damaged".to_owned()),
    }
}

/// Replaces the file, creating its directory first. If that fails, the file is what it was and no temporary file is left.
///
/// # Errors
/// The error of the operating system.
pub(super) fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(directory)?;
    remove_abandoned(path);
    replace(path, |file| file.write_all(&pack(data)))
}

/// Renames a new file to `path` once `fill` has written its content.
fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    /// Tells apart the files that devices of one process write at the same time.
    static WRITES: AtomicU32 = AtomicU32::new(0);
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.{TEMPORARY}", std::process::id()));
    // A file of that name is the remains of an earlier process of the same number.
    let mut file = File::create(&temporary)?;
    let result = fill(&mut file).and_then(|()| {
        // The file is closed before it is renamed, because some systems demand that.
        drop(file);
        fs::rename(&temporary, path)
    });
    if result.is_err() {
        // Nothing more can be done where even this fails.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Removes temporary files of `path` that nobody is writing any more. Failures are ignored: the files are only in the way.
fn remove_abandoned(path: &Path) {
    let (Some(stem), Some(directory)) = (path.file_stem().and_then(OsStr::to_str), path.parent()) else {
        return;
    };
    let ours = |name: &OsStr| {
        name.to_str()
            .and_then(|name| name.strip_prefix(stem))
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(&format!(".{TEMPORARY}")))
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age > ABANDONED);
        if ours(&entry.file_name()) && old() == Some(true) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn pack(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + data.len());
    file.extend(MAGIC);
    file.extend((data.len() as u64).to_le_bytes());
    file.extend(checksum(data).to_le_bytes());
    file.extend(data);
    file
}

fn unpack(file: &[u8]) -> Option<&[u8]> {
    let (header, data) = file.split_at_checked(HEADER)?;
    let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    (header[..8] == MAGIC && word(8)? == data.len() as u64 && word(16)? == checksum(data)).then_some(data)
}

/// 64-bit FNV-1a: notices damage, promises nothing against forgery.
pub(super) fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::SystemTime;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_packed_file_unpacks() {
        for data in [&b""[..], b"x", &[7; 1000]] {
            assert_eq!(unpack(&pack(data)), Some(data));
        }
    }

    #[test]
    fn damage_is_noticed_at_every_byte_and_length() {
        let whole = pack(b"some pipelines");
        for cut in 0..whole.len() {
            assert_eq!(unpack(&whole[..cut]), None, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(unpack(&damaged), None, "flipped at {at}");
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(unpack(&longer), None);
    }

    #[test]
    fn writing_replaces_the_file_and_leaves_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/a.pipelines");
        assert_eq!(read(&file), Ok(None));
        write(&file, b"one").unwrap();
        write(&file, b"two").unwrap();
        assert_eq!(read(&file), Ok(Some(b"two".to_vec())));
        assert_eq!(names(file.parent().unwrap()), ["a.pipelines"]);
    }

    #[test]
    fn a_disk_that_fills_up_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pipelines");
        write(&file, b"old").unwrap();
        let full = replace(&file, |new| {
            new.write_all(&pack(b"new")[..HEADER])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(read(&file), Ok(Some(b"old".to_vec())));
        assert_eq!(names(directory.path()), ["a.pipelines"]);
    }

    #[test]
    fn old_temporary_files_of_this_cache_are_removed_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * ABANDONED;
        for (name, modified) in [
            ("a.1-0.tmp", old),
            ("a.2.tmp", old),
            ("a.3-0.tmp", SystemTime::now()),
            ("ab.1-0.tmp", old),
            ("a.notes", old),
            ("b.pipelines", old),
        ] {
            File::create(directory.path().join(name)).unwrap().set_modified(modified).unwrap();
        }
        write(&directory.path().join("a.pipelines"), b"data").unwrap();
        assert_eq!(names(directory.path()), ["a.3-0.tmp", "a.notes", "a.pipelines", "ab.1-0.tmp", "b.pipelines"]);
    }

    #[test]
    fn what_stands_in_the_way_is_said_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), b"mine").unwrap();
        fs::create_dir_all(at("folder.pipelines/inner")).unwrap();
        let cases: Vec<(&str, PathBuf)> = vec![
            ("a file where the folder should be", at("file/a.pipelines")),
            ("a file where a folder above should be", at("file/below/a.pipelines")),
            ("a folder where the file should be", at("folder.pipelines")),
            ("a name that is too long", at(&"x".repeat(300)).join("a.pipelines")),
            ("a name that no system has", at("nul\0").join("a.pipelines")),
            #[cfg(target_os = "linux")]
            ("a file system that nobody writes to", PathBuf::from("/proc/zinc/a.pipelines")),
        ];
        for (what, path) in cases {
            let error = write(&path, b"data").expect_err(what);
            assert!(!error.to_string().is_empty(), "{what}");
            // Reading either finds nothing or says why it cannot; it never finds a cache.
            assert!(!matches!(read(&path), Ok(Some(_))), "{what}");
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"mine");
        assert_eq!(names(directory.path()), ["file", "folder.pipelines"]);
        assert_eq!(names(&at("folder.pipelines")), ["inner"]);
    }

    #[test]
    fn only_a_regular_file_of_bearable_size_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let huge = directory.path().join("huge.pipelines");
        File::create(&huge).unwrap().set_len(LARGEST + 1).unwrap();
        let reason = read(&huge).unwrap_err();
        assert!(reason.contains(&(LARGEST + 1).to_string()), "{reason}");
        assert_eq!(read(directory.path()), Err("it is not a regular file".to_owned()));
        #[cfg(unix)]
        {
            // Has no end, and is replaced by a file all the same.
            let endless = directory.path().join("endless.pipelines");
            std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
            assert_eq!(read(&endless), Err("it is not a regular file".to_owned()));
            write(&endless, b"data").unwrap();
            assert_eq!(read(&endless), Ok(Some(b"data".to_vec())));
        }
    }
}
