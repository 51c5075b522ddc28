//! How much of a large matrix of cases a test goes through.

/// Whether `ZINC_TEST_MATRIX=full` asks for whole matrices, as `cargo xtask full` does. Without the variable each test goes through the fixed
/// part that it names.
///
/// # Panics
/// If the variable holds anything else.
pub(crate) fn is_full() -> bool {
    match std::env::var("ZINC_TEST_MATRIX").as_deref() {
        Ok("full") => true,
        Ok(other) => panic!("ZINC_TEST_MATRIX={other}: only `full` is known"),
        Err(_) => false,
    }
}
