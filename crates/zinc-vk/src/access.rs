//! What a barrier orders: kinds of access, and the exact stages and masks that stand for them.

use ash::vk;
use bitflags::bitflags;

bitflags! {
    /// A set of kinds of memory access.
    ///
    /// Each kind stands for one pipeline stage and one access mask and no more. Wider masks cost time: on one GPU, `MEMORY_WRITE` to
    /// `MEMORY_READ | MEMORY_WRITE` costs 5.3 µs a dispatch where `SHADER_WRITE` to `SHADER_READ` costs 2.2 µs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// A compute shader reads a buffer.
        const SHADER_READ = 1;
        /// A compute shader writes a buffer.
        const SHADER_WRITE = 1 << 1;
        /// A copy reads a buffer.
        const TRANSFER_READ = 1 << 2;
        /// A copy or a fill writes a buffer.
        const TRANSFER_WRITE = 1 << 3;
        /// The host reads mapped memory.
        const HOST_READ = 1 << 4;
        /// The host writes mapped memory. Only needed before reading what the host wrote *after* the submit, gated by a
        /// [`HostTimeline`](crate::HostTimeline); what it wrote before a submit is visible without it.
        const HOST_WRITE = 1 << 5;
        /// An indirect dispatch reads its group counts.
        const INDIRECT_READ = 1 << 6;
        /// The device reads the word of a condition: see
        /// [`RecordingBuilder::begin_condition`](crate::RecordingBuilder::begin_condition).
        const CONDITION_READ = 1 << 7;
    }
}

impl Access {
    /// The pipeline stages that make these accesses.
    pub(crate) fn stages(self) -> vk::PipelineStageFlags2 {
        self.sum([
            vk::PipelineStageFlags2::COMPUTE_SHADER,
            vk::PipelineStageFlags2::COMPUTE_SHADER,
            vk::PipelineStageFlags2::ALL_TRANSFER,
            vk::PipelineStageFlags2::ALL_TRANSFER,
            vk::PipelineStageFlags2::HOST,
            vk::PipelineStageFlags2::HOST,
            vk::PipelineStageFlags2::DRAW_INDIRECT,
            vk::PipelineStageFlags2::CONDITIONAL_RENDERING_EXT,
        ])
    }

    /// The access masks of these accesses.
    pub(crate) fn mask(self) -> vk::AccessFlags2 {
        self.sum([
            vk::AccessFlags2::SHADER_STORAGE_READ,
            vk::AccessFlags2::SHADER_STORAGE_WRITE,
            vk::AccessFlags2::TRANSFER_READ,
            vk::AccessFlags2::TRANSFER_WRITE,
            vk::AccessFlags2::HOST_READ,
            vk::AccessFlags2::HOST_WRITE,
            vk::AccessFlags2::INDIRECT_COMMAND_READ,
            vk::AccessFlags2::CONDITIONAL_RENDERING_READ_EXT,
        ])
    }

    /// The global barrier from `self` to `to`.
    pub(crate) fn barrier(self, to: Self) -> vk::MemoryBarrier2<'static> {
        vk::MemoryBarrier2::default()
            .src_stage_mask(self.stages())
            .src_access_mask(self.mask())
            .dst_stage_mask(to.stages())
            .dst_access_mask(to.mask())
    }

    /// The union of the elements of `of` whose index is the number of a bit that is set.
    fn sum<T: Default + std::ops::BitOrAssign>(self, of: [T; 8]) -> T {
        let mut sum = T::default();
        for (bit, value) in of.into_iter().enumerate() {
            if self.bits() & (1 << bit) != 0 {
                sum |= value;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_exact() {
        let barrier = Access::SHADER_WRITE.barrier(Access::SHADER_READ);
        assert_eq!(barrier.src_stage_mask, vk::PipelineStageFlags2::COMPUTE_SHADER);
        assert_eq!(barrier.src_access_mask, vk::AccessFlags2::SHADER_STORAGE_WRITE);
        assert_eq!(barrier.dst_stage_mask, vk::PipelineStageFlags2::COMPUTE_SHADER);
        assert_eq!(barrier.dst_access_mask, vk::AccessFlags2::SHADER_STORAGE_READ);
    }

    #[test]
    fn combinations_add_up_and_nothing_more() {
        let both = Access::TRANSFER_WRITE | Access::INDIRECT_READ | Access::HOST_READ;
        assert_eq!(
            both.stages(),
            vk::PipelineStageFlags2::ALL_TRANSFER
                | vk::PipelineStageFlags2::DRAW_INDIRECT
                | vk::PipelineStageFlags2::HOST
        );
        assert_eq!(
            both.mask(),
            vk::AccessFlags2::TRANSFER_WRITE | vk::AccessFlags2::INDIRECT_COMMAND_READ | vk::AccessFlags2::HOST_READ
        );
        assert_eq!(Access::empty().stages(), vk::PipelineStageFlags2::NONE);
    }
}
