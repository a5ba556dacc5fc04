//! The example, and the page that shows it.

use crate::support::{Place, bounded};

#[path = "../../../tiller-client/examples/host.rs"]
#[expect(dead_code, reason = "its main function is not called")]
mod host;

#[test]
fn example_calls_its_tool_and_prints_the_answer() {
    let place = Place::new();
    let script = "call depth {\"name\": \"Ystad\"}\n\nexpect tool-result \"Ystad: 12 m\"\n\
                  say It is deep enough.\nusage input=10 output=3\n";
    let mut out = Vec::new();
    bounded(host::run(place.scripted(script), "How deep?", &mut out)).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, "\n[depth]\nIt is deep enough.\n2 turns, 13 tokens\n");
}

#[test]
fn example_runs_with_the_demo_model() {
    let place = Place::new();
    place.write("work/rudder.txt", "port");
    let mut out = Vec::new();
    let builder = place.builder().model("tiller/demo");
    bounded(host::run(builder, "What is in this folder?", &mut out)).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("rudder.txt"), "{text}");
}

#[test]
fn page_shows_the_example() {
    let page = include_str!("../../../../docs/hosts/rust.md");
    let example = include_str!("../../../tiller-client/examples/host.rs");
    assert!(
        page.contains(&format!("```rust\n{example}```\n")),
        "copy host.rs to docs/hosts/rust.md"
    );
}
