//! Grammars of llama.cpp: each is refused, or texts can be written by it.

#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        zinc_fuzz::seeds::write("gbnf");
        zinc_fuzz::grammar::let_panics_be_caught();
    },
    |data| zinc_fuzz::gbnf::check(data)
);
