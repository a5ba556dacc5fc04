//! Any bytes, as an answer of any API: no panic, and the same events however they are cut.
//!
//! `cargo +nightly fuzz run decode fuzz/corpus crates/tiller-llm/tests/recordings` from the root.
//! The first byte chooses the API and the second the size of the chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tiller_llm::fuzzing::{APIS, listing};

fuzz_target!(|data: &[u8]| {
    let [api, chunk_bytes, bytes @ ..] = data else { return };
    let api = APIS[usize::from(*api) % APIS.len()];
    let whole = listing(api, bytes, bytes.len());
    assert_eq!(listing(api, bytes, usize::from(*chunk_bytes) + 1), whole);
});
