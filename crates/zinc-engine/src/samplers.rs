//! Which samplers are on, by llama.cpp's names and letters.
//!
//! zinc's samplers run in llama.cpp's usual order and in no other. A list that keeps to that order switches the others off; any other is refused.

use zinc_sched::{Penalties, Sampling, Xtc};

/// A sampler that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Penalties,
    Dry,
    TopNSigma,
    TopK,
    Typical,
    TopP,
    MinP,
    Xtc,
    Temperature,
}

/// The samplers in their order, with llama.cpp's letter and names, the usual name first.
const STAGES: [(Stage, char, &[&str]); 9] = [
    (Stage::Penalties, 'e', &["penalties"]),
    (Stage::Dry, 'd', &["dry"]),
    (Stage::TopNSigma, 's', &["top_n_sigma", "top-n-sigma"]),
    (Stage::TopK, 'k', &["top_k", "top-k"]),
    (Stage::Typical, 'y', &["typ_p", "typ-p", "typical_p", "typical-p", "typical", "typ"]),
    (Stage::TopP, 'p', &["top_p", "top-p", "nucleus"]),
    (Stage::MinP, 'm', &["min_p", "min-p"]),
    (Stage::Xtc, 'x', &["xtc"]),
    (Stage::Temperature, 't', &["temperature", "temp"]),
];

/// The samplers that are on, in llama.cpp's usual order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerChain(Vec<Stage>);

impl SamplerChain {
    /// Reads names with semicolons between them; the empty text is no sampler at all.
    ///
    /// # Errors
    /// What is wrong with the list: a name that is unknown, comes twice, or comes before one that runs before it.
    pub fn from_names(text: &str) -> Result<Self, String> {
        Self::from_list(text.split(';').map(str::trim).filter(|name| !name.is_empty()))
    }

    /// Reads a list of names.
    ///
    /// # Errors
    /// As for [`Self::from_names`].
    pub fn from_list<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let stage = |name: &str| {
            let found = STAGES.iter().find(|(_, _, names)| names.contains(&name)).map(|(stage, ..)| *stage);
            found.ok_or_else(|| format!("'{name}' is no sampler of zinc, which has {}", usual_names()))
        };
        Self::in_order(names.into_iter().map(stage).collect::<Result<_, _>>()?)
    }

    /// Reads a letter for each sampler.
    ///
    /// # Errors
    /// As for [`Self::from_names`].
    pub fn from_letters(text: &str) -> Result<Self, String> {
        let stage = |letter: char| {
            let found = STAGES.iter().find(|(_, own, _)| *own == letter).map(|(stage, ..)| *stage);
            let letters: String = STAGES.iter().map(|(_, letter, _)| letter).collect();
            found.ok_or_else(|| format!("'{letter}' is no sampler of zinc, which has {letters} for {}", usual_names()))
        };
        Self::in_order(text.chars().map(stage).collect::<Result<_, _>>()?)
    }

    fn in_order(stages: Vec<Stage>) -> Result<Self, String> {
        match stages.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) if pair[0] == pair[1] => Err(format!("{} is there twice; zinc runs it once", name(pair[0]))),
            Some(pair) => Err(format!(
                "{} comes before {}; zinc runs its samplers in the order {}, of which some can be left out",
                name(pair[0]),
                name(pair[1]),
                usual_names()
            )),
            None => Ok(Self(stages)),
        }
    }

    /// The parameters with the samplers off that are not in the chain. Without a temperature the logits stay as they are, as with 1.
    #[must_use]
    pub fn applied(&self, mut sampling: Sampling) -> Sampling {
        let off = Sampling::GREEDY;
        for (stage, ..) in STAGES.iter().filter(|(stage, ..)| !self.0.contains(stage)) {
            match stage {
                Stage::Penalties => sampling.penalties = Penalties::OFF,
                Stage::Dry => sampling.dry = None,
                Stage::TopNSigma => sampling.top_n_sigma = off.top_n_sigma,
                Stage::TopK => sampling.top_k = off.top_k,
                Stage::Typical => sampling.typical_p = off.typical_p,
                Stage::TopP => sampling.top_p = off.top_p,
                Stage::MinP => sampling.min_p = off.min_p,
                Stage::Xtc => sampling.xtc = Xtc::OFF,
                Stage::Temperature => sampling.temperature = 1.0,
            }
        }
        sampling
    }
}

fn name(stage: Stage) -> &'static str {
    STAGES.iter().find(|(own, ..)| *own == stage).map_or("", |(_, _, names)| names[0])
}

fn usual_names() -> String {
    STAGES.map(|(_, _, names)| names[0]).join(";")
}

#[cfg(test)]
mod tests {
    use zinc_sched::{Dry, LastTokens};

    use super::*;

    /// Parameters with every stage on.
    fn every() -> Sampling {
        let last_n = LastTokens::Count(64);
        Sampling {
            temperature: 0.7,
            seed: 3,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 0.95,
            top_n_sigma: 2.0,
            xtc: Xtc { probability: 0.5, threshold: 0.1 },
            penalties: Penalties { last_n, repeat: 1.1, frequency: 0.1, presence: 0.1 },
            dry: Some(Dry { multiplier: 0.8, base: 1.75, allowed_length: 2, last_n, breakers: None }),
            logit_bias: vec![(0, -1.0)],
        }
    }

    #[test]
    fn a_part_of_the_order_switches_the_rest_off() {
        let off = Sampling { logit_bias: every().logit_bias, temperature: 1.0, seed: every().seed, ..Sampling::GREEDY };
        for (names, letters, expected) in [
            ("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", "edskypmxt", every()),
            ("", "", off.clone()),
            ("temperature", "t", Sampling { temperature: 0.7, ..off.clone() }),
            ("top_k;temp", "kt", Sampling { top_k: every().top_k, temperature: 0.7, ..off.clone() }),
            (
                "dry; nucleus ;xtc",
                "dpx",
                Sampling { dry: every().dry, top_p: every().top_p, xtc: every().xtc, ..off.clone() },
            ),
            (
                "top-n-sigma;typical;min-p",
                "sym",
                Sampling {
                    top_n_sigma: every().top_n_sigma,
                    typical_p: every().typical_p,
                    min_p: every().min_p,
                    ..off.clone()
                },
            ),
            ("penalties", "e", Sampling { penalties: every().penalties, ..off }),
        ] {
            let by_name = SamplerChain::from_names(names).unwrap();
            assert_eq!(by_name, SamplerChain::from_letters(letters).unwrap(), "{names}");
            assert_eq!(by_name.applied(every()), expected, "{names}");
        }
    }

    #[test]
    fn other_orders_and_unknown_names_are_refused() {
        for (names, part) in [
            ("top_p;top_k", "top_p comes before top_k"),
            ("temperature;penalties", "temperature comes before penalties"),
            ("top_k;top_k", "top_k is there twice"),
            ("top_k;temp;temperature", "temperature is there twice"),
            ("top_k,top_p", "'top_k,top_p' is no sampler"),
            ("infill", "'infill' is no sampler"),
            ("adaptive_p", "'adaptive_p' is no sampler"),
        ] {
            let error = SamplerChain::from_names(names).unwrap_err();
            assert!(error.contains(part) && (error.contains("penalties;dry") || error.contains("twice")), "{error}");
        }
        for (letters, part) in
            [("pk", "top_p comes before top_k"), ("kk", "twice"), ("i", "'i' is no sampler"), ("k;", "';'")]
        {
            let error = SamplerChain::from_letters(letters).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
