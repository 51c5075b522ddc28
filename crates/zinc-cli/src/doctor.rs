//! Reports what a device is, what it costs to keep it busy, and what zinc decides from both.
//!
//! [`probe`], [`costs`], [`seam`] and [`units`] measure. [`report`] puts facts and measurements together, [`advice`] draws the conclusions, and [`text`]
//! writes them down; these three touch no device.

mod advice;
pub(crate) mod costs;
mod estimate;
mod probe;
pub(crate) mod report;
pub(crate) mod seam;
mod text;
pub(crate) mod units;

#[cfg(test)]
#[path = "../../zinc-vk/tests/recorded/mod.rs"]
#[allow(dead_code, reason = "shared with zinc-vk's tests, which look at more devices")]
mod recorded;

pub(crate) use probe::Probe;
