//! Why a template cannot be compiled or rendered.

/// What went wrong, and in which line of the template.
#[derive(Debug)]
pub(in crate::template) struct Failure {
    pub(in crate::template) message: String,
    /// The line, counted from 1, once it is known.
    pub(in crate::template) line: Option<u32>,
}

pub(in crate::template) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None }
    }

    /// Sets the line, unless it is known already.
    pub(super) fn at(mut self, line: u32) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

/// A failure with this message.
pub(super) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::new(message))
}
