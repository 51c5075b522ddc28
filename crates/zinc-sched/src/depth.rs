//! How many steps may be in flight at once.

use crate::error::{Error, Result};

/// How many steps may be in flight: submitted and not yet observed by the host. From [`Self::MIN`] to [`Self::MAX`].
///
/// At depth 1 the host waits for every step before it submits the next. Depth 2 hides the host's work behind the device's; a larger depth
/// hides it also when the host is late now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InflightDepth(u32);

impl InflightDepth {
    /// The smallest depth, at which nothing is queued ahead.
    pub const MIN: u32 = 1;
    /// The largest depth. A larger one would gain nothing, and a cancelled sequence would have more steps to drain.
    pub const MAX: u32 = 8;
    /// The default depth, 4.
    pub const DEFAULT: Self = Self(4);
    /// Depth 1: the host waits for every step, as the fence baseline does.
    pub const ONE: Self = Self(1);

    /// A depth of `depth` steps.
    ///
    /// # Errors
    /// [`Error::DepthOutOfRange`] outside `MIN..=MAX`.
    pub fn new(depth: u32) -> Result<Self> {
        if (Self::MIN..=Self::MAX).contains(&depth) {
            Ok(Self(depth))
        } else {
            Err(Error::DepthOutOfRange { depth, min: Self::MIN, max: Self::MAX })
        }
    }

    /// The number of steps.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for InflightDepth {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u32> for InflightDepth {
    type Error = Error;

    fn try_from(depth: u32) -> Result<Self> {
        Self::new(depth)
    }
}

impl std::fmt::Display for InflightDepth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_outside_the_range_are_errors_that_name_it() {
        for depth in 1..=8 {
            assert_eq!(InflightDepth::try_from(depth).unwrap().get(), depth);
        }
        for depth in [0, 9, u32::MAX] {
            let error = InflightDepth::new(depth).unwrap_err();
            assert!(matches!(error, Error::DepthOutOfRange { depth: d, .. } if d == depth));
            assert!(error.to_string().contains(&format!("{depth} is outside 1..=8")), "{error}");
        }
        assert_eq!(InflightDepth::default().to_string(), "4");
    }
}
