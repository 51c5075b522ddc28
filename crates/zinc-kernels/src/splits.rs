//! Workgroups that share the groups of a block, in products by matrix units that have few blocks.

use crate::ops::GROUP;
use crate::step::StepShape;
use crate::tiles::{Blocks, Form};
use crate::{Target, Tuning};

/// Counters of one launch: one with more blocks than that, counted for each of its tiles, has a workgroup for each.
const COUNTERS: u32 = crate::generated::group_values::GROUP_COUNTERS;

/// Bytes at the beginning of [`GroupValues`] that must be 0 before the first launch, and are 0 again behind each.
pub const GROUP_COUNTERS_BYTES: u32 = 4 * COUNTERS;

const _: () =
    assert!(Tuning::CARD.split_workgroups <= COUNTERS, "a launch of fewer workgroups has a counter for each block");

/// Memory in which workgroups that share the groups of a product leave the values of these. Launches that may run at the same time have one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupValues {
    /// [`GROUP_COUNTERS_BYTES`], and behind them f32, which are of no use behind a launch; 16-byte aligned.
    pub address: u64,
    /// Bytes of both, below 4 GiB. A launch that would need more has one workgroup for each block.
    pub bytes: u64,
}

impl Blocks {
    /// These blocks with so many workgroups for each as bring a launch without experts to [`Tuning::split_workgroups`]: a power of two, and at most one
    /// for each group of the columns. There is one for each block unless matrix units multiply, the launch would have fewer than
    /// [`Tuning::few_workgroups`] and [`Tuning::few_workgroups_a_group`] allow, it is for no more than [`Tuning::split_rows`] rows, and `memory` is there
    /// and large enough. `heights` are those of the launch's matrices.
    pub(crate) fn with_splits(
        self,
        target: &Target,
        (heights, columns): (&[u32], u32),
        shape: StepShape,
        memory: Option<GroupValues>,
    ) -> Self {
        let (Form::Units(of), Some(memory)) = (self.form, memory) else { return self };
        let Tuning { few_workgroups, few_workgroups_a_group, split_workgroups, split_rows, .. } = target.tuning;
        let blocks: u32 = heights.iter().map(|height| height.div_ceil(self.rows)).sum();
        let tiles = shape.rows().div_ceil(self.tile);
        let (workgroups, groups) = (u64::from(blocks) * u64::from(tiles), columns.div_ceil(GROUP));
        let value_bytes = workgroups * u64::from(groups) * u64::from(of.rows() * self.tile) * 4;
        let has_room =
            workgroups <= u64::from(COUNTERS) && u64::from(GROUP_COUNTERS_BYTES) + value_bytes <= memory.bytes;
        let few = u64::from(few_workgroups).min(u64::from(few_workgroups_a_group) * u64::from(groups));
        if shape.rows() > split_rows || workgroups >= few || !has_room {
            return self;
        }
        let mut splits = 1;
        while 2 * splits <= groups && workgroups * u64::from(splits) < u64::from(split_workgroups) {
            splits *= 2;
        }
        Self { splits, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Units};

    const MEMORY: GroupValues = GroupValues { address: 0, bytes: 64 << 20 };

    /// The splits, and the workgroups in x and z, of a product of such a shape on a card.
    fn splits((height, columns): (u32, u32), rows: u32, memory: Option<GroupValues>) -> (u32, [u32; 2]) {
        let units = Some(Units { depth: 32, emulated: false });
        let target = Target { units, shared_bytes: 48 << 10, ..Target::new(32) };
        let shape = StepShape::of(rows);
        let blocks = Blocks::new(&target, &[Format::Q4K], 1, &[height], shape, None);
        let blocks = blocks.with_splits(&target, (&[height], columns), shape, memory);
        let [x, _, z] = blocks.groups(&target, &[height], None, 0, shape).most();
        (blocks.splits, [x, z])
    }

    #[test]
    fn launches_of_few_blocks_are_shared_out() {
        // 32 blocks of 64 rows and 16 vectors, and 64 blocks of 32 rows and 32 vectors for each tile: up to 16 workgroups for as many groups.
        assert_eq!(splits((2_048, 4_096), 16, Some(MEMORY)), (16, [512, 1]));
        assert_eq!(splits((2_048, 4_096), 32, Some(MEMORY)), (8, [512, 1]));
        assert_eq!(splits((512, 4_096), 64, Some(MEMORY)), (16, [256, 2]));
        assert_eq!(splits((5_120, 17_408), 16, Some(MEMORY)), (8, [640, 1]));
        // No more than there are groups.
        assert_eq!(splits((512, 768), 32, Some(MEMORY)), (2, [32, 1]));
        assert_eq!(splits((512, 256), 32, Some(MEMORY)), (1, [16, 1]));
    }

    #[test]
    fn few_vectors_have_blocks_of_their_own() {
        let units = Some(Units { depth: 32, emulated: false });
        let target = Target { units, shared_bytes: 48 << 10, ..Target::new(32) };
        let tiles = |rows: u32| Blocks::new(&target, &[Format::Q4K], 1, &[17_408], StepShape::of(rows), None).tile;
        assert_eq!([16, 32, 64].map(tiles), [16, 64, 64]);
    }

    #[test]
    fn other_launches_have_a_workgroup_for_each_block() {
        let of_each = |shape, rows, memory| splits(shape, rows, memory).0;
        assert_eq!(of_each((151_936, 2_048), 64, Some(MEMORY)), 1, "many blocks");
        assert_eq!(of_each((5_120, 2_048), 32, Some(MEMORY)), 1, "80 blocks of 8 groups");
        assert_eq!(of_each((2_048, 4_096), 64, Some(MEMORY)), 1, "64 blocks and two tiles");
        assert_eq!(of_each((2_048, 4_096), 128, Some(MEMORY)), 1, "many rows");
        assert_eq!(of_each((2_048, 4_096), 8, Some(MEMORY)), 1, "dot products");
        assert_eq!(of_each((2_048, 4_096), 32, None), 1, "no memory");
        // 64 blocks of 32 rows, 32 vectors, 16 groups, and 4 bytes each, behind the counters.
        let bytes = 4_096 + 64 * 32 * 32 * 16 * 4;
        assert_eq!(of_each((2_048, 4_096), 32, Some(GroupValues { bytes, ..MEMORY })), 8);
        assert_eq!(of_each((2_048, 4_096), 32, Some(GroupValues { bytes: bytes - 1, ..MEMORY })), 1, "little memory");
    }
}
