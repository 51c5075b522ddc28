//! Products of halves that show whether float matrix units give what is expected of them.

use crate::generated::check_halves_units as units;
use crate::generated::half_fragments::TEAM;
use crate::{Dispatch, HalfUnits, Target};

/// Floats that [`CheckHalves`] writes.
pub const CHECK_HALVES_RESULTS: usize = 5 * 256;

/// Multiplies fragments of known halves, so that the host can compare the results
/// ([`reference::check_halves`](crate::reference::check_halves)) and time the products.
#[derive(Clone, Copy, Debug)]
pub struct CheckHalves {
    /// The step state.
    pub state: u64,
    /// [`CHECK_HALVES_RESULTS`] f32, which the first workgroup writes.
    pub y: u64,
    /// Rounds of [`CHECK_ROUND_PRODUCTS`](super::CHECK_ROUND_PRODUCTS) products of each 32 lanes, beside those that are checked.
    pub rounds: u32,
    /// Workgroups.
    pub workgroups: u32,
}

impl CheckHalves {
    /// The launch, by these units.
    #[must_use]
    pub fn dispatch(&self, target: &Target, HalfUnits { emulated }: HalfUnits) -> Dispatch {
        // A workgroup of one team checks; to time the products, a device is filled sooner by larger ones.
        let workgroup = if self.workgroups == 1 { TEAM } else { target.wide_workgroup(u32::MAX) };
        let constants = units::Constants { workgroup, subgroup: target.subgroup };
        let push = units::Push { state: self.state, y: self.y, rounds: self.rounds, ..units::Push::default() };
        let kernel = if emulated { &units::EMULATED } else { &units::KERNEL };
        Dispatch::new(kernel, constants.values(), &push, target.grid(self.workgroups))
    }
}
