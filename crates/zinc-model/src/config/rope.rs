//! Rotary position embedding: which elements turn together, how fast, and how positions beyond the trained context are computed.
//!
//! The file says it, and a caller may replace parts of that by [`RopeOverrides`]. The angles that follow are in
//! [`rotation`](crate::rotation_table); `docs/rope-scaling.md` has the formulas.

use std::fmt;

use super::keys::Keys;
use super::{Architecture, MAX_CONTEXT, MAX_HEAD_DIM};
use crate::error::{Error, Result};

/// Which pairs of elements of a head are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairing {
    /// Elements `i` and `i + dims / 2`.
    Halves,
    /// Elements `2 i` and `2 i + 1`.
    Neighbours,
}

/// How positions are stretched beyond the length that the model was trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// They are not stretched.
    None,
    /// Positions are divided by `factor`.
    Linear {
        /// The factor, at least 1.
        factor: f32,
    },
    /// Slow pairs are stretched, fast ones are not.
    Yarn(Yarn),
}

impl RopeScaling {
    /// The kind of scaling, without its numbers.
    #[must_use]
    pub fn kind(self) -> RopeScalingKind {
        match self {
            Self::None => RopeScalingKind::None,
            Self::Linear { .. } => RopeScalingKind::Linear,
            Self::Yarn(_) => RopeScalingKind::Yarn,
        }
    }
}

/// The numbers of YaRN ("YaRN: Efficient Context Window Extension of Large Language Models", arXiv 2309.00071).
///
/// A pair of elements that turns around more than `beta_fast` times within the original context keeps its frequency, one that turns around less
/// than `beta_slow` times has it divided by `factor`, and those between are blended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// By how much the context grows, at least 1.
    pub factor: f32,
    /// Positions of the original context, at least 1.
    pub original_context: u32,
    /// How much of the fast pairs' own frequencies is kept: from 0, where all pairs are stretched alike, to 1.
    pub extrapolation: f32,
    /// A factor on the cosines and sines beside the one that follows from `factor`. Above 0.
    pub attention_factor: f32,
    /// Turns within the original context from which on a pair is fast. Above `beta_slow`.
    pub beta_fast: f32,
    /// Turns within the original context up to which a pair is slow. Above 0.
    pub beta_slow: f32,
    /// Whether pairs are blended between whole pairs: the last fast one and the first slow one. Otherwise the blend begins and ends between pairs, exactly where a pair
    /// would turn around `beta_fast` times and `beta_slow` times. Models are trained with the one or the other.
    pub whole_pairs: bool,
}

/// A kind of rope scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeScalingKind {
    /// None at all.
    None,
    /// All positions are divided by the factor.
    Linear,
    /// YaRN.
    Yarn,
}

impl RopeScalingKind {
    /// The name in a file's metadata, and llama.cpp's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Linear => "linear",
            Self::Yarn => "yarn",
        }
    }

    fn from_name(name: &str) -> Result<Self> {
        let kinds = [Self::None, Self::Linear, Self::Yarn];
        let kind = kinds.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| Error::RopeScaling { found: name.to_owned() })
    }
}

impl fmt::Display for RopeScalingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub base: f32,
    /// Leading elements of a head that are rotated. Even, `head_dim` at most.
    pub dims: u32,
    /// Which elements of a head are rotated together.
    pub pairing: RopePairing,
    /// Stretching of positions. Factors for each frequency are not in the metadata, but in the tensor `rope_freqs.weight` of models that
    /// have it.
    pub scaling: RopeScaling,
}

/// What a caller wants of the position embedding in place of what the file says. `None` leaves a value to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RopeOverrides {
    /// The kind of scaling.
    pub scaling: Option<RopeScalingKind>,
    /// The factor of linear scaling or YaRN: 1 or above.
    pub factor: Option<f32>,
    /// The base of the frequencies: above 0, and above 1 with YaRN.
    pub base: Option<f32>,
    /// [`Yarn::original_context`], up to [`Self::MOST_CONTEXT`].
    pub original_context: Option<u32>,
    /// [`Yarn::extrapolation`].
    pub extrapolation: Option<f32>,
    /// A factor that [`Yarn::attention_factor`] has beside the file's `rope.scaling.attn_factor`.
    pub attention_factor: Option<f32>,
    /// [`Yarn::beta_fast`].
    pub beta_fast: Option<f32>,
    /// [`Yarn::beta_slow`].
    pub beta_slow: Option<f32>,
}

impl RopeOverrides {
    /// The most that [`Self::original_context`] may be.
    pub const MOST_CONTEXT: u32 = MAX_CONTEXT;

    /// The name of a number that was given and that scaling of this kind has no use for, if there is one.
    fn unused_with(&self, kind: RopeScalingKind) -> Option<&'static str> {
        let of_yarn = kind == RopeScalingKind::Yarn;
        let of_any = kind != RopeScalingKind::None;
        [
            ("a factor", self.factor.is_some(), of_any),
            ("an original context", self.original_context.is_some(), of_yarn),
            ("an extrapolation factor", self.extrapolation.is_some(), of_yarn),
            ("an attention factor", self.attention_factor.is_some(), of_yarn),
            ("a fast beta", self.beta_fast.is_some(), of_yarn),
            ("a slow beta", self.beta_slow.is_some(), of_yarn),
        ]
        .into_iter()
        .find_map(|(name, is_given, is_used)| (is_given && !is_used).then_some(name))
    }
}

/// A number of the position embedding: where it comes from and which values make sense.
struct Number {
    what: &'static str,
    key: &'static str,
    asked: Option<f32>,
    expected: &'static str,
    is_sound: fn(f32) -> bool,
}

impl Number {
    /// The caller's value, or else the file's; `None` if there is neither.
    fn read(&self, keys: &Keys<'_>) -> Result<Option<f32>> {
        let Some(asked) = self.asked else {
            return match keys.get_f32(self.key)? {
                Some(value) if !(self.is_sound)(value) => Err(keys.bad(self.key, value, self.expected)),
                value => Ok(value),
            };
        };
        if (self.is_sound)(asked) {
            return Ok(Some(asked));
        }
        Err(Error::RopeNumber { what: self.what, found: asked, expected: self.expected.to_owned() })
    }
}

/// Reads the position embedding of a model with heads of `head_dim` elements, trained for `n_ctx_train` positions.
pub(super) fn rope(
    keys: &Keys<'_>,
    architecture: Architecture,
    (head_dim, n_ctx_train): (u32, u32),
    overrides: &RopeOverrides,
) -> Result<Rope> {
    let traits = architecture.traits();
    let scaling = scaling(keys, traits.yarn_whole_pairs, n_ctx_train, overrides)?;
    let (expected, is_sound): (_, fn(f32) -> bool) = match scaling {
        // The logarithm of the base is a divisor in YaRN.
        RopeScaling::Yarn(_) => ("above 1 with YaRN", |base| base > 1.0 && base.is_finite()),
        RopeScaling::None | RopeScaling::Linear { .. } => ("above 0", |base| base > 0.0 && base.is_finite()),
    };
    let base = Number { what: "frequency base", key: "rope.freq_base", asked: overrides.base, expected, is_sound };
    let base = base.read(keys)?.unwrap_or(10_000.0);
    let dims = keys.count("rope.dimension_count", MAX_HEAD_DIM)?.unwrap_or(head_dim);
    if dims > head_dim || !dims.is_multiple_of(2) {
        return Err(keys.bad("rope.dimension_count", dims, format!("even and at most the {head_dim} of a head")));
    }
    Ok(Rope { base, dims, pairing: traits.rope_pairing, scaling })
}

fn scaling(keys: &Keys<'_>, whole_pairs: bool, n_ctx_train: u32, overrides: &RopeOverrides) -> Result<RopeScaling> {
    let of_file = keys.get_str("rope.scaling.type")?;
    let kind = match (overrides.scaling, of_file) {
        (Some(kind), _) => kind,
        (None, Some(name)) => RopeScalingKind::from_name(name)?,
        // A factor alone means linear scaling, in a file as well as from a caller.
        (None, None) if overrides.factor.is_some() || factor_of_file(keys)?.is_some() => RopeScalingKind::Linear,
        (None, None) => RopeScalingKind::None,
    };
    if let Some(what) = overrides.unused_with(kind) {
        return Err(Error::RopeNumberUnused { what, kind });
    }
    if kind == RopeScalingKind::None {
        return Ok(RopeScaling::None);
    }
    let Some(factor) = factor(keys, overrides.factor)? else {
        // Files without a factor have no scaling, whatever type they name.
        return if overrides.scaling.is_some() {
            Err(Error::RopeFactorMissing { kind })
        } else {
            Ok(RopeScaling::None)
        };
    };
    match kind {
        RopeScalingKind::Yarn => Ok(RopeScaling::Yarn(yarn(keys, (factor, whole_pairs), n_ctx_train, overrides)?)),
        _ if factor == 1.0 => Ok(RopeScaling::None),
        _ => Ok(RopeScaling::Linear { factor }),
    }
}

/// The factor of the scaling; `None` if neither the caller nor the file has one.
fn factor(keys: &Keys<'_>, asked: Option<f32>) -> Result<Option<f32>> {
    let of_file = factor_of_file(keys)?;
    // Files of other programs use 0 for no factor.
    if asked.is_none() && of_file.is_none_or(|(_, factor)| factor == 0.0) {
        return Ok(None);
    }
    let key = of_file.map_or("rope.scaling.factor", |(key, _)| key);
    let is_sound: fn(f32) -> bool = |factor| factor >= 1.0 && factor.is_finite();
    Number { what: "factor", key, asked, expected: "1 or above", is_sound }.read(keys)
}

/// The factor in the file and its key, of which there is an older one.
fn factor_of_file(keys: &Keys<'_>) -> Result<Option<(&'static str, f32)>> {
    for key in ["rope.scaling.factor", "rope.scale_linear"] {
        if let Some(factor) = keys.get_f32(key)? {
            return Ok(Some((key, factor)));
        }
    }
    Ok(None)
}

/// The numbers of YaRN. Those that nobody gives are llama.cpp's, which are those of the paper.
fn yarn(
    keys: &Keys<'_>,
    (factor, whole_pairs): (f32, bool),
    n_ctx_train: u32,
    overrides: &RopeOverrides,
) -> Result<Yarn> {
    const POSITIVE: (&str, fn(f32) -> bool) = ("above 0", |value| value > 0.0 && value.is_finite());
    const SHARE: (&str, fn(f32) -> bool) = ("from 0 to 1", |value| (0.0..=1.0).contains(&value));
    let read = |what, key, asked, (expected, is_sound), default| -> Result<f32> {
        Ok(Number { what, key, asked, expected, is_sound }.read(keys)?.unwrap_or(default))
    };
    // Two numbers that do not go together are the caller's fault if one of them is the caller's.
    let conflict = |is_asked, what, key, found, expected| {
        if is_asked { Error::RopeNumber { what, found, expected } } else { keys.bad(key, found, expected) }
    };
    let asked = overrides;
    let extrapolation = read("extrapolation factor", "rope.scaling.yarn_ext_factor", asked.extrapolation, SHARE, 1.0)?;
    let (what, key) = ("attention factor", "rope.scaling.attn_factor");
    let attention_factor = read(what, "rope.scaling.yarn_attn_factor", asked.attention_factor, POSITIVE, 1.0)?
        * read(what, key, None, POSITIVE, 1.0)?;
    if !POSITIVE.1(attention_factor) {
        let expected = "above 0 and finite, both factors together".to_owned();
        return Err(conflict(asked.attention_factor.is_some(), what, key, attention_factor, expected));
    }
    let (what, key) = ("fast beta", "rope.scaling.yarn_beta_fast");
    let beta_fast = read(what, key, asked.beta_fast, POSITIVE, 32.0)?;
    let beta_slow = read("slow beta", "rope.scaling.yarn_beta_slow", asked.beta_slow, POSITIVE, 1.0)?;
    if beta_fast <= beta_slow {
        let is_asked = asked.beta_fast.is_some() || asked.beta_slow.is_some();
        let expected = format!("above the slow beta, which is {beta_slow}");
        return Err(conflict(is_asked, what, key, beta_fast, expected));
    }
    let original_context = match asked.original_context {
        Some(positions) if (1..=MAX_CONTEXT).contains(&positions) => positions,
        Some(positions) => {
            let expected = format!("1 to {MAX_CONTEXT}");
            return Err(Error::RopeNumber { what: "original context", found: positions as f32, expected });
        }
        // Files of other programs use 0 for the context of the training.
        None => match keys.get_u32("rope.scaling.original_context_length")? {
            None | Some(0) => n_ctx_train,
            Some(_) => keys.require_count("rope.scaling.original_context_length", MAX_CONTEXT)?,
        },
    };
    Ok(Yarn { factor, original_context, extrapolation, attention_factor, beta_fast, beta_slow, whole_pairs })
}
