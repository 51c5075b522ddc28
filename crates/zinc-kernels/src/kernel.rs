//! What a kernel is and what one launch of it needs, as plain data: no device is touched here.

use crate::formats::Format;
use crate::generated::formats as codes;
use crate::ops::{GROUP, RUN};
use crate::tuning::Tuning;

/// A kernel's SPIR-V and the size of its push constants.
#[derive(Debug)]
#[non_exhaustive]
pub struct KernelDef {
    /// The stem of its GLSL file.
    pub name: &'static str,
    /// SPIR-V, little endian.
    pub spirv: &'static [u8],
    /// Size of its push-constant block, in bytes.
    pub push_bytes: u32,
}

impl KernelDef {
    /// The SPIR-V as words.
    #[must_use]
    pub fn words(&self) -> Vec<u32> {
        self.spirv.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// What an operation must know of the device to shape its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Lanes of a subgroup: 8 to 64, a power of two.
    pub subgroup: u32,
    /// The largest number of workgroups in x and y.
    pub max_groups: [u32; 2],
    /// Bytes of shared memory of one workgroup.
    pub shared_bytes: u32,
    /// The largest number of threads in a workgroup, at least 256.
    pub max_workgroup: u32,
    /// Its matrix units for products of signed bytes, if it has such.
    pub units: Option<Units>,
    /// Its matrix units for products of halves, if it has such.
    pub half_units: Option<HalfUnits>,
    /// What was measured to suit it.
    pub tuning: Tuning,
}

/// Matrix units that add products of 16 rows of signed bytes with 16 vectors of signed bytes to 32-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Bytes of a row that one product takes: 16 or 32.
    pub depth: u32,
    /// Whether dot products stand in for the units. They give the same numbers, so that kernels can be tested on devices without such units.
    pub emulated: bool,
}

/// Matrix units that add products of 16 x 16 and 16 x 16 halves to floats, and hold them in the lanes of a subgroup of 32 as
/// `shaders/include/half_fragments.glsl` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfUnits {
    /// Whether f32 arithmetic stands in for the units. It gives numbers of its own, the same ones in every kernel, so that kernels can be tested on
    /// devices without such units.
    pub emulated: bool,
}

/// Threads in a workgroup of the kernels that work as one.
const WIDE_WORKGROUP: u32 = 256;
/// The most threads in a workgroup.
const MAX_WORKGROUP: u32 = 512;

/// Bytes of shared memory that a matrix product keeps of a group of its vectors: high and low bytes, the sums of 16 runs, a scale, and a sum of
/// squares.
const STAGED_GROUP_BYTES: u32 = 256 + 256 + 16 * 4 + 4 + 4;
/// Bytes more for each vector: a place between the runs of its high bytes, and of its low ones.
const STAGED_VECTOR_BYTES: u32 = 2 * 16;
/// Bytes of shared memory reserved for what else a matrix product shares: 1,092 are used in the first half of a dense layer, for the selection of
/// experts (1,040) and one element more of each array of the vector.
const OTHER_SHARED_BYTES: u32 = 5 << 10;

impl Target {
    /// A device with the given subgroup width and the smallest grid that Vulkan allows a device to have.
    ///
    /// # Panics
    /// If the width is not a power of two from 8 to 64.
    #[must_use]
    pub fn new(subgroup: u32) -> Self {
        assert!(
            subgroup.is_power_of_two() && (8..=64).contains(&subgroup),
            "a subgroup of {subgroup} lanes is not supported: 8, 16, 32 or 64 are"
        );
        Self {
            subgroup,
            max_groups: [65_535, 65_535],
            shared_bytes: 32 << 10,
            max_workgroup: MAX_WORKGROUP,
            units: None,
            half_units: None,
            tuning: Tuning::CARD,
        }
    }

    /// The most activations that a workgroup of a matrix product can round for itself, in whole groups: it keeps them in shared memory, with what
    /// becomes of each group in its rows.
    #[must_use]
    pub fn widest_staged(&self) -> u32 {
        let rows = (self.subgroups_of(self.tuning.product_width) * self.tuning.most_rows)
            .max(2 * RUN + 2)
            .max(self.subgroups_of(self.tuning.expert_down_width));
        self.shared_bytes.saturating_sub(OTHER_SHARED_BYTES) / (STAGED_GROUP_BYTES + 4 * rows) * GROUP
    }

    /// The most activations between the two halves of a feed-forward layer, in whole groups and in all slots: a workgroup of the second half keeps
    /// what becomes of each group in its rows.
    #[must_use]
    pub fn widest_hidden(&self) -> u32 {
        let rows = self.subgroups_of(self.tuning.product_width);
        self.shared_bytes.saturating_sub(OTHER_SHARED_BYTES) / (4 * rows) * GROUP
    }

    /// Whether a workgroup of a matrix product can keep so many vectors of `groups` groups, beside so many f32 values of groups in rows.
    #[must_use]
    pub(crate) fn keeps(&self, groups: u32, vectors: u32, values: u32) -> bool {
        let vectors = vectors.saturating_mul(groups * STAGED_GROUP_BYTES + STAGED_VECTOR_BYTES);
        let bytes = vectors.saturating_add(values.saturating_mul(4));
        bytes <= self.shared_bytes.saturating_sub(OTHER_SHARED_BYTES)
    }

    /// Subgroups in a workgroup of at most `width` subgroups, as many as the device allows: a power of two if `width` is one.
    #[must_use]
    pub(crate) fn subgroups_of(&self, width: u32) -> u32 {
        let most = self.max_workgroup.min(MAX_WORKGROUP) / self.subgroup;
        width.min(1 << most.ilog2())
    }

    /// Threads in a workgroup of [`Target::subgroups_of`] `width` subgroups.
    #[must_use]
    pub(crate) fn workgroup_of(&self, width: u32) -> u32 {
        self.subgroups_of(width) * self.subgroup
    }

    /// Threads in a workgroup that works as one, for `items` items: no more than those need, in whole subgroups.
    #[must_use]
    pub(crate) fn wide_workgroup(&self, items: u32) -> u32 {
        items.clamp(1, WIDE_WORKGROUP).next_multiple_of(self.subgroup)
    }

    /// Threads in a workgroup of the sampler chain, as many as pay and the device allows. (On an H100 a lone workgroup of 1,024 takes a seventh
    /// longer than one of 512 where few candidates are left, since there are fewer registers for each thread.)
    #[must_use]
    pub(crate) fn chain_workgroup(&self) -> u32 {
        self.max_workgroup.min(MAX_WORKGROUP) / self.subgroup * self.subgroup
    }

    /// A grid of at least `count` workgroups, wrapped into y above the limit in x.
    ///
    /// # Panics
    /// If the device cannot run so many in one dispatch.
    #[must_use]
    pub(crate) fn grid(&self, count: u32) -> [u32; 3] {
        let [max_x, max_y] = self.max_groups;
        let x = count.clamp(1, max_x);
        let y = count.div_ceil(x).max(1);
        assert!(y <= max_y, "{count} workgroups exceed the device's grid of {max_x} x {max_y}");
        [x, y, 1]
    }

    /// A grid for so many turns of a workgroup, with no more workgroups than are worth their preparation: each then takes several turns, `most` at
    /// most.
    #[must_use]
    pub(crate) fn bounded_grid(&self, turns: u32, most: u32) -> [u32; 3] {
        self.grid(turns.min(self.tuning.product_workgroups.max(turns.div_ceil(most))))
    }
}

/// One launch of a kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dispatch {
    /// The kernel.
    pub kernel: &'static KernelDef,
    /// Specialisation constants: id and value. Constant 0 is the workgroup size.
    pub constants: Vec<(u32, u32)>,
    /// The push-constant block.
    pub push: Vec<u8>,
    /// Its workgroups.
    pub groups: Groups,
}

/// How many workgroups a launch has, in x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// As many as the host says.
    Fixed([u32; 3]),
    /// As many as a kernel before it has written.
    Indirect {
        /// Device address of the three u32, a [`Grid`](crate::step::Grid), which the device reads when it gets to the launch.
        address: u64,
        /// What these numbers never exceed.
        most: [u32; 3],
    },
}

impl Groups {
    /// The most workgroups that the launch can have, in x, y and z.
    #[must_use]
    pub const fn most(self) -> [u32; 3] {
        match self {
            Self::Fixed(groups) | Self::Indirect { most: groups, .. } => groups,
        }
    }
}

impl From<[u32; 3]> for Groups {
    fn from(groups: [u32; 3]) -> Self {
        Self::Fixed(groups)
    }
}

impl Dispatch {
    pub(crate) fn new<P: bytemuck::Pod>(
        kernel: &'static KernelDef,
        constants: impl Into<Vec<(u32, u32)>>,
        push: &P,
        groups: impl Into<Groups>,
    ) -> Self {
        let push = bytemuck::bytes_of(push).to_vec();
        Self { kernel, constants: constants.into(), push, groups: groups.into() }
    }
}

impl Dispatch {
    /// Threads in a workgroup: constant 0.
    #[must_use]
    pub fn workgroup_size(&self) -> u32 {
        self.constants.iter().find(|(id, _)| *id == 0).map_or(1, |(_, value)| *value)
    }
}

impl Format {
    /// The value of the format's specialisation constant.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::F32 => codes::F32,
            Self::F16 => codes::F16,
            Self::BF16 => codes::BF16,
            Self::Q4_0 => codes::Q4_0,
            Self::Q4_1 => codes::Q4_1,
            Self::Q5_0 => codes::Q5_0,
            Self::Q5_1 => codes::Q5_1,
            Self::Q8_0 => codes::Q8_0,
            Self::Q4K => codes::Q4_K,
            Self::Q5K => codes::Q5_K,
            Self::Q6K => codes::Q6_K,
            Self::Q2K => codes::Q2_K,
            Self::Q3K => codes::Q3_K,
            Self::IQ4NL => codes::IQ4_NL,
            Self::IQ4XS => codes::IQ4_XS,
            Self::MXFP4 => codes::MXFP4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a matrix product declares as shared. When one of these lines changes, so must [`Target::widest_staged`].
    #[test]
    fn the_shaders_share_what_the_widest_staged_vector_assumes() {
        let declarations = |source: &str| -> Vec<String> {
            let lines = source.lines().filter_map(|line| line.strip_prefix("shared "));
            lines.filter_map(|line| line.split(';').next()).map(str::to_owned).collect()
        };
        let operand = include_str!("../../../shaders/include/operand.glsl");
        let staged = [
            "uvec4 staged_high[STAGES * PLANE_RUNS + 1]",
            "uvec4 staged_low[STAGES * PLANE_RUNS + 1]",
            "ivec4 staged_sums[STAGES * GROUPS * 4 + 1]",
            "float staged_scales[STAGES * GROUPS + 1]",
            "float square_sums[VECTORS * GROUPS]",
        ];
        assert_eq!(declarations(operand), staged);
        let choice = include_str!("../../../shaders/include/choice.glsl");
        let chosen = ["uvec4 keys[KEY_PARTS + 1]", "float chosen_logits[MAX_USED]", "uint chosen_ids[MAX_USED]"];
        assert_eq!(declarations(choice), chosen);
        assert_eq!(
            declarations(include_str!("../../../shaders/mat_vec.comp")),
            ["float values[SUBGROUPS * RESULTS * WINDOW_PLACES]"]
        );
        assert_eq!(
            declarations(include_str!("../../../shaders/gate_up.comp")),
            ["float values[VECTORS * 2 * RUN * (GROUPS + 1)]"]
        );
        assert_eq!(
            declarations(include_str!("../../../shaders/expert_down.comp")),
            ["float values[SUBGROUPS * SLOTS * GROUPS]"]
        );
        // A dense layer chooses no experts: one empty key, and room for the chosen ones all the same.
        let others = 16 + 2 * 4 * crate::ops::MAX_USED + 3 * 16 + 4;
        assert_eq!(others, 1_092);
        assert!(others <= OTHER_SHARED_BYTES);
        assert!(Target::new(32).widest_staged() >= crate::ops::MOST_STAGED);
        assert!(Target { tuning: Tuning::CPU, ..Target::new(8) }.widest_staged() >= crate::ops::MOST_STAGED);
    }

    #[test]
    fn grids_wrap_into_y_and_cover_every_row() {
        for rows in [1, 4, 5, 1_031, 65_535 * 4, 65_535 * 4 + 1, 151_936, u32::MAX - 3] {
            let [x, y, z] = Target::new(32).grid(rows.div_ceil(8));
            assert!(x <= 65_535 && y <= 65_535 && z == 1, "{rows} rows");
            assert!(u64::from(x) * u64::from(y) * 8 >= u64::from(rows), "{rows} rows");
        }
    }

    #[test]
    #[should_panic(expected = "exceed the device's grid")]
    fn a_grid_beyond_the_device_is_refused() {
        let small = Target { max_groups: [16, 16], ..Target::new(32) };
        let _ = small.grid(257);
    }
}
