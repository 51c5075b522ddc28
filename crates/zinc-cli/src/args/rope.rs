//! Flags of the rotary embedding, with llama.cpp's names, and llama.cpp's values for what the file says.

use clap::ValueEnum;
use zinc_model::config::{RopeOverrides, RopeScalingKind};

/// The heading of these flags in the help.
const HEADING: &str = "Contexts beyond the training, in place of what the file says";

/// What replaces the file's rotary embedding.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct RopeArgs {
    /// How positions are scaled: not at all, all alike, or by YaRN; a factor alone is linear where the file names no kind
    #[arg(long, value_name = "KIND", value_enum, help_heading = HEADING)]
    rope_scaling: Option<Scaling>,
    /// Extend the context by this factor, 1 or above; 0 is the file's
    #[arg(long, value_name = "N", value_parser = factor, overrides_with = "rope_freq_scale", help_heading = HEADING)]
    rope_scale: Option<f32>,
    /// The inverse of that factor: above 0 and up to 1; 0 is the file's
    #[arg(long, value_name = "N", value_parser = inverse_factor, overrides_with = "rope_scale", help_heading = HEADING)]
    rope_freq_scale: Option<f32>,
    /// Base of the frequencies; 0 is the file's
    #[arg(long, value_name = "N", value_parser = base, help_heading = HEADING)]
    rope_freq_base: Option<f32>,
    /// YaRN: tokens of the context before it was extended; 0 is the file's
    #[arg(long, value_name = "N", help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(RopeOverrides::MOST_CONTEXT)))]
    yarn_orig_ctx: Option<u32>,
    /// YaRN: share of their own frequency that fast pairs keep: 1 is all, 0 scales all pairs alike; -1 is the file's
    #[arg(long, value_name = "X", value_parser = share, allow_negative_numbers = true, help_heading = HEADING)]
    yarn_ext_factor: Option<f32>,
    /// YaRN: factor on cosines and sines, beside the one that YaRN has; -1 is the file's
    #[arg(long, value_name = "X", value_parser = positive, allow_negative_numbers = true, help_heading = HEADING)]
    yarn_attn_factor: Option<f32>,
    /// YaRN: turns within the original context up to which a pair is slow; -1 is the file's
    #[arg(long, value_name = "X", value_parser = positive, allow_negative_numbers = true, help_heading = HEADING)]
    yarn_beta_slow: Option<f32>,
    /// YaRN: turns within the original context from which on a pair is fast; -1 is the file's
    #[arg(long, value_name = "X", value_parser = positive, allow_negative_numbers = true, help_heading = HEADING)]
    yarn_beta_fast: Option<f32>,
}

/// A kind of scaling on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scaling {
    None,
    Linear,
    Yarn,
}

impl RopeArgs {
    /// What the flags replace.
    pub(crate) fn overrides(&self) -> RopeOverrides {
        // llama.cpp writes the file's value as 0, and as a negative number in the last four flags.
        let above_zero = |value: Option<f32>| value.filter(|value| *value != 0.0);
        let not_negative = |value: Option<f32>| value.filter(|value| *value >= 0.0);
        let inverse = |scale: f32| (1.0 / f64::from(scale)) as f32;
        RopeOverrides {
            scaling: self.rope_scaling.map(|scaling| match scaling {
                Scaling::None => RopeScalingKind::None,
                Scaling::Linear => RopeScalingKind::Linear,
                Scaling::Yarn => RopeScalingKind::Yarn,
            }),
            // At most one of the two is left by clap.
            factor: above_zero(self.rope_scale).or(above_zero(self.rope_freq_scale).map(inverse)),
            base: above_zero(self.rope_freq_base),
            original_context: self.yarn_orig_ctx.filter(|tokens| *tokens != 0),
            extrapolation: not_negative(self.yarn_ext_factor),
            attention_factor: not_negative(self.yarn_attn_factor),
            beta_fast: not_negative(self.yarn_beta_fast),
            beta_slow: not_negative(self.yarn_beta_slow),
        }
    }
}

/// A number for which `is_sound` holds.
fn number(text: &str, is_sound: impl Fn(f32) -> bool, expected: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() && is_sound(value) => Ok(value),
        Ok(_) => Err(format!("must be {expected}")),
        Err(error) => Err(error.to_string()),
    }
}

fn factor(text: &str) -> Result<f32, String> {
    number(text, |value| value == 0.0 || value >= 1.0, "1 or above, or 0 for the file's")
}

fn inverse_factor(text: &str) -> Result<f32, String> {
    // The inverse of the least numbers is infinite.
    number(text, |value| value == 0.0 || (1e-30..=1.0).contains(&value), "above 0 and up to 1, or 0 for the file's")
}

fn base(text: &str) -> Result<f32, String> {
    number(text, |value| value >= 0.0, "above 0, or 0 for the file's")
}

fn share(text: &str) -> Result<f32, String> {
    number(text, |value| value <= 1.0, "from 0 to 1, or negative for the file's")
}

fn positive(text: &str) -> Result<f32, String> {
    number(text, |value| value != 0.0, "above 0, or negative for the file's")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rope: RopeArgs,
    }

    fn overrides(line: &str) -> RopeOverrides {
        let words = std::iter::once("zinc").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).rope.overrides()
    }

    #[test]
    fn flags_replace_what_they_name() {
        assert_eq!(overrides(""), RopeOverrides::default());
        let line = "--rope-scaling yarn --rope-scale 4 --rope-freq-base 5e5 --yarn-orig-ctx 512 --yarn-ext-factor 0 \
                    --yarn-attn-factor 1.5 --yarn-beta-slow 2 --yarn-beta-fast 16";
        let expected = RopeOverrides {
            scaling: Some(RopeScalingKind::Yarn),
            factor: Some(4.0),
            base: Some(5e5),
            original_context: Some(512),
            extrapolation: Some(0.0),
            attention_factor: Some(1.5),
            beta_fast: Some(16.0),
            beta_slow: Some(2.0),
        };
        assert_eq!(overrides(line), expected);
        assert_eq!(overrides("--rope-scaling none").scaling, Some(RopeScalingKind::None));
        assert_eq!(overrides("--rope-scaling linear").scaling, Some(RopeScalingKind::Linear));
    }

    #[test]
    fn the_later_of_the_two_factors_counts() {
        assert_eq!(overrides("--rope-freq-scale 0.125").factor, Some(8.0));
        assert_eq!(overrides("--rope-scale 2 --rope-freq-scale 0.25").factor, Some(4.0));
        assert_eq!(overrides("--rope-freq-scale 0.25 --rope-scale 2").factor, Some(2.0));
        assert_eq!(overrides("--rope-scale 2 --rope-freq-scale 0").factor, None);
    }

    #[test]
    fn llama_cpps_values_for_what_the_file_says_replace_nothing() {
        let line = "--rope-scale 0 --rope-freq-base 0 --yarn-orig-ctx 0 --yarn-ext-factor -1 --yarn-attn-factor -1 \
                    --yarn-beta-slow -1 --yarn-beta-fast -1.0";
        assert_eq!(overrides(line), RopeOverrides::default());
        assert_eq!(overrides("--rope-freq-scale 0"), RopeOverrides::default());
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for line in [
            "--rope-scaling longrope",
            "--rope-scale 0.5",
            "--rope-scale -1",
            "--rope-scale nan",
            "--rope-freq-scale 1.5",
            "--rope-freq-scale 1e-40",
            "--rope-freq-base inf",
            "--yarn-orig-ctx -1",
            "--yarn-orig-ctx 2000000000",
            "--yarn-ext-factor 1.5",
            "--yarn-attn-factor 0",
            "--yarn-beta-fast 0",
            "--yarn-beta-slow x",
        ] {
            let words = std::iter::once("zinc").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
