//! The heads of a gated delta net: their shape, and the size of what a lane keeps of a layer from one step to the next.

use std::ops::Range;

use crate::generated::delta_net::{GROUPED, TILED};
use crate::generated::delta_state::TAPS;
use crate::ops::PerLane;

/// Which value heads a key head serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadOrder {
    /// Value head `h` has key head `h % key_heads` (`qwen35` and `qwen35moe` in GGUF).
    Tiled,
    /// The value heads of a key head stand together: value head `h` has key head `h / (value_heads / key_heads)` (`qwen3next` in GGUF).
    Grouped,
}

impl HeadOrder {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Tiled => TILED,
            Self::Grouped => GROUPED,
        }
    }
}

/// Elements that the heads of a gated delta net may have.
pub const DELTA_HEAD_SIZES: [u32; 4] = [32, 64, 128, 256];

/// The shape of a gated delta net.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaHeads {
    /// Heads of queries, and of keys.
    pub key_heads: u32,
    /// Heads of values, each with a memory of its own: a multiple of `key_heads`.
    pub value_heads: u32,
    /// Elements of each head, one of [`DELTA_HEAD_SIZES`].
    pub head_size: u32,
    /// Which value heads a key head serves.
    pub order: HeadOrder,
}

impl DeltaHeads {
    /// Channels of the convolution: those of queries, then those of keys, then those of values.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        (2 * self.key_heads + self.value_heads) * self.head_size
    }

    /// Elements of the values of all heads.
    #[must_use]
    pub const fn values(&self) -> u32 {
        self.value_heads * self.head_size
    }

    /// The key head that serves a value head.
    #[must_use]
    pub const fn key_head(&self, value_head: u32) -> u32 {
        match self.order {
            HeadOrder::Tiled => value_head % self.key_heads,
            HeadOrder::Grouped => value_head / (self.value_heads / self.key_heads),
        }
    }

    /// Bytes of the recurrent state of a lane and a layer, a multiple of 16, where a step takes at most so many drafts of a lane.
    /// `shaders/include/delta_state.glsl` has the layout: first come the memories, `[value_heads, head_size, head_size]` f32. A copy of all of it,
    /// taken between two steps, is a checkpoint: the lane, or another one with the copy in its place, goes on behind it at the position that it had
    /// then.
    #[must_use]
    pub const fn recurrent_bytes(&self, drafts: u32) -> u64 {
        let (channels, drafts) = (self.channels() as u64, drafts as u64);
        let committed = self.committed_range();
        let pending_bytes = (4 * channels + 8 * self.value_heads as u64).next_multiple_of(16);
        let pending = if drafts == 0 { 0 } else { (2 * drafts + 1) * pending_bytes };
        let columns = (TAPS as u64 - 1 + drafts) * 4 * channels;
        committed.end + pending + columns
    }

    /// Where a recurrent state has the positions that it has taken in, which are u32 up to its end, in bytes from its beginning.
    #[must_use]
    pub const fn committed_range(&self) -> Range<u64> {
        let memories = 4 * self.values() as u64 * self.head_size as u64;
        memories..memories + 4 * self.values() as u64
    }

    /// Panics if the heads do not suit the kernels, or the recurrent states of lanes lie too close together.
    pub(crate) fn check(&self, recurrent: PerLane, drafts: u32) {
        let &Self { key_heads, value_heads, head_size, .. } = self;
        assert!(
            DELTA_HEAD_SIZES.contains(&head_size),
            "heads of {head_size} elements: 32, 64, 128 and 256 are supported"
        );
        assert!(
            key_heads > 0 && value_heads > 0 && value_heads.is_multiple_of(key_heads),
            "{value_heads} value heads do not share {key_heads} key heads evenly"
        );
        let bytes = self.recurrent_bytes(drafts);
        assert!(
            u32::try_from(bytes).is_ok(),
            "the recurrent state of {value_heads} heads of {head_size} elements has {bytes} bytes: less than 4 GiB is supported"
        );
        let PerLane { address, stride } = recurrent;
        assert!(
            address.is_multiple_of(16) && stride.is_multiple_of(16) && (stride == 0 || u64::from(stride) >= bytes),
            "recurrent states of {bytes} bytes lie {stride} bytes apart from {address:#x} on: multiples of 16 are supported, and room for each"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: DeltaHeads = DeltaHeads { key_heads: 16, value_heads: 48, head_size: 128, order: HeadOrder::Tiled };

    #[test]
    fn value_heads_find_their_key_heads() {
        let key_heads = |order| [0, 1, 2, 3, 17, 47].map(|head| DeltaHeads { order, ..HEADS }.key_head(head));
        assert_eq!(key_heads(HeadOrder::Tiled), [0, 1, 2, 3, 1, 15]);
        assert_eq!(key_heads(HeadOrder::Grouped), [0, 0, 0, 1, 5, 15]);
    }

    #[test]
    fn a_state_has_room_for_its_parts() {
        // 48 matrices of 128 x 128; a position for each of their columns; three columns of 10,240 channels.
        let plain = 48 * 128 * 128 * 4 + 48 * 128 * 4 + 3 * 10_240 * 4;
        assert_eq!(HEADS.recurrent_bytes(0), plain);
        // With three drafts three columns more, and seven pending rows of 10,240 channels and 96 inputs of gates.
        assert_eq!(HEADS.recurrent_bytes(3), plain + 3 * 10_240 * 4 + 7 * (10_240 + 96) * 4);
        // The inputs of five heads' gates are filled up to 16 bytes.
        let heads = DeltaHeads { key_heads: 5, value_heads: 5, head_size: 32, order: HeadOrder::Tiled };
        assert_eq!(heads.recurrent_bytes(1), 5 * 32 * 32 * 4 + 5 * 32 * 4 + 3 * (15 * 32 * 4 + 48) + 4 * 15 * 32 * 4);
    }

    /// The shader works out the same layout.
    #[test]
    fn the_shader_has_the_layout_that_the_host_assumes() {
        let shader = include_str!("../../../shaders/include/delta_state.glsl");
        for line in [
            "const uint CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * HEAD_SIZE;",
            "const uint VALUE_COLUMNS = VALUE_HEADS * HEAD_SIZE;",
            "const uint PENDING_SLOTS = DRAFTS == 0 ? 0 : 2 * DRAFTS + 1;",
            "const uint PENDING_BYTES = (CHANNELS * 4 + VALUE_HEADS * 8 + 15) / 16 * 16;",
            "const uint COLUMN_SLOTS = TAPS - 1 + DRAFTS;",
            "const uint COMMITTED_OFFSET = VALUE_COLUMNS * HEAD_SIZE * 4;",
            "const uint PENDING_OFFSET = COMMITTED_OFFSET + VALUE_COLUMNS * 4;",
            "const uint COLUMNS_OFFSET = PENDING_OFFSET + PENDING_SLOTS * PENDING_BYTES;",
        ] {
            assert!(shader.contains(line), "{line}");
        }
    }
}
