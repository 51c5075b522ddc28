//! Chat templates: each is refused, or renders a conversation or says why not.

#![no_main]

libfuzzer_sys::fuzz_target!(init: zinc_fuzz::seeds::write("template"), |data| zinc_fuzz::template::check(data));
