use std::fs;

use expect_test::expect_file;
use serde_json::{Value, json};

use super::*;

const SESSION: &str = include_str!("../tests/sample/session.jsonl");

fn page(session: &str, secrets: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tides.jsonl");
    fs::write(&file, session).unwrap();
    let export = Export {
        source: ExportSource::File(file),
        to: dir.path().join("page.html"),
        secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(),
        windows: HashMap::from([("openai/gpt-5.5".to_owned(), 8000)]),
        setting: Some(Setting {
            system: "Be <kind>, not sk-secret-1".into(),
            tools: [ToolSpec {
                name: "ls".into(),
                description: "List a <folder>.".into(),
                parameters: json!({"type": "object", "description": "</script>"}),
            }]
            .into(),
        }),
    };
    export.run().unwrap();
    fs::read_to_string(export.to).unwrap()
}

fn between<'p>(page: &'p str, from: &str, to: &str) -> &'p str {
    let (_, rest) = page.split_once(from).unwrap();
    rest.split_once(to).unwrap().0
}

/// The rendered conversation, without charts.
#[test]
fn a_conversation_is_drawn() {
    let page = page(SESSION, &["sk-secret-1"]);
    let body = between(&page, "<header id=\"top\">\n", "</main>");
    let body = body.split("data:image/png;base64,").enumerate().map(|(at, part)| {
        match part.split_once('"') {
            Some((_, rest)) if at > 0 => format!("…\"{rest}"),
            _ => part.to_owned(),
        }
    });
    expect_file!["../tests/sample/body.html"].assert_eq(&body.collect::<String>());
}

#[test]
fn the_tree_is_data() {
    let page = page(SESSION, &[]);
    let tree: Value = serde_json::from_str(between(&page, "id=\"tree\">", "</script>")).unwrap();
    let lines: Vec<String> = tree.as_array().unwrap().iter().map(Value::to_string).collect();
    expect_test::expect![[r#"
        ["a0000111",0,"m","anthropic/claude-opus-4-8"]
        ["a0000222",0,"n","Thinking medium"]
        ["a0000333",0,"n","Name Tide tables that do not lie"]
        ["a0000444",0,"u","The tide tables are an hour off since Sunday. Can you find out why? The port is…"]
        ["a0000555",0,"a","An hour since Sunday smells like the end of summer time. Let me look at how the…"]
        ["a0000666",0,"t","bash git log --oneline -5 -- src/tide.rs && wc -l src/tide.rs"]
        ["a0000777",0,"t","read src/tide.rs"]
        ["a0000888",0,"a","There it is. next adds the port's offset before it asks the harmonics: let local…"]
        ["a0000999",1,"u","Just subtract an hour in winter, I am in a hurry."]
        ["a0000aaa",1,"a","That would work until March and break again then. Here is the smallest change th…"]
        ["a0000bbb",0,"u","Yes, the first. And add a test for both sides of the change, please.","the fix"]
        ["a0000ccc",0,"n","Label the fix"]
        ["a0000ddd",0,"a","Then the two lines go, and a test comes that looks at both sides of the night."]
        ["a0000eee",0,"t","edit src/tide.rs"]
        ["a0000fff",0,"t","write tests/clocks.rs"]
        ["a0001110",0,"A","→ bash"]
        ["a0001221",0,"t","bash cargo test --test clocks 2>&1 | tail -n 20",null,1]
        ["a0001332",0,"s","Compaction: Goal The tide table for Brest is an hour off since the clocks went b…"]
        ["a0001443",0,"m","openai/gpt-5.5"]
        ["a0001554",0,"a","Half a minute: the almanac rounds to minutes and we do not. The test should comp…"]
        ["a0001665",0,"t","tide_almanac Brest 2026-10-25 minute"]
        ["a0001776",0,"b","$ cargo test --test clocks"]
        ["a0001887",0,"a","Green on both sides of the night: - [x] the offset is out of tide::next - [x] th…","green"]
        ["a0001998",0,"u","Lovely. What does the curve look like now?"]
        ["a0001aa9",0,"a","Smooth across the change. High water moves on by about 49 minutes a day, as it s…"]
        ["a0001bba",0,"n","Label green"]"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn the_page_may_only_run_its_own_scripts() {
    let page = page(SESSION, &[]);
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\">");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    // Nothing of it is fetched, and no style stands where the policy would refuse it.
    for word in [" src=\"http", "@import", "url(", " style=\"", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn secrets_are_in_no_part_of_the_page() {
    let secret = "Brest";
    let text = SESSION.replace(secret, "the \\\"secret\\\" harbour");
    let page = page(&text, &["the \"secret\" harbour", "/home/ada/harbour", "Tide tables"]);
    let text = between(&page, "<title>", "<script type=\"text/plain\" id=\"jsonl\"");
    for word in ["secret&quot; harbour", "/home/ada/harbour", "Tide tables"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.starts_with("[redacted] that do not lie</title>"));
    assert!(text.contains("The port is [redacted], the code"));
    let jsonl = unpacked(between(&page, "id=\"jsonl\" data-name=\"tides.jsonl\">", "</script>"));
    assert_eq!(jsonl.lines().count(), SESSION.lines().count());
    assert!(!jsonl.contains("secret") && jsonl.contains("The port is [redacted]"));
    assert!(jsonl.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

fn unpacked(packed: &str) -> String {
    use std::io::Read;

    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    let mut text = String::new();
    flate2::read::DeflateDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    text
}

/// Files of other programs, and files that something happened to.
#[test]
fn odd_entries_are_shown_as_they_are() {
    let header = SESSION.lines().next().unwrap();
    let lines = [
        header,
        r#"{"type":"message","id":"1","parentId":null,"timestamp":"t","message":{"role":"user","content":"old text"}}"#,
        r#"{"type":"message","id":"2","parentId":"1","timestamp":7,"message":{"role":"assistant","content":[{"type":"hologram"}]}}"#,
        r#"{"type":"message","id":"3","parentId":"2","message":{"role":"assistant","content":[],"usage":{"input":18446744073709551615,"output":18446744073709551615,"cacheRead":18446744073709551615},"provider":"p","model":"m","api":"a","stopReason":"error","errorMessage":"<no>","timestamp":1}}"#,
        r#"{"type":"message","id":"4","parentId":"3","message":{"role":"assistant","content":[],"usage":{"input":18446744073709551615,"output":5},"provider":"p","model":"m","api":"a","stopReason":"aborted","timestamp":1}}"#,
        r#"{"type":"weather","id":"5","parentId":"4","wind":"<strong>"}"#,
        r#"{"type":"message","id":"6","parentId":"nobody","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"toolResult"}}"#,
        r#"{"type":"message","id":"7","parentId":"5","message":{"role":"user","content":[{"type":"text","te"#,
    ];
    let page = page(&lines.join("\n"), &[]);
    let body = between(
        &page,
        "<main id=\"log\" tabindex=\"-1\" aria-label=\"Conversation\">\n",
        "</main>",
    );
    expect_test::expect![[r##"
        <details class="branch"><summary>Another branch<span class="aside">5 entries</span><span class="first">message</span></summary>
        <article class="e user" id="entry-1"><header><h2>message</h2><a class="at" href="#entry-1" title="Link to this entry">#</a></header><details class="fold"><summary>Data</summary><pre class="code"><code>{
          <span class="s">&quot;type&quot;</span>: <span class="s">&quot;message&quot;</span>,
          <span class="s">&quot;id&quot;</span>: <span class="s">&quot;1&quot;</span>,
          <span class="s">&quot;parentId&quot;</span>: <span class="k">null</span>,
          <span class="s">&quot;timestamp&quot;</span>: <span class="s">&quot;t&quot;</span>,
          <span class="s">&quot;message&quot;</span>: {
            <span class="s">&quot;role&quot;</span>: <span class="s">&quot;user&quot;</span>,
            <span class="s">&quot;content&quot;</span>: <span class="s">&quot;old text&quot;</span>
          }
        }</code></pre></details></article>
        <article class="e note" id="entry-2"><header><h2>damaged</h2><span class="aside">This line of the session file cannot be read.</span><a class="at" href="#entry-2" title="Link to this entry">#</a></header><details class="fold"><summary>Data</summary><pre class="code"><code>{
          <span class="s">&quot;type&quot;</span>: <span class="s">&quot;message&quot;</span>,
          <span class="s">&quot;id&quot;</span>: <span class="s">&quot;2&quot;</span>,
          <span class="s">&quot;parentId&quot;</span>: <span class="s">&quot;1&quot;</span>,
          <span class="s">&quot;timestamp&quot;</span>: <span class="n">7</span>,
          <span class="s">&quot;message&quot;</span>: {
            <span class="s">&quot;role&quot;</span>: <span class="s">&quot;assistant&quot;</span>,
            <span class="s">&quot;content&quot;</span>: [
              {
                <span class="s">&quot;type&quot;</span>: <span class="s">&quot;hologram&quot;</span>
              }
            ]
          }
        }</code></pre></details></article>
        <article class="e answer err" id="entry-3"><header><h2>Assistant</h2><span class="aside">m · ↑18446744074G ↓18446744074G</span><a class="at" href="#entry-3" title="Link to this entry">#</a></header><p class="error">&lt;no&gt;</p></article>
        <article class="e answer" id="entry-4"><header><h2>Assistant</h2><span class="aside">m · ↑18446744074G ↓5</span><a class="at" href="#entry-4" title="Link to this entry">#</a></header><p class="error">Aborted</p></article>
        <article class="e note" id="entry-5"><header><h2>weather</h2><a class="at" href="#entry-5" title="Link to this entry">#</a></header><details class="fold"><summary>Data</summary><pre class="code"><code>{
          <span class="s">&quot;type&quot;</span>: <span class="s">&quot;weather&quot;</span>,
          <span class="s">&quot;id&quot;</span>: <span class="s">&quot;5&quot;</span>,
          <span class="s">&quot;parentId&quot;</span>: <span class="s">&quot;4&quot;</span>,
          <span class="s">&quot;wind&quot;</span>: <span class="s">&quot;&lt;strong&gt;&quot;</span>
        }</code></pre></details></article>
        </details>
        <article class="e tool" id="entry-6"><header><h2>message</h2><a class="at" href="#entry-6" title="Link to this entry"><time datetime="2026-01-01T00:00:00.000Z">00:00</time></a></header><details class="fold"><summary>Data</summary><pre class="code"><code>{
          <span class="s">&quot;type&quot;</span>: <span class="s">&quot;message&quot;</span>,
          <span class="s">&quot;id&quot;</span>: <span class="s">&quot;6&quot;</span>,
          <span class="s">&quot;parentId&quot;</span>: <span class="s">&quot;nobody&quot;</span>,
          <span class="s">&quot;timestamp&quot;</span>: <span class="s">&quot;2026-01-01T00:00:00.000Z&quot;</span>,
          <span class="s">&quot;message&quot;</span>: {
            <span class="s">&quot;role&quot;</span>: <span class="s">&quot;toolResult&quot;</span>
          }
        }</code></pre></details></article>

    "##]].assert_eq(body);
}

#[test]
fn a_skill_that_was_called_is_folded() {
    let header = SESSION.lines().next().unwrap();
    let said = "<skill name=\"demo\" location=\"/x/SKILL.md\">\nReferences.\n\n# Demo\n</skill>\n\nwith care";
    let entry = json!({"type": "message", "id": "1", "parentId": null, "timestamp": "",
        "message": {"role": "user", "content": [{"type": "text", "text": said}], "timestamp": 1}});
    let page = page(&format!("{header}\n{entry}\n"), &[]);
    let body = between(&page, "</header><details", "</article>");
    expect_test::expect![[r#"
         class="fold"><summary>Skill demo</summary><div class="md" dir="auto"><p>References.</p>
        <h3>Demo</h3>
        </div></details><div class="md" dir="auto"><p>with care</p>
        </div>"#]]
    .assert_eq(body);
    assert!(page.contains(r#"["1",0,"u","demo: with care"]"#));
}

#[test]
fn a_page_is_not_written_over_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tides.jsonl");
    fs::write(&file, SESSION).unwrap();
    let export = Export {
        source: ExportSource::File(file.clone()),
        to: file.clone(),
        secrets: Vec::new(),
        windows: HashMap::new(),
        setting: None,
    };
    assert!(export.run().unwrap_err().contains("it is the session itself"));
    assert_eq!(fs::read_to_string(file).unwrap(), SESSION);
}
