//! Log-probabilities out of what a step reports.

use crate::generated::logprob_report::LogprobReport;
use crate::reference::mass::MASS_ONE;

impl LogprobReport {
    /// The natural logarithm of the probability of a token with this logit: the log-softmax of the logits as the model gave them.
    #[must_use]
    pub fn logprob(&self, logit: f32) -> f32 {
        let total = self.mass as f64 / MASS_ONE as f64;
        (f64::from(logit) - f64::from(self.highest) - total.ln()) as f32
    }

    /// The most probable tokens and the natural logarithms of their probabilities, the most probable first.
    pub fn top(&self) -> impl Iterator<Item = (u32, f32)> {
        let listed = self.ids.iter().zip(&self.logits).take(self.count as usize);
        listed.map(|(id, logit)| (*id, self.logprob(*logit)))
    }
}
