//! Compute pipelines: one shader each, with push constants, specialisation constants and the device's subgroup width.
//!
//! There are no descriptor sets: a shader reaches memory through addresses in its push constants.

use std::fmt;
use std::sync::Arc;

use ash::vk;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::facts::Features;
use crate::shared::Shared;

/// First word of every SPIR-V module.
const SPIRV_MAGIC: u32 = 0x0723_0203;

/// The shader of a pipeline, and how it is specialised.
#[derive(Clone, Copy, Debug)]
pub struct PipelineSpec<'a> {
    /// The name that messages show.
    pub name: &'a str,
    /// The SPIR-V module, whose entry point is `main`.
    pub spirv: &'a [u32],
    /// Bytes of push constants that the shader declares; a multiple of 4.
    pub push_bytes: u32,
    /// Specialisation constants, each an id and a value of 32 bits. Constants that are not named keep the shader's defaults.
    pub constants: &'a [(u32, u32)],
    /// Invocations of one workgroup, all along x, once the constants are applied. It must be what the shader says.
    pub workgroup_size: u32,
}

/// A compute pipeline: a compiled shader, ready to be dispatched.
pub struct Pipeline {
    shared: Arc<Shared>,
    raw: vk::Pipeline,
    layout: vk::PipelineLayout,
    push_bytes: u32,
    name: String,
}

impl Pipeline {
    /// Builds a pipeline whose subgroups are [`Device::subgroup_width`] lanes wide and, where workgroups are whole multiples
    /// of that and the device can promise it, full.
    ///
    /// # Errors
    /// [`Error::NotSpirv`], [`Error::PushConstants`], [`Error::WorkgroupTooLarge`], or what the driver says.
    ///
    /// # Panics
    /// If `push_bytes` is no multiple of 4, `workgroup_size` is 0, or a constant id occurs twice.
    pub fn new(device: &Device, spec: &PipelineSpec<'_>) -> Result<Arc<Self>> {
        Self::create(&device.shared, spec, vk::PipelineCreateFlags::empty()).map(Arc::new)
    }

    /// Builds a pipeline as [`Pipeline::new`] does, with flags that the device's features allow.
    pub(crate) fn create(
        shared: &Arc<Shared>,
        spec: &PipelineSpec<'_>,
        flags: vk::PipelineCreateFlags,
    ) -> Result<Self> {
        check(shared, spec)?;

        let ranges =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(spec.push_bytes)];
        let mut layout_info = vk::PipelineLayoutCreateInfo::default();
        if spec.push_bytes > 0 {
            layout_info = layout_info.push_constant_ranges(&ranges);
        }
        // SAFETY: the range is within maxPushConstantsSize and a multiple of 4 (VUID-VkPushConstantRange-size-00296..00298).
        let layout = unsafe { shared.raw.create_pipeline_layout(&layout_info, None) }
            .map_err(shared.error("vkCreatePipelineLayout"))?;
        // From here on `Drop` destroys the layout; destroying the null pipeline is allowed.
        let mut this = Self {
            shared: Arc::clone(shared),
            raw: vk::Pipeline::null(),
            layout,
            push_bytes: spec.push_bytes,
            name: spec.name.to_owned(),
        };
        let module_info = vk::ShaderModuleCreateInfo::default().code(spec.spirv);
        // SAFETY: the code starts as SPIR-V does and is whole words. That the rest is a valid module for the enabled features
        // is the promise of whoever passes a shader (VUID-VkShaderModuleCreateInfo-pCode-08737).
        let module = unsafe { shared.raw.create_shader_module(&module_info, None) }
            .map_err(shared.error("vkCreateShaderModule"))?;
        let result = this.build(spec, module, flags);
        // SAFETY: pipelines do not use their module once they are created.
        unsafe { shared.raw.destroy_shader_module(module, None) };
        this.raw = result.map_err(shared.error("vkCreateComputePipelines"))?;
        shared.name(this.raw, spec.name);
        Ok(this)
    }

    fn build(
        &self,
        spec: &PipelineSpec<'_>,
        module: vk::ShaderModule,
        flags: vk::PipelineCreateFlags,
    ) -> ash::prelude::VkResult<vk::Pipeline> {
        let width = self.shared.plan.subgroup_width;
        let entries: Vec<_> = (0u32..)
            .zip(spec.constants)
            .map(|(i, &(id, _))| vk::SpecializationMapEntry { constant_id: id, offset: i * 4, size: 4 })
            .collect();
        let values: Vec<u8> = spec.constants.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        let mut required =
            vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default().required_subgroup_size(width);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&constants);
        if self.shared.selects_subgroup_width() {
            stage = stage.push_next(&mut required);
        }
        if self.shared.has(Features::FULL_SUBGROUPS) && spec.workgroup_size.is_multiple_of(width) {
            stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
        }
        let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(self.layout);
        // SAFETY: module and layout belong to this device; the width lies within the device's range
        // (VUID-VkPipelineShaderStageRequiredSubgroupSizeCreateInfo-requiredSubgroupSize-02760..02762) and `check` has held the
        // workgroup against it (VUID-VkPipelineShaderStageCreateInfo-pNext-02756, -02758); the cache synchronises itself.
        let result = unsafe {
            self.shared.raw.create_compute_pipelines(self.shared.cache.raw(), std::slice::from_ref(&info), None)
        };
        match result {
            Ok(pipelines) => Ok(pipelines[0]),
            Err((_, error)) => Err(error),
        }
    }

    /// Bytes of push constants that every dispatch passes.
    pub fn push_bytes(&self) -> u32 {
        self.push_bytes
    }

    /// The name that messages show.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn raw(&self) -> vk::Pipeline {
        self.raw
    }

    pub(crate) fn layout(&self) -> vk::PipelineLayout {
        self.layout
    }

    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }
}

/// Whether the device can run the pipeline, before the driver is asked.
fn check(shared: &Shared, spec: &PipelineSpec<'_>) -> Result<()> {
    let name = spec.name;
    assert!(
        spec.push_bytes.is_multiple_of(4),
        "pipeline `{name}`: {} push bytes, not a multiple of 4",
        spec.push_bytes
    );
    assert!(spec.workgroup_size > 0, "pipeline `{name}`: workgroups of 0 invocations");
    for (i, (id, _)) in spec.constants.iter().enumerate() {
        assert!(
            spec.constants[..i].iter().all(|(earlier, _)| earlier != id),
            "pipeline `{name}`: specialisation constant {id} is given twice"
        );
    }
    let first = spec.spirv.first().copied().unwrap_or(0);
    // A module has a header of five words.
    if first != SPIRV_MAGIC || spec.spirv.len() < 5 {
        return Err(Error::NotSpirv { name: name.to_owned(), words: spec.spirv.len(), first });
    }
    let limits = &shared.plan.adapter.limits;
    if spec.push_bytes > limits.push_constant_bytes {
        return Err(Error::PushConstants {
            name: name.to_owned(),
            bytes: spec.push_bytes,
            limit: limits.push_constant_bytes,
        });
    }
    let (width, limit) = (shared.plan.subgroup_width, shared.max_workgroup());
    if spec.workgroup_size > limit {
        return Err(Error::WorkgroupTooLarge { name: name.to_owned(), size: spec.workgroup_size, limit, width });
    }
    Ok(())
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: submissions in flight hold their recording, which holds the pipeline
        // (VUID-vkDestroyPipeline-pipeline-00765).
        unsafe {
            self.shared.raw.destroy_pipeline(self.raw, None);
            self.shared.raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("name", &self.name)
            .field("push_bytes", &self.push_bytes)
            .finish_non_exhaustive()
    }
}
