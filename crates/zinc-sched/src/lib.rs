//! The in-flight decode window: steps queued ahead on a timeline, the host following behind.
