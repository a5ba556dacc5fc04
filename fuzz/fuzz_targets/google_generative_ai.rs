//! Decodes any bytes as an answer of `google-generative-ai`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tiller_llm::fuzzing::check("google-generative-ai", bytes));
