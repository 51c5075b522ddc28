//! Values that may be dropped or used again only after a point: ranges of staging memory, slots of a ring, pages of a cache.
//!
//! Buffers, pipelines and recordings need none of this, because a submission in flight keeps them alive. [`Retire`] is for parts of
//! them, which nothing keeps.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::timeline::{TimelineId, TimelinePoint};

/// Values of type `T`, each with the point after which it is free.
///
/// All points belong to one timeline and are pushed in order, so what is free is a prefix and is found by one comparison.
/// Dropping waits for the last point first; values whose point then still is not complete are leaked rather than dropped.
#[derive(Debug)]
pub struct Retire<T> {
    held: VecDeque<(TimelinePoint, T)>,
    last: Option<(TimelineId, u64)>,
}

impl<T> Retire<T> {
    /// Makes a list that holds nothing.
    pub fn new() -> Self {
        Self { held: VecDeque::new(), last: None }
    }

    /// Holds `value` until `point` is complete.
    ///
    /// # Panics
    /// If the point belongs to another timeline than earlier ones or lies before the last one.
    pub fn push(&mut self, point: TimelinePoint, value: T) {
        let next = (point.timeline().id(), point.value());
        if let Some(last) = self.last {
            assert!(next.0 == last.0, "{point:?} belongs to another timeline than the points held");
            assert!(next.1 >= last.1, "{point:?} lies before the last point held, {}", last.1);
        }
        self.last = Some(next);
        self.held.push_back((point, value));
    }

    /// Drops the values whose points are complete; returns how many.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn collect(&mut self) -> Result<usize> {
        let Some((newest, _)) = self.held.back() else {
            return Ok(0);
        };
        let completed = newest.timeline().completed()?;
        let free = self.held.partition_point(|(point, _)| point.value() <= completed);
        self.held.drain(..free);
        Ok(free)
    }

    /// Takes the oldest value if its point is complete.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn pop(&mut self) -> Result<Option<T>> {
        match self.held.front() {
            Some((point, _)) if point.is_complete()? => Ok(self.held.pop_front().map(|(_, value)| value)),
            _ => Ok(None),
        }
    }

    /// Takes the oldest value, waiting for its point. `None` if nothing is held.
    ///
    /// # Errors
    /// The errors of [`Timeline::wait`](crate::Timeline::wait); the value stays held.
    pub fn wait_pop(&mut self) -> Result<Option<T>> {
        let Some((point, _)) = self.held.front() else {
            return Ok(None);
        };
        point.wait()?;
        Ok(self.held.pop_front().map(|(_, value)| value))
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl<T> Default for Retire<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Retire<T> {
    fn drop(&mut self) {
        let Some((newest, _)) = self.held.back() else {
            return;
        };
        match newest.wait() {
            // A lost device uses nothing any more.
            Ok(()) | Err(Error::DeviceLost { .. }) => {}
            Err(error) => {
                tracing::error!("{} retired values are leaked: {error}", self.held.len());
                std::mem::forget(std::mem::take(&mut self.held));
            }
        }
    }
}
