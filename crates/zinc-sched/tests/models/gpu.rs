//! The devices that the tests of this binary share, under the validation layer.

use std::sync::{Arc, Mutex, PoisonError};

use zinc_kernels::Pipelines;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// A device that a user would get, alone with one test, and the pipelines that the tests before it have built for it.
///
/// There are as many as tests run at a time. A test has one to itself, since it may count what the device holds, and two devices compile
/// pipelines at the same time. Dropping one checks that the validation layer had nothing to say.
pub(crate) struct Gpu {
    pub(crate) pipelines: Arc<Pipelines>,
    instance: Arc<Instance>,
}

/// Devices that are open and lent to no test.
static IDLE: Mutex<Vec<(Arc<Instance>, Arc<Pipelines>)>> = Mutex::new(Vec::new());

/// Held while a device is opened or closed: NVIDIA's driver (580.159) deadlocks when threads do that at the same time.
static OPENING: Mutex<()> = Mutex::new(());

impl Gpu {
    /// A device that no other test uses; it is opened if there is none. It stays open until the process ends; [`with_own_device`] looks at how
    /// devices close.
    ///
    /// # Panics
    /// Where there is no Vulkan loader, device or validation layer; the error says what to install. A test is never skipped.
    pub(crate) fn borrow() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (instance, pipelines) = idle.unwrap_or_else(open);
        Self { pipelines, instance }
    }
}

impl Drop for Gpu {
    /// Gives the device to the next test, unless this one failed and may have left work on it. Then it stays open to the end of the process: it must not be closed
    /// while other threads open theirs.
    fn drop(&mut self) {
        let device = (self.instance.clone(), self.pipelines.clone());
        if std::thread::panicking() {
            std::mem::forget(device);
        } else {
            assert_silent(&self.instance);
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(device);
        }
    }
}

/// Runs `test` on a device that nothing else uses, closes the device, and checks that the validation layer had nothing to say, of the closing
/// either: it reports what was not destroyed.
///
/// # Panics
/// As [`Gpu::borrow`]; if `test` leaves something behind that keeps the device open.
pub(crate) fn with_own_device(test: impl FnOnce(&Arc<Pipelines>)) {
    let (instance, pipelines) = open();
    test(&pipelines);
    let device = Arc::downgrade(pipelines.device());
    let closing = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(pipelines);
    drop(closing);
    assert!(device.upgrade().is_none(), "the device is still open");
    assert_silent(&instance);
}

fn open() -> (Arc<Instance>, Arc<Pipelines>) {
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    // Machines without the layer say so; everywhere else its absence is a failure.
    let validation = match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
        Ok("off") => Validation::Off,
        _ => Validation::On,
    };
    let instance =
        Instance::new(&InstanceOptions::default().with_validation(validation)).unwrap_or_else(|e| panic!("{e}"));
    let adapters = instance.adapters().unwrap_or_else(|e| panic!("{e}"));
    let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|e| panic!("{e}"));
    let device = Device::open(&instance, &plan).unwrap_or_else(|e| panic!("{e}"));
    (instance, Arc::new(Pipelines::new(device)))
}

fn assert_silent(instance: &Instance) {
    let messages = instance.validation_messages();
    assert!(messages.is_empty(), "the validation layer says: {messages:#?}");
}
