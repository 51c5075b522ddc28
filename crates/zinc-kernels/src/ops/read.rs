//! Reading memory for its own sake, to measure how fast a device can.

use crate::generated::read::{Constants, KERNEL, LOADS, Push};
use crate::{Dispatch, Target};

/// Threads in a workgroup: a multiple of every subgroup width.
const WORKGROUP: u32 = 256;

/// Bytes that a workgroup reads at a time.
pub const READ_TILE_BYTES: u32 = LOADS * WORKGROUP * 16;

/// Combines words of memory by exclusive or: of each tile by one workgroup, which takes every `workgroups`-th.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The step state.
    pub state: u64,
    /// `[tiles, READ_TILE_BYTES]`, aligned to 16 bytes.
    pub x: u64,
    /// Tiles of [`READ_TILE_BYTES`].
    pub tiles: u32,
    /// `[workgroups]` u32: what each of them has combined, 0 for one that had no tile.
    pub y: u64,
    /// At least 1.
    pub workgroups: u32,
}

impl Read {
    /// The launch: as many workgroups as were asked for.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let most = target.max_groups[0];
        assert!((1..=most).contains(&self.workgroups), "{} workgroups read; 1 to {most} can", self.workgroups);
        let constants = Constants { workgroup: WORKGROUP, subgroup: target.subgroup };
        let push = Push { state: self.state, x: self.x, y: self.y, tiles: self.tiles, ..Push::default() };
        Dispatch::new(&KERNEL, constants.values(), &push, [self.workgroups, 1, 1])
    }
}
