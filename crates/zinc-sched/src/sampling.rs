//! How a token is chosen from the logits. Only the parameters live here; the choice itself is the model's.

use crate::error::{Error, Result};

/// Sampling parameters of one request, checked when made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    temperature: f32,
    seed: u64,
}

impl Sampling {
    /// The most likely token, every time; ties go to the lower id.
    pub const GREEDY: Self = Self { temperature: 0.0, seed: 0 };

    /// Samples from `softmax(logits / temperature)` with a counter-based generator: the same seed gives the same tokens at every depth.
    /// Temperature 0 is greedy and ignores the seed.
    ///
    /// # Errors
    /// [`Error::InvalidTemperature`] unless `temperature` is finite and at least 0.
    pub fn new(temperature: f32, seed: u64) -> Result<Self> {
        if temperature.is_finite() && temperature >= 0.0 {
            // `-0.0 >= 0.0` holds; adding 0.0 leaves one zero for the device to compare against.
            Ok(Self { temperature: temperature + 0.0, seed })
        } else {
            Err(Error::InvalidTemperature { temperature })
        }
    }

    /// Temperature; 0 is greedy.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }

    /// Seed of the counter-based generator.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the seed is irrelevant.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_checked() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.1, -f32::MIN_POSITIVE] {
            assert!(matches!(Sampling::new(bad, 1), Err(Error::InvalidTemperature { .. })), "{bad}");
        }
        for good in [0.0, f32::MIN_POSITIVE, 0.7, 1.0, 100.0] {
            assert_eq!(Sampling::new(good, 7).unwrap().temperature(), good);
        }
    }

    #[test]
    fn negative_zero_is_greedy_zero() {
        let sampling = Sampling::new(-0.0, 3).unwrap();
        assert!(sampling.is_greedy());
        assert_eq!(sampling.temperature().to_bits(), 0);
        assert_eq!(sampling.seed(), 3);
    }
}
