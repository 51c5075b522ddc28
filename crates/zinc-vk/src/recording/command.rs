//! The commands of a recording as data, and the calls that write them into a command buffer.
//!
//! A recording keeps its list, so that the same commands can be written into its command buffer again
//! ([`Queue::record_again`](crate::Queue::record_again)) without whatever was worked out to make the list.

use std::ops::Range;

use ash::vk;

use crate::shared::Shared;

/// One command. Handles belong to objects which the recording keeps alive.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// Makes a compute pipeline the one that the next dispatches run.
    Bind(vk::Pipeline),
    /// Sets the push constants of the bound pipeline to these bytes of [`CommandList::pushed`].
    Push { layout: vk::PipelineLayout, bytes: Range<usize> },
    /// Runs so many workgroups along x, y and z.
    Dispatch([u32; 3]),
    /// Runs as many workgroups as the three words at a byte offset of a buffer say.
    DispatchIndirect { counts: vk::Buffer, offset: u64 },
    /// Begins a condition on the word at a byte offset of a buffer. Nothing on devices without conditions.
    BeginCondition { buffer: vk::Buffer, offset: u64 },
    /// Ends the open condition. Nothing on devices without conditions.
    EndCondition,
    /// Orders memory accesses before it and after it.
    Barrier(vk::MemoryBarrier2<'static>),
    /// Copies one region from a buffer to a buffer.
    Copy { from: vk::Buffer, to: vk::Buffer, region: vk::BufferCopy },
    /// Copies written timestamps as 64-bit ticks to a byte offset of a buffer.
    CopyTimestamps { pool: vk::QueryPool, first: u32, count: u32, to: vk::Buffer, offset: u64 },
    /// Fills a range of bytes of a buffer with a word.
    Fill { to: vk::Buffer, offset: u64, bytes: u64, value: u32 },
    /// Writes a timestamp when the device gets to a stage.
    Timestamp { stage: vk::PipelineStageFlags2, pool: vk::QueryPool, index: u32 },
    /// Makes timestamps ready to be written again.
    ResetTimestamps { pool: vk::QueryPool, first: u32, count: u32 },
}

/// Commands in the order in which the device runs them.
#[derive(Debug, Default)]
pub(super) struct CommandList {
    commands: Vec<Command>,
    /// Push constants of all dispatches, one behind the other.
    pushed: Vec<u8>,
    /// The pipeline that the commands so far leave bound.
    bound: vk::Pipeline,
}

impl CommandList {
    pub(super) fn add(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Adds what binds a pipeline, unless it is bound already, and sets its push constants, unless it has none.
    pub(super) fn bind(&mut self, pipeline: vk::Pipeline, layout: vk::PipelineLayout, push: &[u8]) {
        if self.bound != pipeline {
            self.bound = pipeline;
            self.add(Command::Bind(pipeline));
        }
        if !push.is_empty() {
            let start = self.pushed.len();
            self.pushed.extend_from_slice(push);
            self.add(Command::Push { layout, bytes: start..self.pushed.len() });
        }
    }

    /// Writes the commands into `buffer`.
    ///
    /// # Safety
    /// The command buffer must be recording, on a pool that nobody else uses meanwhile, for a queue family that supports the commands;
    /// their handles must be alive and of this device. `RecordingBuilder` has checked the ranges, limits and alignments which the valid
    /// usage of each command asks for before it added the command.
    pub(super) unsafe fn write_into(&self, buffer: vk::CommandBuffer, shared: &Shared) {
        for command in &self.commands {
            // SAFETY: by the contract of this function.
            unsafe { self.write(command, buffer, shared) };
        }
    }

    /// # Safety
    /// The conditions of [`CommandList::write_into`].
    unsafe fn write(&self, command: &Command, buffer: vk::CommandBuffer, shared: &Shared) {
        match command {
            // SAFETY: the pipeline is a compute pipeline of this device (VUID-vkCmdBindPipeline-pipelineBindPoint-00779).
            Command::Bind(pipeline) => unsafe {
                shared.raw.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, *pipeline);
            },
            Command::Push { layout, bytes } => {
                let push = &self.pushed[bytes.clone()];
                // SAFETY: the bytes are as many as the layout's range (VUID-vkCmdPushConstants-offset-01795, -01796).
                unsafe {
                    shared.raw.cmd_push_constants(buffer, *layout, vk::ShaderStageFlags::COMPUTE, 0, push);
                }
            }
            // SAFETY: a pipeline is bound, its whole push block is set and the counts are within the limits
            // (VUID-vkCmdDispatch-None-08606, -maintenance4-08602, -groupCountX-00386 and its like).
            Command::Dispatch([x, y, z]) => unsafe { shared.raw.cmd_dispatch(buffer, *x, *y, *z) },
            // SAFETY: a pipeline is bound with its push block; the words lie inside a buffer with INDIRECT_BUFFER usage, aligned
            // (VUID-vkCmdDispatchIndirect-buffer-02709, -offset-02710, -offset-00407).
            Command::DispatchIndirect { counts, offset } => unsafe {
                shared.raw.cmd_dispatch_indirect(buffer, *counts, *offset);
            },
            Command::BeginCondition { buffer: word, offset } => {
                if let Some(functions) = &shared.conditional {
                    let info = vk::ConditionalRenderingBeginInfoEXT::default().buffer(*word).offset(*offset);
                    // SAFETY: the feature is enabled and no condition is open (VUID-vkCmdBeginConditionalRenderingEXT-None-01980,
                    // -conditionalRendering-01979); the word lies inside the buffer, which has the usage
                    // (VUID-VkConditionalRenderingBeginInfoEXT-buffer-01982, -offset-01983, -01984).
                    unsafe { (functions.fp().cmd_begin_conditional_rendering_ext)(buffer, &raw const info) };
                }
            }
            Command::EndCondition => {
                if let Some(functions) = &shared.conditional {
                    // SAFETY: a condition is open, begun in this command buffer (VUID-vkCmdEndConditionalRenderingEXT-None-01985).
                    unsafe { (functions.fp().cmd_end_conditional_rendering_ext)(buffer) };
                }
            }
            Command::Barrier(barrier) => {
                let info = vk::DependencyInfo::default().memory_barriers(std::slice::from_ref(barrier));
                // SAFETY: stages and masks come in pairs that belong together and that this kind of queue supports
                // (VUID-VkMemoryBarrier2-srcAccessMask-03900 and its like, VUID-vkCmdPipelineBarrier2-srcStageMask-03849).
                unsafe { shared.cmd_pipeline_barrier2(buffer, &info) };
            }
            // SAFETY: both ranges lie inside their buffers and do not overlap (VUID-vkCmdCopyBuffer-srcOffset-00113, -dstOffset-
            // 00114, -size-00115, -00116, -pRegions-00117); both have transfer usage.
            Command::Copy { from, to, region } => unsafe {
                shared.raw.cmd_copy_buffer(buffer, *from, *to, std::slice::from_ref(region));
            },
            Command::CopyTimestamps { pool, first, count, to, offset } => {
                let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
                // SAFETY: the queries lie inside the pool and their 64-bit results inside the buffer, which has transfer usage; the
                // offset and the stride are multiples of 8 (VUID-vkCmdCopyQueryPoolResults-firstQuery-09436, -flags-00823,
                // -dstBuffer-00824, -dstBuffer-00825).
                unsafe {
                    shared.raw.cmd_copy_query_pool_results(buffer, *pool, *first, *count, *to, *offset, 8, flags);
                }
            }
            // SAFETY: range and alignment are checked (VUID-vkCmdFillBuffer-dstOffset-00024, -00025, -size-00026..00028); the
            // buffer has transfer usage.
            Command::Fill { to, offset, bytes, value } => unsafe {
                shared.raw.cmd_fill_buffer(buffer, *to, *offset, *bytes, *value);
            },
            // SAFETY: the query exists (VUID-vkCmdWriteTimestamp2-query-04903), the stage is one bit that the queue supports
            // (-stage-03859, -03860). That the query was reset is the contract of `Timestamps`.
            Command::Timestamp { stage, pool, index } => unsafe {
                shared.cmd_write_timestamp2(buffer, *stage, *pool, *index);
            },
            // SAFETY: the range lies inside the pool (VUID-vkCmdResetQueryPool-firstQuery-09436, -09437), on a compute queue.
            Command::ResetTimestamps { pool, first, count } => unsafe {
                shared.raw.cmd_reset_query_pool(buffer, *pool, *first, *count);
            },
        }
    }
}
