//! Products of signed bytes that show whether integer matrix units give what is expected of them.

use crate::generated::check_bytes_units as units;
use crate::{Dispatch, Target, Units};

/// Floats that [`CheckBytes`] writes.
pub const CHECK_BYTES_RESULTS: usize = 3 * 256;

/// Products that each subgroup of [`CheckBytes`] and [`CheckHalves`](super::CheckHalves) computes in a round.
pub const CHECK_ROUND_PRODUCTS: u32 = 8;

/// Multiplies fragments of known bytes, so that the host can compare the results
/// ([`reference::check_bytes`](crate::reference::check_bytes)) and time the products.
#[derive(Clone, Copy, Debug)]
pub struct CheckBytes {
    /// The step state.
    pub state: u64,
    /// [`CHECK_BYTES_RESULTS`] f32, which the first workgroup writes.
    pub y: u64,
    /// Rounds of [`CHECK_ROUND_PRODUCTS`] products of each subgroup, beside those that are checked.
    pub rounds: u32,
    /// Workgroups.
    pub workgroups: u32,
}

impl CheckBytes {
    /// The launch, by these units.
    #[must_use]
    pub fn dispatch(&self, target: &Target, Units { depth, emulated }: Units) -> Dispatch {
        let workgroup = target.wide_workgroup(u32::MAX);
        let constants = units::Constants { workgroup, subgroup: target.subgroup, depth };
        let push = units::Push { state: self.state, y: self.y, rounds: self.rounds, ..units::Push::default() };
        let kernel = if emulated { &units::EMULATED } else { &units::KERNEL };
        Dispatch::new(kernel, constants.values(), &push, target.grid(self.workgroups))
    }
}
