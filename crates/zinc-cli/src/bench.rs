//! Measures models: the part of `zinc bench` between its flags and its tables.
//!
//! [`plan`] says which tests there are and in which order, [`bandwidth`] measures the device's memory, [`measure`] runs the tests of one
//! sequence, [`parallel`], [`arrivals`] and [`late_prompt`] those of several,
//! [`control`] has the constraint and the sampler that the host uses in them, [`profile`] times single operations, [`report`] makes rows of
//! the results, [`table`] prints rows as tables, and [`notes`] are printed below. All tests use the engine that `zinc run` uses.

pub(crate) mod arrivals;
pub(crate) mod bandwidth;
pub(crate) mod control;
pub(crate) mod late_prompt;
pub(crate) mod measure;
pub(crate) mod notes;
pub(crate) mod parallel;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod spread;
pub(crate) mod table;
pub(crate) mod warm_up;
