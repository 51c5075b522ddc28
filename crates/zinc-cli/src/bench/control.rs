//! What the host decides while tokens are timed: by a mask that takes time and allows everything, or by a sampler that chooses the token that
//! the GPU would choose greedily. So the tokens are the same whoever chooses them.

use std::time::Duration;

use zinc_sched::{Clock as _, Constraint, Control, ControlError, FnClock, Guide, TokenSampler, Verdict};
use zinc_vk::host_now_ns;

use crate::args::BenchControl;

/// The control of a request; computing a mask keeps the host busy for `mask_work`.
pub(crate) fn control(who: BenchControl, mask_work: Duration) -> Control {
    match who {
        BenchControl::Gpu => Control::Device,
        BenchControl::Masked => Control::masked(move || Ok(Everything { mask_work })),
        BenchControl::HostFed => Control::host_fed(|| Ok(Likeliest)),
    }
}

/// A constraint that allows every token, after it has kept the host busy for a while.
struct Everything {
    mask_work: Duration,
}

impl Constraint for Everything {
    fn guide(&mut self, _: &mut Guide) -> Result<Verdict, ControlError> {
        FnClock(host_now_ns).spend(self.mask_work);
        Ok(Verdict::Choose)
    }

    fn accept(&mut self, _: u32) -> Result<(), ControlError> {
        Ok(())
    }
}

/// A sampler that takes the token with the highest logit, and of equal ones that with the lowest id.
struct Likeliest;

impl TokenSampler for Likeliest {
    fn sample(&mut self, logits: &[f32], _: &[u32]) -> Result<u32, ControlError> {
        Ok(likeliest(logits))
    }
}

fn likeliest(logits: &[f32]) -> u32 {
    let (mut best, mut highest) = (0, f32::NEG_INFINITY);
    for (id, &logit) in logits.iter().enumerate() {
        if logit > highest {
            (best, highest) = (id, logit);
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_token_is_the_first_of_the_highest() {
        assert_eq!(likeliest(&[-2.0, 1.5, -1.0, 1.5]), 1);
        assert_eq!(likeliest(&[f32::NEG_INFINITY, -3.0]), 1);
        assert_eq!(likeliest(&[f32::NEG_INFINITY; 3]), 0);
    }

    #[test]
    fn a_mask_takes_its_time_and_allows_everything() {
        let work = Duration::from_micros(200);
        let mut guide = Guide::new(40);
        let start = host_now_ns();
        let verdict = Everything { mask_work: work }.guide(&mut guide).unwrap();
        assert!(u128::from(host_now_ns() - start) >= work.as_nanos());
        assert_eq!((verdict, guide), (Verdict::Choose, Guide::new(40)));
    }
}
