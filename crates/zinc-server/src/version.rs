//! Which zinc this is, for clients.

/// zinc's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What OpenAI's clients know the build of a server by.
pub(crate) const FINGERPRINT: &str = concat!("b-zinc-", env!("CARGO_PKG_VERSION"));
