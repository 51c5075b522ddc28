//! The loader, the layer and the cache on disk: what surrounds a device.

use std::path::Path;
use std::process::Command;

use zinc_vk::{Access, CacheFault, DevicePlan, Error, Instance, InstanceOptions, Placement, Validation, Wants};

mod support;

use support::{Gpu, validation, write_words};

/// Runs one test of this binary in a process of its own, with the environment changed.
fn in_child(test: &str, variables: &[&str], value: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored"])
        .env("ZINC_TEST_CHILD", "1")
        .envs(variables.iter().map(|&variable| (variable, value)))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn is_child() -> bool {
    std::env::var_os("ZINC_TEST_CHILD").is_some()
}

#[test]
fn without_a_driver_there_is_no_device() {
    if !is_child() {
        let dir = tempfile::tempdir().unwrap();
        let none = dir.path().join("none.json");
        return in_child(
            "without_a_driver_there_is_no_device",
            // The new name of the variable and the old one.
            &["VK_DRIVER_FILES", "VK_ICD_FILENAMES"],
            &none,
        );
    }
    let plan = Instance::new(&InstanceOptions::default())
        .and_then(|instance| instance.adapters())
        .and_then(|adapters| DevicePlan::choose(&adapters, &Wants::default()));
    assert!(matches!(plan, Err(Error::NoDevice)), "{plan:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_loader_the_error_names_the_command_that_installs_it() {
    if !is_child() {
        // A library that cannot be loaded stands in front of the real one.
        let dir = tempfile::tempdir().unwrap();
        for name in ["libvulkan.so.1", "libvulkan.so"] {
            std::fs::write(dir.path().join(name), b"not a library").unwrap();
        }
        let test = "without_a_loader_the_error_names_the_command_that_installs_it";
        return in_child(test, &["LD_LIBRARY_PATH"], dir.path());
    }
    let error = Instance::new(&InstanceOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NoLoader { .. }), "{error:?}");
    assert!(error.to_string().contains("apt-get install libvulkan1 mesa-vulkan-drivers"), "{error}");
}

#[test]
fn the_layer_sees_a_missing_barrier() {
    if validation() == Validation::Off {
        let gpu = Gpu::new();
        assert!(gpu.instance().validation_messages().is_empty());
        return;
    }
    let instance = Instance::new(&InstanceOptions::default().with_validation(Validation::On)).unwrap();
    let plan = DevicePlan::choose(&instance.adapters().unwrap(), &Wants::default()).unwrap();
    let device = zinc_vk::Device::open(&instance, &plan).unwrap();
    let a = zinc_vk::Buffer::new(&device, "a", 64, Placement::Device).unwrap();
    let b = zinc_vk::Buffer::new(&device, "b", 64, Placement::Device).unwrap();
    let record = |barrier: bool| {
        let mut r = zinc_vk::RecordingBuilder::new(&device, zinc_vk::QueueKind::Compute, "hazard").unwrap();
        r.fill(&a, 0, 64, 1);
        if barrier {
            r.barrier(Access::TRANSFER_WRITE, Access::TRANSFER_READ);
        }
        r.copy(&a, 0, &b, 0, 64);
        r.finish().unwrap()
    };
    record(true);
    assert_eq!(instance.validation_messages(), Vec::<String>::new());
    record(false);
    let messages = instance.validation_messages();
    assert!(
        messages
            .iter()
            .any(|m| m.contains("SYNC-HAZARD-READ-AFTER-WRITE") || m.contains("SYNC-HAZARD-READ_AFTER_WRITE")),
        "{messages:?}"
    );
}

#[test]
fn facts_of_this_machine_hang_together() {
    let instance = support::instance();
    let adapters = instance.adapters().unwrap();
    assert!(!adapters.is_empty());
    for (index, a) in adapters.iter().enumerate() {
        assert_eq!(a.index, index);
        assert!(!a.name.is_empty());
        assert!(a.subgroup.min <= a.subgroup.default && a.subgroup.default <= a.subgroup.max, "{:?}", a.subgroup);
        assert!(a.limits.push_constant_bytes >= 128 && a.limits.allocation_bytes >= 1 << 30, "{:?}", a.limits);
        assert!(a.memory_types.iter().all(|t| (t.heap as usize) < a.heaps.len()));
        assert!(a.families.iter().all(|f| f.queues > 0));
    }
}

mod pipeline_cache {
    use super::*;

    fn run(dir: &Path) -> Vec<u32> {
        let gpu = Gpu::with(|plan| plan.with_pipeline_cache_dir(dir));
        let data = gpu.buffer("data", 4, Placement::Readback);
        write_words(&data, &[2; 4]);
        gpu.run(|r| gpu.record_affine(r, &data, 3, 1));
        gpu.save_pipeline_cache().unwrap();
        support::read_words(&data)
    }

    fn files(dir: &Path) -> Vec<std::path::PathBuf> {
        std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect()
    }

    #[test]
    fn is_written_read_and_rebuilt_when_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("below/here");
        assert_eq!(run(&cache), [7; 4]);
        let [file] = &files(&cache)[..] else { panic!("{:?}", files(&cache)) };
        let whole = std::fs::read(file).unwrap();
        assert_eq!(run(&cache), [7; 4]);
        let damages: [Vec<u8>; 4] =
            [Vec::new(), b"text".to_vec(), whole[..whole.len() - 1].to_vec(), [&whole[..], b"more"].concat()];
        for damaged in damages {
            std::fs::write(file, &damaged).unwrap();
            assert_eq!(run(&cache), [7; 4]);
            assert_ne!(std::fs::read(file).unwrap(), damaged, "the damaged file was replaced");
            assert_eq!(files(&cache).len(), 1, "no temporary file is left");
        }
    }

    #[test]
    fn that_holds_nothing_new_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let gpu = Gpu::with(|plan| plan.with_pipeline_cache_dir(dir.path()));
        let _kept = gpu.affine(3);
        gpu.save_pipeline_cache().unwrap();
        let [file] = &files(dir.path())[..] else { panic!("{:?}", files(dir.path())) };
        std::fs::remove_file(file).unwrap();
        gpu.save_pipeline_cache().unwrap();
        assert!(!file.exists());
    }

    /// A device opens, computes and closes whatever stands where its cache should be.
    #[test]
    fn is_never_needed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let with_folder = dir.path().join("folder");
        {
            let gpu = Gpu::with(|plan| plan.with_pipeline_cache_dir(&with_folder));
            gpu.save_pipeline_cache().unwrap();
            assert_eq!(gpu.pipeline_cache_fault(), None);
        }
        let [cache] = &files(&with_folder)[..] else { panic!("{:?}", files(&with_folder)) };
        std::fs::remove_file(cache).unwrap();
        std::fs::create_dir(cache).unwrap();

        let cases = [
            ("a file where the folder should be", file.clone()),
            ("a folder that cannot be created below a file", file.join("below")),
            ("a folder where the file should be", with_folder),
            ("a name that no system has", dir.path().join("nul\0")),
            #[cfg(target_os = "linux")]
            ("a file system that nobody writes to", "/proc/zinc".into()),
        ];
        for (what, at) in cases {
            let gpu = Gpu::with(|plan| plan.with_pipeline_cache_dir(&at));
            let data = gpu.buffer("data", 4, Placement::Readback);
            write_words(&data, &[2; 4]);
            gpu.run(|r| gpu.record_affine(r, &data, 3, 1));
            assert_eq!(support::read_words(&data), [7; 4], "{what}");
            for _ in 0..2 {
                match gpu.save_pipeline_cache() {
                    Err(CacheFault::Unwritten { path, reason }) => {
                        assert!(path.starts_with(&at) && !reason.is_empty(), "{what}: {path:?}, {reason}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
        assert!(cache.is_dir() && file.is_file(), "what stood in the way was left alone");
    }

    #[test]
    fn that_is_damaged_is_said() {
        let dir = tempfile::tempdir().unwrap();
        drop(Gpu::with(|plan| plan.with_pipeline_cache_dir(dir.path())));
        let [file] = &files(dir.path())[..] else { panic!("{:?}", files(dir.path())) };
        std::fs::write(file, b"text").unwrap();
        let gpu = Gpu::with(|plan| plan.with_pipeline_cache_dir(dir.path()));
        let fault = gpu.pipeline_cache_fault().expect("the file was not used").to_string();
        assert!(fault.contains("damaged") && fault.contains(&file.display().to_string()), "{fault}");
    }
}
