//! JSON schemas: each is refused, or what is written by it is JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        zinc_fuzz::seeds::write("schema");
        zinc_fuzz::grammar::let_panics_be_caught();
    },
    |data| zinc_fuzz::schema::check(data)
);
