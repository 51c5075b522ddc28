//! Measuring models: what `zinc bench` does between its flags and its tables.
//!
//! [`plan`] says which tests there are and in which order, [`measure`] runs them, [`profile`] times single operations, [`report`] makes
//! rows and tables of it. All of it drives the engine that `zinc run` drives.

pub(crate) mod measure;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod report;
