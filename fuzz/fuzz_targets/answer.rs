//! Answers of models: whatever they are cut into, their parts are the same.

#![no_main]

libfuzzer_sys::fuzz_target!(init: zinc_fuzz::seeds::write("answer"), |data| zinc_fuzz::answer::check(data));
