//! Measures the error of the token estimate with real tokenizers, on the kinds of texts that occur
//! in conversations.

use std::fmt::Write;

use expect_test::expect;
use tiktoken_rs::{cl100k_base, o200k_base};
use tiller_agent::tokens;

/// The estimate in percent of the tokenizers' counts. Below 100 it is too low.
#[test]
fn estimate_is_rarely_too_low() {
    let (older, newer) = (cl100k_base().unwrap(), o200k_base().unwrap());
    let mut table = String::new();
    for (name, text) in corpus() {
        let estimate = tokens::text(&text) as f64;
        let percent = |counted: usize| (estimate / counted as f64 * 100.0).round();
        let older = percent(older.encode_ordinary(&text).len());
        let newer = percent(newer.encode_ordinary(&text).len());
        writeln!(table, "{name:<12} cl100k {older:>4} %  o200k {newer:>4} %").unwrap();
    }
    expect![[r#"
        english      cl100k  115 %  o200k  116 %
        german       cl100k   92 %  o200k  107 %
        russian      cl100k  118 %  o200k  184 %
        chinese      cl100k  104 %  o200k  146 %
        japanese     cl100k  117 %  o200k  165 %
        korean       cl100k   98 %  o200k  151 %
        arabic       cl100k  116 %  o200k  255 %
        hindi        cl100k   75 %  o200k  223 %
        rust         cl100k  122 %  o200k  122 %
        javascript   cl100k  124 %  o200k  121 %
        json         cl100k  114 %  o200k  111 %
        log          cl100k  115 %  o200k  113 %
        markdown     cl100k  106 %  o200k  106 %
        emoji        cl100k   98 %  o200k  145 %
        base64       cl100k  101 %  o200k  106 %
        hex          cl100k  117 %  o200k  116 %
        digits       cl100k  100 %  o200k  100 %
        minified     cl100k  132 %  o200k  125 %
    "#]]
    .assert_eq(&table);
}

fn corpus() -> Vec<(&'static str, String)> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    vec![
        ("english", include_str!("corpus/english.txt").to_owned()),
        ("german", include_str!("corpus/german.txt").to_owned()),
        ("russian", include_str!("corpus/russian.txt").to_owned()),
        ("chinese", include_str!("corpus/chinese.txt").to_owned()),
        ("japanese", include_str!("corpus/japanese.txt").to_owned()),
        ("korean", include_str!("corpus/korean.txt").to_owned()),
        ("arabic", include_str!("corpus/arabic.txt").to_owned()),
        ("hindi", include_str!("corpus/hindi.txt").to_owned()),
        ("rust", include_str!("corpus/rust.txt").to_owned()),
        ("javascript", include_str!("corpus/javascript.txt").to_owned()),
        ("json", include_str!("corpus/json.txt").to_owned()),
        ("log", include_str!("corpus/log.txt").to_owned()),
        ("markdown", include_str!("corpus/markdown.txt").to_owned()),
        ("emoji", "🎉🚀 done ✅, 👍🏽 thanks 🙏 👨‍👩‍👧 ".repeat(20)),
        ("base64", random.string(4000, BASE64)),
        ("hex", random.string(4000, b"0123456789abcdef")),
        ("digits", random.string(4000, b"0123456789")),
        ("minified", include_str!("corpus/javascript.txt").split_whitespace().collect()),
    ]
}

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Reproducible.
struct Random(u64);

impl Random {
    fn string(&mut self, len: usize, of: &[u8]) -> String {
        let mut next = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        };
        (0..len).map(|_| of[(next() % of.len() as u64) as usize] as char).collect()
    }
}
