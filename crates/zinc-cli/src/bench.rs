//! Measuring models: what `zinc bench` does between its flags and its tables.
//!
//! [`plan`] says which tests there are and in which order, [`bandwidth`] measures the device's memory, [`measure`] runs the tests,
//! [`control`] is the host's say in them, [`profile`] times single operations, [`report`] makes rows of it, [`table`] tables
//! with [`notes`] below them. All of it drives the engine that `zinc run` drives.

pub(crate) mod bandwidth;
pub(crate) mod control;
pub(crate) mod measure;
pub(crate) mod notes;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod table;
