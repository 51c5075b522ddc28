//! What the driver's compiler made of a shader: statistics such as registers, and intermediate and final code as text.
//!
//! People who tune shaders read this; nothing is run. It comes from `VK_KHR_pipeline_executable_properties`, which leaves to each
//! driver which statistics there are and what they mean.

use std::ffi::{CStr, FromBytesUntilNulError};
use std::fmt;
use std::sync::Arc;

use ash::{khr, vk};

use crate::error::{Error, Result};
use crate::facts::{AdapterFacts, Features};
use crate::instance::Instance;
use crate::pipeline::{Pipeline, PipelineSpec};
use crate::plan::DevicePlan;
use crate::shared::Shared;

/// What the driver tells of one compiled shader.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PipelineStatistics {
    /// Lanes of a subgroup in the compiled shader; 0 where the driver does not tell.
    pub subgroup_width: u32,
    /// Statistics by name, in the driver's order. A truth value is given as 0 or 1.
    pub statistics: Vec<(String, f64)>,
    /// Intermediate and final code, in the driver's order: the name of the form and its text. RADV's last is `Assembly`.
    /// Forms that are not text are left out.
    pub representations: Vec<(String, String)>,
}

/// An adapter opened for nothing but compiling.
///
/// It uses no queue and allocates no memory, so that a driver's null device, which has neither, can be opened too.
pub struct Compiler {
    shared: Arc<Shared>,
    query: khr::pipeline_executable_properties::Device,
}

impl Compiler {
    /// Opens the adapter that `plan` chose from this instance's adapters.
    ///
    /// # Errors
    /// [`Error::NoPipelineStatistics`] if its driver tells nothing of what it compiles, or as [`Device::open`](crate::Device::open).
    pub fn open(instance: &Arc<Instance>, plan: &DevicePlan) -> Result<Self> {
        let mut plan = plan.clone();
        // Nothing is run, so that what the driver's matrices give does not matter.
        plan.features |= plan.adapter.features & (Features::PIPELINE_STATISTICS | Features::COOPERATIVE_MATRIX);
        if !plan.features.contains(Features::PIPELINE_STATISTICS) {
            return Err(Error::NoPipelineStatistics { device: plan.adapter.name });
        }
        let shared = Shared::open(instance, &plan)?;
        let query = khr::pipeline_executable_properties::Device::new(&instance.raw, &shared.raw);
        Ok(Self { shared, query })
    }

    /// Facts of the adapter.
    pub fn facts(&self) -> &AdapterFacts {
        &self.shared.plan.adapter
    }

    /// Lanes of a subgroup in the pipelines that are compiled.
    pub fn subgroup_width(&self) -> u32 {
        self.shared.plan.subgroup_width
    }

    /// Compiles a pipeline as [`Pipeline::new`] does, and asks the driver about it.
    ///
    /// # Errors
    /// The errors of [`Pipeline::new`].
    ///
    /// # Panics
    /// Where [`Pipeline::new`] panics.
    pub fn compile(&self, spec: &PipelineSpec<'_>) -> Result<PipelineStatistics> {
        let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
            | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        let pipeline = Pipeline::create(&self.shared, spec, flags)?;
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline.raw());
        // SAFETY: the feature pipelineExecutableInfo is enabled and the pipeline belongs to this device
        // (VUID-vkGetPipelineExecutablePropertiesKHR-pipelineExecutableInfo-03270, -pipeline-03271).
        let executables = unsafe { self.query.get_pipeline_executable_properties(&info) }
            .map_err(self.shared.error("vkGetPipelineExecutablePropertiesKHR"))?;
        // A compute pipeline is one executable. A driver that lists none tells nothing.
        let Some(executable) = executables.first() else {
            return Ok(PipelineStatistics { subgroup_width: 0, statistics: Vec::new(), representations: Vec::new() });
        };
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline.raw()).executable_index(0);
        Ok(PipelineStatistics {
            subgroup_width: executable.subgroup_size,
            statistics: self.statistics(&info)?,
            representations: self.representations(&info)?,
        })
    }

    fn statistics(&self, info: &vk::PipelineExecutableInfoKHR<'_>) -> Result<Vec<(String, f64)>> {
        // SAFETY: as in `compile`; the pipeline was created with CAPTURE_STATISTICS and has an executable 0
        // (VUID-vkGetPipelineExecutableStatisticsKHR-pipeline-03274, VUID-VkPipelineExecutableInfoKHR-executableIndex-03275).
        let list = unsafe { self.query.get_pipeline_executable_statistics(info) }
            .map_err(self.shared.error("vkGetPipelineExecutableStatisticsKHR"))?;
        let number = |s: &vk::PipelineExecutableStatisticKHR<'_>| {
            // SAFETY: `format` names the member of the union that the driver wrote.
            unsafe {
                match s.format {
                    vk::PipelineExecutableStatisticFormatKHR::BOOL32 => f64::from(s.value.b32),
                    vk::PipelineExecutableStatisticFormatKHR::INT64 => s.value.i64 as f64,
                    vk::PipelineExecutableStatisticFormatKHR::UINT64 => s.value.u64 as f64,
                    _ => s.value.f64,
                }
            }
        };
        Ok(list.iter().map(|s| (name(s.name_as_c_str()), number(s))).collect())
    }

    fn representations(&self, info: &vk::PipelineExecutableInfoKHR<'_>) -> Result<Vec<(String, String)>> {
        const CALL: &str = "vkGetPipelineExecutableInternalRepresentationsKHR";
        // SAFETY: as in `compile`; the pipeline was created with CAPTURE_INTERNAL_REPRESENTATIONS
        // (VUID-vkGetPipelineExecutableInternalRepresentationsKHR-pipeline-03278). Without places for the data the driver writes
        // their sizes.
        let mut list = unsafe { self.query.get_pipeline_executable_internal_representations(info) }
            .map_err(self.shared.error(CALL))?;
        let mut data: Vec<Vec<u8>> = list.iter().map(|r| vec![0; r.data_size]).collect();
        for (representation, data) in list.iter_mut().zip(&mut data) {
            representation.p_data = data.as_mut_ptr().cast();
        }
        // No driver compiles a shader in as many stages as this holds.
        let mut count = u32::try_from(list.len()).unwrap_or(u32::MAX);
        // SAFETY: as above; `list` has `count` elements, each with `data_size` bytes at `p_data` that live until the call returns.
        unsafe {
            (self.query.fp().get_pipeline_executable_internal_representations_khr)(
                self.shared.raw.handle(),
                info,
                &mut count,
                list.as_mut_ptr(),
            )
        }
        .result()
        .map_err(self.shared.error(CALL))?;
        let texts = list.iter().zip(&data).filter(|(r, _)| r.is_text == vk::TRUE);
        Ok(texts
            .map(|(r, data)| {
                let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
                (name(r.name_as_c_str()), String::from_utf8_lossy(&data[..end]).into_owned())
            })
            .collect())
    }
}

fn name(name: Result<&CStr, FromBytesUntilNulError>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("name", &self.facts().name).finish_non_exhaustive()
    }
}
