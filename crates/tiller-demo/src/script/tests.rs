//! Scripts in, streams out.

use expect_test::{Expect, expect};
use tiller_agent::message::{Block, Message, ToolCall};
use tiller_agent::provider::{Provider, Request};

use super::parse::STEPS;
use super::testing::{assistant, printed, request, result, user};
use super::{Script, ScriptProvider};

/// Requests every answer of the script with the same request.
async fn play_all(script: &str, request: Request) -> String {
    let script = Script::parse(script).unwrap();
    let count = script.answers();
    let provider = ScriptProvider::new(script);
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(printed(provider.stream(request.clone())).await);
    }
    assert!(provider.unused().is_empty());
    out.join("--\n")
}

async fn check(script: &str, expected: Expect) {
    expected.assert_eq(&play_all(script, request(vec![user("hi")])).await);
}

/// Each line is a script with a syntax error.
fn check_errors(scripts: &str, expected: Expect) {
    let scripts = scripts.lines().map(str::trim).filter(|line| !line.is_empty());
    let errors = scripts.map(|script| {
        let error = Script::parse(&script.replace("\\n", "\n")).unwrap_err();
        format!("{script}\n    {error}\n")
    });
    expected.assert_eq(&errors.collect::<String>());
}

#[tokio::test]
async fn answers_are_played_in_order() {
    check(
        "# The model looks first.\n\
         think I should look.\n\
         sign sig-1\n\
         say Let me look.\n\
         call ls {}\n\
         call read id=r1 {\"path\": \"a.txt\"}\n\
         \n\
         \n\
         # Then it answers.\n\
         say \"Some notes.\\n\"\n",
        expect![[r#"
            start
            0 thinking "I should look." end signed sig-1
            1 text "Let me look." end
            2 call ls call_1 "{}" end
            3 call read r1 "{\"path\": \"a.txt\"}" end
            done ToolUse
            --
            start
            0 text "Some notes.\n" end
            done Stop
        "#]],
    )
    .await;
}

#[tokio::test]
async fn explicit_deltas_are_kept() {
    check(
        "say Hel\ndelta lo\ndelta \" world\"\n\
         \nchunk 3\nsay abcdefgh\n\
         \nchunk words\nthink one two three\n\
         \nchunk off\ncall read\ndelta {\"pa\ndelta th\": \"a.tx\n\
         \nrepeat 3 \"tok{i} \"\n\
         \nsay\n\
         \nstop\n",
        expect![[r#"
            start
            0 text "Hel" "lo" " world" end
            done Stop
            --
            start
            0 text "abc" "def" "gh" end
            done Stop
            --
            start
            0 thinking "one" " two" " three" end
            done Stop
            --
            start
            0 call read call_1 "{\"pa" "th\": \"a.tx" end
            done ToolUse
            --
            start
            0 text "tok1 " "tok2 " "tok3 " end
            done Stop
            --
            start
            0 text end
            done Stop
            --
            start
            done Stop
        "#]],
    )
    .await;
}

#[tokio::test]
async fn several_blocks_can_be_open_at_once() {
    check(
        "hold\n\
         call read\n\
         call read\n\
         delta[0] {\"path\":\n\
         delta[1] {\"path\":\n\
         delta[0] \"\\\"a\\\"}\"\n\
         close[0]\n\
         delta \"\\\"b\\\"}\"\n\
         sign[1] s\n\
         \n\
         redacted opaque\n\
         say Done.\n",
        expect![[r#"
            start
            0 call read call_1
            1 call read call_2
            "{\"path\":"
            "{\"path\":"
            "\"a\"}" end
            "\"b\"}" end signed s
            done ToolUse
            --
            start
            0 thinking end redacted signed opaque
            1 text "Done." end
            done Stop
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_answer_can_fail_anywhere() {
    check(
        "error retry after=1.5s 529 overloaded\n\
         \nstart\nerror retry\n\
         \nsay Half a sen\nerror overflow \"too long \"\n\
         \nerror auth who are you\n\
         \nerror fatal no\n\
         \nsay Half\ncut\n\
         \ncut\n",
        expect![[r#"
            error Retry { message: "529 overloaded", after: Some(1.5s) }
            --
            start
            error Retry { message: "scripted retry error", after: None }
            --
            start
            0 text "Half a sen"
            error Overflow { message: "too long " }
            --
            error Auth { message: "who are you" }
            --
            error Fatal { message: "no" }
            --
            start
            0 text "Half"
            --
        "#]],
    )
    .await;
}

#[tokio::test]
async fn usage_and_stop_reasons() {
    check(
        "response-id msg_1\n\
         response-model other\n\
         usage input=10 cache-read=3 cache-write=4\n\
         say ok\n\
         usage input=10 output=5 cache-read=3 cache-write=4\n\
         stop length raw=max_tokens\n\
         \n\
         usage output=1 total=99\n\
         call ls\n\
         stop stop\n\
         \n\
         stop error raw=refusal\n",
        expect![[r#"
            start
            response id msg_1
            response model other
            usage 10 0 cached 3 4 total 17
            0 text "ok"
            usage 10 5 cached 3 4 total 22
            end
            done Length max_tokens
            --
            start
            usage 0 1 cached 0 0 total 99
            0 call ls call_1 end
            done Stop
            --
            start
            done Error refusal
        "#]],
    )
    .await;
}

#[test]
fn syntax_errors_name_their_line() {
    check_errors(
        r#"
        say a\n\n# b\nsya c
        shout
        expext user
        say "a" b
        call
        call {}
        call ls {"a":}
        call ls [1]
        delta
        delta[1] x
        say a\nsay b\ndelta[0] x
        delta[x] x
        delta[0 x
        say[0] x
        sign x
        repeat many x
        wait 5
        wait 1.2.3s
        wait 99999999999999999999999s
        chunk 0
        usage inptu=1
        usage input=-1
        usage 12
        stop now
        error later x
        error fatal after=1s x
        expect uesr hi
        expect user[1] hi
        expect user has
        hang now
        stop\nsay more
        "#,
        expect![[r#"
            say a\n\n# b\nsya c
                line 4: unknown step "sya"; did you mean "say"?
            shout
                line 1: unknown step "shout"
            expext user
                line 1: unknown step "expext"; did you mean "expect"?
            say "a" b
                line 1: a text that begins with a quote must be one JSON string (trailing characters at line 1 column 5)
            call
                line 1: call wants the name of a tool
            call {}
                line 1: call wants the name of a tool
            call ls {"a":}
                line 1: the arguments of ls are not a JSON object (expected value at line 1 column 6); to send them broken, use delta lines
            call ls [1]
                line 1: the arguments of ls are not a JSON object (invalid type: sequence, expected a map at line 1 column 0); to send them broken, use delta lines
            delta
                line 1: "delta" wants a text
            delta[1] x
                line 1: "delta": block 1 is not open
            say a\nsay b\ndelta[0] x
                line 3: "delta": block 0 is not open
            delta[x] x
                line 1: "x" is not the number of a block
            delta[0 x
                line 1: "delta[0": the bracket is not closed
            say[0] x
                line 1: "say" takes no [0]
            sign x
                line 1: "sign": no block is open; begin one with say, think or call
            repeat many x
                line 1: repeat wants a count and a text, not "many"
            wait 5
                line 1: a time is written 500ms, 1.5s or 2m, not "5"
            wait 1.2.3s
                line 1: "1.2.3" is not a number
            wait 99999999999999999999999s
                line 1: 99999999999999999999999s is too long
            chunk 0
                line 1: chunk wants a number of characters, words or off, not "0"
            usage inptu=1
                line 1: unknown usage "inptu"; did you mean "input"?
            usage input=-1
                line 1: usage input: "-1" is not a whole number
            usage 12
                line 1: usage wants key=number, not "12"
            stop now
                line 1: unknown stop reason "now"
            error later x
                line 1: unknown error "later"
            error fatal after=1s x
                line 1: only error retry takes after=, not error fatal
            expect uesr hi
                line 1: unknown expectation "uesr"; did you mean "user"?
            expect user[1] hi
                line 1: "user[1]": only tool-result and tool-error can name a call
            expect user has
                line 1: "has" wants a text
            hang now
                line 1: "hang" stands alone, without "now"
            stop\nsay more
                line 2: "say" cannot follow: the answer is over; a blank line begins the next
        "#]],
    );
}

#[test]
fn line_ends_and_byte_order_marks_are_accepted() {
    assert_eq!(Script::parse("").unwrap().answers(), 0);
    assert_eq!(Script::parse("\u{feff}say a\r\n\r\n  say b\r\n\r\n# end").unwrap().answers(), 2);
    // Settings and comments are not answers.
    assert_eq!(Script::parse("chunk 4\npace 10ms\n\n# one\n\nsay a\n").unwrap().answers(), 1);
    // Lines copied from a transcript may keep their continuation mark.
    assert_eq!(Script::parse("say a \\\nsay b\n").unwrap().answers(), 1);
    assert_eq!(Script::parse("say C:\\\n").unwrap().answers(), 1);
}

#[tokio::test]
async fn expectations_check_the_request() {
    let call = Block::ToolCall(ToolCall {
        id: "c1".into(),
        name: "read".into(),
        arguments: Default::default(),
        arguments_error: None,
        thought_signature: None,
    });
    let messages = vec![
        Message::user("look at this", vec![Block::image("AA==", "image/png")], 0),
        assistant(vec![Block::text("Looking."), call]),
        result("c1", "read", "alpha\n", false),
        result("c2", "bash", "boom", true),
    ];
    let script = "
expect system Be brief.
expect system has brief
expect system lacks long
expect user look at this
expect images 1
expect assistant has Looking
expect tool-result boom
expect tool-result[c1] \"alpha\\n\"
expect tool-error boom
expect tools read bash
expect tools lacks rea
expect roles user assistant toolResult toolResult
expect thinking medium
say fine

expect user look at that

expect system has long

expect system lacks brief

expect tool-error[c1] alpha

expect tool-result[c9] has alpha

expect tools has write

say So
expect user
";
    let played = play_all(script, request(messages)).await;
    expect![[r#"
        start
        0 text "fine" end
        done Stop
        --
        error Fatal { message: "script: line 17: expected user \"look at that\", but the model was shown \"look at this\"" }
        --
        error Fatal { message: "script: line 19: expected system to have \"long\", but the model was shown \"Be brief.\"" }
        --
        error Fatal { message: "script: line 21: expected system to lack \"brief\", but the model was shown \"Be brief.\"" }
        --
        error Fatal { message: "script: line 23: expected tool-error[c1] \"alpha\", but the tool gave \"alpha\\n\"" }
        --
        error Fatal { message: "script: line 25: expected tool-result[c9] to have \"alpha\", but there is no such tool result" }
        --
        error Fatal { message: "script: line 27: expected tools to have \"write\", but the model was shown \"read bash\"" }
        --
        start
        0 text "So"
        error Fatal { message: "script: line 30: expected user \"\", but the model was shown \"look at this\"" }
    "#]]
    .assert_eq(&played);
}

#[test]
fn examples_in_the_documentation_parse() {
    let manual = include_str!("../../../../docs/script-format.md");
    for word in STEPS.split(' ') {
        assert!(manual.contains(&format!("`{word}")), "{word} is not explained");
    }
    let mut answers = 0;
    for example in manual.split("```script\n").skip(1) {
        let example = example.split("```").next().unwrap_or_default();
        match Script::parse(example) {
            Ok(script) => answers += script.answers(),
            Err(error) => panic!("{error} in\n{example}"),
        }
    }
    assert!(answers > 12, "only {answers} answers");
}
