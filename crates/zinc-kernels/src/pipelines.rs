//! Kernels on a device: one pipeline for each kernel and set of specialisation constants, built when first asked for.

use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use parking_lot::Mutex;
use zinc_vk::{AdapterKind, Device, Error, Pipeline, PipelineSpec, RecordingBuilder};

use crate::check::UnitChecks;
use crate::generated::half_fragments::TEAM;
use crate::kernel::{Dispatch, Groups, HalfUnits, Target, Units};
use crate::tuning::Tuning;

type Key = (&'static str, Vec<(u32, u32)>);

/// The pipelines of one device.
#[derive(Debug)]
pub struct Pipelines {
    device: Arc<Device>,
    built: Mutex<HashMap<Key, Arc<Pipeline>>>,
    unit_checks: OnceLock<UnitChecks>,
    /// What [`Pipelines::target`] says, if that is given.
    given: Option<Target>,
}

impl Pipelines {
    /// Makes an empty set of pipelines for `device`. Each pipeline is built when it is first asked for.
    #[must_use]
    pub fn new(device: Arc<Device>) -> Self {
        Self { device, built: Mutex::new(HashMap::new()), unit_checks: OnceLock::new(), given: None }
    }

    /// These pipelines for launches that are chosen for `target`: the device, with another tuning or with what stands in for matrix units, which changes no bit of
    /// a result.
    #[must_use]
    pub fn with_target(self, target: Target) -> Self {
        Self { given: Some(target), ..self }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The limits of the device and the tuning for it, from which ops choose the shapes of their launches. Of matrix units it has those that the device was
    /// opened with and that pass a check, for which the first call runs two kernels.
    #[must_use]
    pub fn target(&self) -> Target {
        if let Some(target) = self.given {
            return target;
        }
        let (units, half_units) = self.opened_units();
        let checks = *self.unit_checks.get_or_init(|| UnitChecks::run(self, units, half_units));
        Target {
            units: units.filter(|_| checks.bytes),
            half_units: half_units.filter(|_| checks.halves),
            ..self.target_without_units()
        }
    }

    /// The target as far as it is known without a check.
    pub(crate) fn target_without_units(&self) -> Target {
        let limits = &self.device.facts().limits;
        let [x, y, _] = limits.workgroup_count;
        let tuning = match self.device.facts().kind {
            AdapterKind::Cpu => Tuning::CPU,
            AdapterKind::Integrated => Tuning::INTEGRATED,
            _ => Tuning::CARD,
        };
        Target {
            max_groups: [x, y],
            shared_bytes: limits.shared_memory_bytes,
            max_workgroup: self.device.max_workgroup(),
            tuning,
            ..Target::new(self.device.subgroup_width())
        }
    }

    /// The matrix units that the device was opened with: those for products of signed bytes, and those for products of halves.
    fn opened_units(&self) -> (Option<Units>, Option<HalfUnits>) {
        let plan = self.device.plan();
        let units = plan.byte_matrix_depth().map(|depth| Units { depth, emulated: false });
        let suits = plan.multiplies_halves() && self.device.subgroup_width() == TEAM;
        (units, suits.then_some(HalfUnits { emulated: false }))
    }

    /// Returns the pipeline of a launch, and builds it if this is its first use.
    ///
    /// # Errors
    /// The driver's error if it refuses the kernel, or the loss of the device.
    pub fn get(&self, dispatch: &Dispatch) -> Result<Arc<Pipeline>, Error> {
        let key = key_of(dispatch);
        if let Some(pipeline) = self.built.lock().get(&key) {
            return Ok(pipeline.clone());
        }
        let pipeline = Pipeline::new(&self.device, &pipeline_spec(dispatch, &dispatch.kernel.words()))?;
        self.built.lock().insert(key, pipeline.clone());
        Ok(pipeline)
    }

    /// Builds the pipelines of launches: those of `first` one after the other, then those of `others`, as many at a time as the host has threads. Steps whose
    /// pipelines are built one after the other may be a little faster (docs/perf-log.md). `progress` is called with the number of pipelines that are built, and
    /// the number of all.
    ///
    /// # Errors
    /// The first error of [`Pipelines::get`]; pipelines that are not begun by then are not built.
    pub fn build(
        &self,
        first: &[Dispatch],
        others: &[Dispatch],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Error> {
        fn distinct<'a>(launches: &'a [Dispatch], keys: &mut HashSet<Key>) -> Vec<&'a Dispatch> {
            launches.iter().filter(|launch| keys.insert(key_of(launch))).collect()
        }
        let mut keys = HashSet::new();
        let (first, others) = (distinct(first, &mut keys), distinct(others, &mut keys));
        let all = first.len() + others.len();
        for (index, launch) in first.iter().enumerate() {
            self.get(launch)?;
            progress(index + 1, all);
        }
        let (begun, threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, NonZero::get));
        let (built, results) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads.min(others.len()) {
                let built = built.clone();
                let (begun, others) = (&begun, &others);
                scope.spawn(move || {
                    while let Some(launch) = others.get(begun.fetch_add(1, Ordering::Relaxed)) {
                        // Nobody receives behind an error.
                        if built.send(self.get(launch).map(drop)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(built);
            for (index, result) in results.into_iter().enumerate() {
                result?;
                progress(first.len() + index + 1, all);
            }
            Ok(())
        })
    }

    /// Adds a launch to a recording: its pipeline, its push constants and its number of workgroups. Where the device
    /// reads that number ([`Groups::Indirect`]), the recording must keep the number's buffer already, and whoever writes the number orders the write
    /// before [`Access::INDIRECT_READ`](zinc_vk::Access::INDIRECT_READ).
    ///
    /// # Errors
    /// The errors of [`Pipelines::get`].
    ///
    /// # Panics
    /// If the device allows fewer workgroups, or the recording keeps no buffer that has their number.
    pub fn record(&self, recording: &mut RecordingBuilder, dispatch: &Dispatch) -> Result<(), Error> {
        let pipeline = self.get(dispatch)?;
        match dispatch.groups {
            Groups::Fixed(groups) => recording.dispatch(&pipeline, &dispatch.push, groups),
            Groups::Indirect { address, most } => {
                recording.dispatch_indirect_at(&pipeline, &dispatch.push, address, most)
            }
        };
        Ok(())
    }
}

fn key_of(launch: &Dispatch) -> Key {
    (launch.kernel.name, launch.constants.clone())
}

/// Describes the pipeline of a launch to zinc-vk. `spirv` is the kernel's
/// [`KernelDef::words`](crate::KernelDef::words).
#[must_use]
pub fn pipeline_spec<'a>(dispatch: &'a Dispatch, spirv: &'a [u32]) -> PipelineSpec<'a> {
    PipelineSpec {
        name: dispatch.kernel.name,
        spirv,
        push_bytes: dispatch.kernel.push_bytes,
        constants: &dispatch.constants,
        workgroup_size: dispatch.workgroup_size(),
    }
}
