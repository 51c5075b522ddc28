//! A sampler in words: which of its stages do something.

use zinc_sched::{LastTokens, Sampling};

/// The stages of a sampler that do something, with their parameters by the names of their flags.
pub(crate) fn description(sampling: &Sampling) -> String {
    let Sampling { temperature, seed: _, top_k, top_p, min_p, typical_p, top_n_sigma, xtc, penalties, dry, logit_bias } =
        sampling.clone().normalized();
    let off = Sampling::GREEDY;
    let mut stages = Vec::new();
    let mut stage = |is_on: bool, text: String| stages.extend(is_on.then_some(text));
    let biases: Vec<String> = logit_bias.iter().map(|(id, bias)| format!("{id}{bias:+}")).collect();
    stage(!biases.is_empty(), format!("logit-bias {}", biases.join(",")));
    stage(
        penalties != off.penalties,
        format!(
            "repeat-penalty {}, presence-penalty {}, frequency-penalty {} over {}",
            penalties.repeat,
            penalties.presence,
            penalties.frequency,
            window(penalties.last_n)
        ),
    );
    if let Some(dry) = dry {
        let over = window(dry.last_n);
        stage(true, format!("dry {} * {}^(n - {}) over {over}", dry.multiplier, dry.base, dry.allowed_length));
    }
    stage(top_n_sigma != off.top_n_sigma, format!("top-n-sigma {top_n_sigma}"));
    stage(top_k != off.top_k, format!("top-k {top_k}"));
    stage(typical_p != off.typical_p, format!("typical {typical_p}"));
    stage(top_p != off.top_p, format!("top-p {top_p}"));
    stage(min_p != off.min_p, format!("min-p {min_p}"));
    stage(xtc != off.xtc, format!("xtc {} from {}", xtc.probability, xtc.threshold));
    stage(true, format!("temp {temperature}"));
    stages.join(", ")
}

fn window(last: LastTokens) -> String {
    match last {
        LastTokens::Count(count) => format!("{count} tokens"),
        LastTokens::All => "the context".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn what_is_on_is_described() {
        assert_eq!(description(&Sampling::GREEDY), "temp 0");
        assert_eq!(description(&args::DEFAULTS), "top-k 40, top-p 0.95, min-p 0.05, temp 0.8");
        assert_eq!(
            description(&args::every_stage()),
            "logit-bias 0-1, repeat-penalty 1.1, presence-penalty 0.1, frequency-penalty 0.1 over 64 tokens, \
             dry 0.8 * 1.75^(n - 2) over the context, top-n-sigma 2, top-k 40, typical 0.95, top-p 0.95, min-p 0.05, \
             xtc 0.5 from 0.1, temp 0.8"
        );
    }
}
