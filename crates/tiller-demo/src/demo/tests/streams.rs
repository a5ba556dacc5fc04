//! Streams, limits and requests that are no questions.

use super::*;

#[tokio::test]
async fn an_answer_streams_word_by_word() {
    let first = Request { system: "Be brief.".into(), ..request(vec![user("what is in src?")]) };
    expect![[r#"
        start
        usage 10 0 cached 0 0 total 10
        0 thinking "They" " want" " to" " know" " what" " is" " in" " `src`." " I" " will" " look." end
        1 text "I" " will" " run" " `ls" " -1Ap" " src`." end
        2 call bash demo_1 "{\"command\":\"ls" " -1Ap" " src\"}" end
        usage 10 27 cached 0 0 total 37
        done ToolUse
    "#]].assert_eq(&printed(Demo::default().stream(first.clone())).await);
    let silent = Request { thinking: ThinkingLevel::Off, ..first };
    expect![[r#"
        start
        usage 10 0 cached 0 0 total 10
        0 text "I" " will" " run" " `ls" " -1Ap" " src`." end
        1 call bash demo_1 "{\"command\":\"ls" " -1Ap" " src\"}" end
        usage 10 15 cached 0 0 total 25
        done ToolUse
    "#]]
    .assert_eq(&printed(Demo::default().stream(silent)).await);
}

#[tokio::test(start_paused = true)]
async fn words_are_delayed_by_the_pace() {
    let began = Instant::now();
    let demo = Demo::new(Duration::from_millis(30));
    let mut deltas = 0;
    let mut stream = demo.stream(request(vec![user("count to 100")]));
    while let Some(event) = stream.next().await {
        let delta = matches!(
            event.unwrap(),
            StreamEvent::TextDelta { .. } | StreamEvent::ThinkingDelta { .. }
        );
        deltas += u32::from(delta);
    }
    assert!(deltas > 100);
    assert_eq!(began.elapsed(), Duration::from_millis(30) * deltas);
}

#[tokio::test]
async fn too_long_conversation_is_an_overflow() {
    let long = "word ".repeat(200_000);
    let items: Vec<_> = Demo::default().stream(request(vec![user(&long)])).collect().await;
    assert!(matches!(&items[..], [Err(ProviderError::Overflow { .. })]), "{items:?}");
}

#[tokio::test]
async fn compaction_request_gets_a_summary() {
    let text = "<conversation>\n[User]: read a.txt\n\n[Assistant tool calls]: read(path=\"a.txt\")\n\n\
                [Tool result]: x\n\n[User]: now fix it\n</conversation>\n\n\
                <previous-summary>\nIt began well.\n</previous-summary>\n\nSummarise.";
    let request = Request { tools: [].into(), ..request(vec![user(text)]) };
    let (blocks, _) = ask(request).await;
    let [Block::Text { text, .. }] = &blocks[..] else { panic!("{blocks:?}") };
    expect![[r###"
        ## Goal
        - read a.txt
        - now fix it

        ## Progress
        ### Done
        - read(path="a.txt")

        ## Next Steps
        - now fix it

        ## Critical Context
        It began well."###]]
    .assert_eq(text);
}

#[tokio::test]
async fn extension_message_does_not_hide_the_question() {
    let custom = Message::Custom(CustomMessage {
        custom_type: "note".into(),
        content: Content::Text("count to 3".into()),
        display: true,
        details: None,
        timestamp: 0,
    });
    let (blocks, _) = ask(request(vec![user("count to 2"), custom.clone()])).await;
    assert_eq!(blocks, [Block::text("1, 2.")]);
    let answered = vec![user("hi"), assistant(vec![Block::text("Hello")]), custom];
    let (blocks, _) = ask(request(answered)).await;
    assert_eq!(blocks, [Block::text("1, 2, 3.")]);
}

#[tokio::test]
async fn host_tool_gets_arguments() {
    let mut world = world(&[]);
    world.tools.push(ToolSpec {
        name: "book".into(),
        description: String::new(),
        parameters: json!({
            "type": "object",
            "properties": {
                "city": { "type": "string" },
                "nights": { "type": "integer" },
                "class": { "enum": ["first", "second"] },
                "note": { "type": "string" },
            },
            "required": ["city", "nights", "class"],
        }),
    });
    let (_, calls) = ask(world.request(&[user("use the book tool for Paris 3")])).await;
    assert_eq!(
        serde_json::to_string(&calls[0].arguments).unwrap(),
        r#"{"city":"Paris 3","nights":3,"class":"first"}"#
    );
}

#[tokio::test]
async fn images_are_mentioned() {
    let message = Message::user("", vec![Block::image("AAAA", "image/png")], 0);
    let (blocks, _) = ask(request(vec![message])).await;
    let [Block::Text { text, .. }] = &blocks[..] else { panic!("{blocks:?}") };
    assert!(text.starts_with("I got 1 image"), "{text}");
}

/// Any input gets an answer, and the same one twice.
#[tokio::test]
async fn any_input_gets_an_answer() {
    const WORDS: &[&str] = &[
        "read",
        "write",
        "replace",
        "with",
        "in",
        "to",
        "it",
        "a.txt",
        "`x y`",
        "\"q\"",
        "'",
        "\"",
        "{",
        "{\"a\":1}",
        "what's",
        "is",
        "this",
        "folder",
        "for",
        "search",
        "find",
        "use",
        "bash",
        "the",
        "and",
        "then",
        ".",
        "..",
        ":",
        "?",
        "日本",
        "run",
        "create",
        "called",
        "file",
        "12",
        "+",
        "(",
        ")",
        "\n",
        "of",
        "list",
        "named",
        "containing",
        "```",
        "**",
        "where",
        "count",
    ];
    let world = world(&ALL_TOOLS);
    let mut seed: u64 = 7;
    for _ in 0..500 {
        let mut text = String::new();
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize
        };
        for _ in 0..1 + next() % 7 {
            text.push_str(WORDS[next() % WORDS.len()]);
            text.push_str([" ", "", ", "][next() % 3]);
        }
        let first = ask(world.request(&[user(&text)])).await;
        assert!(!first.0.is_empty(), "{text}");
        assert_eq!(first, ask(world.request(&[user(&text)])).await);
    }
}
