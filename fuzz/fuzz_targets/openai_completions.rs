//! Decodes any bytes as an answer of `openai-completions`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tiller_llm::fuzzing::check("openai-completions", bytes));
