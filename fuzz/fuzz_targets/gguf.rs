//! GGUF files: each is refused, or all that is read from it can be used.

#![no_main]

libfuzzer_sys::fuzz_target!(init: zinc_fuzz::seeds::write("gguf"), |data| zinc_fuzz::gguf::check(data));
