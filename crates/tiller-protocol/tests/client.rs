//! What a client in Rust does with the types: it writes commands and parses records.

use tiller_protocol::{
    Bash, COMMANDS, Command, Disposition, DispositionData, EVENTS, ExtensionUiResponse, Image,
    Prompt, Record, Step, UiAnswer, WhenBusy,
};

fn parse(line: &str) -> Record<'static> {
    serde_json::from_str(line).expect("a record")
}

#[test]
fn command_is_written_with_its_id_and_without_defaults() {
    let prompt = Prompt { message: "What is here?".to_owned(), ..Prompt::default() };
    assert_eq!(
        Command::Prompt(prompt.clone()).to_line(Some("1")),
        r#"{"id":"1","type":"prompt","message":"What is here?"}"#
    );
    let images = vec![Image::new("AAAA", "image/png")];
    let prompt = Prompt { images, when_busy: WhenBusy::FollowUp, ..prompt };
    assert_eq!(
        Command::Prompt(prompt).to_line(None),
        r#"{"type":"prompt","message":"What is here?","images":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"streamingBehavior":"followUp"}"#
    );
    let bash = Bash { command: "ls".to_owned(), exclude_from_context: true };
    assert_eq!(
        Command::Bash(bash).to_line(Some("2")),
        r#"{"id":"2","type":"bash","command":"ls","excludeFromContext":true}"#
    );
    assert_eq!(Command::Abort.to_line(Some("3")), r#"{"id":"3","type":"abort"}"#);
}

#[test]
fn dialog_answer_has_only_the_id_of_its_request() {
    let line = |answer| {
        let response = ExtensionUiResponse { id: "d1".to_owned(), answer };
        Command::ExtensionUiResponse(response).to_line(Some("4"))
    };
    let head = r#"{"type":"extension_ui_response","id":"d1","#;
    assert_eq!(line(UiAnswer::Value("Allow".to_owned())), format!(r#"{head}"value":"Allow"}}"#));
    let reasoned = UiAnswer::Reasoned { value: "Deny".to_owned(), reason: "Use jj".to_owned() };
    assert_eq!(line(reasoned), format!(r#"{head}"value":"Deny","reason":"Use jj"}}"#));
    assert_eq!(line(UiAnswer::Confirmed(false)), format!(r#"{head}"confirmed":false}}"#));
    assert_eq!(line(UiAnswer::Cancelled), format!(r#"{head}"cancelled":true}}"#));
}

#[test]
fn invalid_command_is_refused_with_the_servers_text() {
    let read = |line| serde_json::from_str::<Command>(line).map_err(|err| err.to_string());
    assert_eq!(
        read(r#"{"type":"steer","message":" "}"#),
        Err(r#"Invalid command "steer": field `message`: expected some text, or images"#.to_owned())
    );
    assert_eq!(read(r#"{"type":"frob"}"#), Err("Unknown command: frob".to_owned()));
}

#[test]
fn response_has_typed_data_or_an_error() {
    let Record::Response(response) = parse(
        r#"{"id":"1","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}"#,
    ) else {
        panic!("expected a response");
    };
    assert!(response.answers("1") && !response.answers("2"));
    let data = DispositionData { disposition: Disposition::Started };
    assert_eq!(response.read(), Ok(data));

    let Record::Response(response) =
        parse(r#"{"type":"response","command":"frob","success":false,"error":"Unknown command"}"#)
    else {
        panic!("expected a response");
    };
    assert_eq!(response.read::<()>(), Err("Unknown command".to_owned()));

    let Record::Response(response) =
        parse(r#"{"type":"response","command":"abort","success":true}"#)
    else {
        panic!("expected a response");
    };
    assert_eq!(response.read(), Ok(()));
}

#[test]
fn update_is_a_delta_or_a_snapshot() {
    let Record::MessageUpdate { assistant_message_event, message, .. } = parse(
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"Hi"}}"#,
    ) else {
        panic!("expected an update");
    };
    assert_eq!(
        assistant_message_event.step,
        Step::TextDelta { content_index: 0, delta: "Hi".into() }
    );
    assert_eq!((assistant_message_event.partial, message), (None, None));
}

#[test]
fn record_of_a_newer_version_is_unknown() {
    let line = r#"{"type":"moon_phase","phase":"full"}"#;
    let record = parse(line);
    assert!(matches!(record, Record::Unknown(_)));
    assert_eq!(serde_json::to_string(&record).unwrap(), line);
}

/// The transcripts do the same for all other records.
#[test]
fn records_of_extensions_are_written_as_they_were_parsed() {
    let dialog = |rest: &str| format!(r#"{{"type":"extension_ui_request","id":"d1",{rest}}}"#);
    for line in [
        dialog(r#""method":"select","title":"Which?","options":["a","b"],"timeout":5"#),
        dialog(r#""method":"confirm","title":"Run?","message":"rm -rf build","timeout":60000"#),
        dialog(r#""method":"input","title":"Name?","placeholder":"x""#),
        dialog(r#""method":"editor","title":"Edit","prefill":"x""#),
        dialog(r#""method":"notify","message":"Noted","notifyType":"info""#),
        dialog(r#""method":"setStatus","statusKey":"build","statusText":"3 of 7""#),
        dialog(r#""method":"setStatus","statusKey":"build""#),
        dialog(
            r#""method":"setWidget","widgetKey":"plan","widgetLines":["1"],"widgetPlacement":"aboveEditor""#,
        ),
        dialog(r#""method":"setTitle","title":"T""#),
        dialog(r#""method":"set_editor_text","text":"x""#),
        r#"{"type":"extension_error","extensionPath":"command:deploy","event":"command","error":"no good"}"#
            .to_owned(),
    ] {
        let record = parse(&line);
        assert!(!matches!(record, Record::Unknown(_)), "{line}");
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
}

#[test]
fn tables_have_every_name_once() {
    for names in [COMMANDS, EVENTS] {
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
    assert!(!COMMANDS.contains(&"extension_ui_response"));
}

#[test]
fn schemas_of_both_directions_can_be_made() {
    let commands = schemars::schema_for!(Command).to_value();
    assert_eq!(commands["oneOf"].as_array().unwrap().len(), COMMANDS.len() + 1);
    let records = schemars::schema_for!(Record<'static>).to_value();
    let text = records.to_string();
    for name in EVENTS {
        assert!(text.contains(&format!("\"const\":\"{name}\"")), "{name}");
    }
}
