//! Recorded answers, decoded whole and in pieces, printed one line per event.

use std::path::Path;

pub(crate) use crate::listing::decode;
use expect_test::Expect;

use crate::stream::Decode;

/// Decodes a recording whole and then byte by byte; both must print the same.
pub(crate) fn check<D: Decode>(decoder: impl Fn() -> D, recording: &str, expect: Expect) {
    check_bytes(decoder, &bytes_of(recording), expect);
}

pub(crate) fn bytes_of(recording: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(recording);
    std::fs::read(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

pub(crate) fn check_bytes<D: Decode>(decoder: impl Fn() -> D, bytes: &[u8], expect: Expect) {
    let whole = decode(decoder(), bytes, bytes.len());
    assert_eq!(decode(decoder(), bytes, 1), whole, "byte by byte");
    assert_eq!(decode(decoder(), bytes, 7), whole, "seven at a time");
    expect.assert_eq(&whole);
    // A damaged recording may fail, but not panic.
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.to_vec();
        damaged[at] = b'1';
        decode(decoder(), &damaged, damaged.len());
    }
}
