use expect_test::{Expect, expect};

use super::*;

fn numbered() -> Frames {
    let mut frames = Frames::default();
    frames.change(Some(Uuid::nil()), None);
    frames
}

fn write(frames: &mut Frames, record: &str, keep: Keep) -> String {
    let mut batch = b"before\n".to_vec();
    let start = batch.len();
    batch.extend_from_slice(record.as_bytes());
    batch.push(b'\n');
    frames.finish(&mut batch, start, keep);
    String::from_utf8(batch.split_off(start)).unwrap()
}

fn events(frames: &Frames, since: u64, limit: Option<usize>) -> String {
    let request = GetEvents { since, epoch: None, limit };
    match frames.events(&request) {
        Ok(data) => {
            let seqs = data.events.iter().map(|event| event.read::<serde_json::Value>().unwrap());
            let seqs: Vec<_> = seqs.map(|event| event["seq"].to_string()).collect();
            format!(
                "[{}] truncated {} last {} more {}",
                seqs.join(" "),
                data.truncated,
                data.last_seq,
                data.more
            )
        }
        Err(error) => error,
    }
}

fn check(actual: &str, expect: Expect) {
    expect.assert_eq(actual);
}

#[test]
fn lines_carry_their_number_and_epoch_last() {
    let mut frames = numbered();
    check(
        &write(&mut frames, r#"{"type":"agent_start"}"#, Keep::Yes),
        expect![[r#"
            {"type":"agent_start","seq":1,"epoch":"00000000-0000-0000-0000-000000000000"}
        "#]],
    );
}

#[test]
fn events_after_a_number_are_returned_in_order_and_in_pages() {
    let mut frames = numbered();
    for _ in 0..4 {
        write(&mut frames, r#"{"type":"agent_start"}"#, Keep::Yes);
    }
    write(&mut frames, r#"{"type":"response"}"#, Keep::No);
    write(&mut frames, r#"{"type":"agent_start"}"#, Keep::Yes);
    check(&events(&frames, 0, None), expect!["[1 2 3 4 6] truncated false last 6 more false"]);
    check(&events(&frames, 2, None), expect!["[3 4 6] truncated false last 6 more false"]);
    check(&events(&frames, 2, Some(1)), expect!["[3] truncated false last 6 more true"]);
    check(&events(&frames, 6, None), expect!["[] truncated false last 6 more false"]);
    check(&events(&frames, 7, None), expect!["[1 2 3 4 6] truncated true last 6 more false"]);
}

#[test]
fn dropped_lines_are_reported_as_truncated() {
    let mut frames = numbered();
    for _ in 0..KEPT_LINES + 2 {
        write(&mut frames, r#"{"type":"agent_start"}"#, Keep::Yes);
    }
    check(&events(&frames, 1, Some(1)), expect!["[3] truncated true last 10002 more true"]);
    check(&events(&frames, 2, Some(1)), expect!["[3] truncated false last 10002 more true"]);
}

#[test]
fn kept_lines_are_bounded_by_their_bytes() {
    let mut frames = numbered();
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(KEPT_BYTES / 3));
    for _ in 0..4 {
        write(&mut frames, &long, Keep::Yes);
    }
    check(&events(&frames, 0, None), expect!["[3] truncated true last 4 more true"]);
}

#[test]
fn nothing_is_kept_unless_records_are_numbered() {
    let frames = Frames::default();
    check(
        &events(&frames, 0, None),
        expect![[r#"Records are not numbered. Send {"type":"hello","sequence":true} first"#]],
    );
}

#[test]
fn long_line_is_cut_and_can_be_read_in_parts() {
    let mut frames = Frames::default();
    let max = 64 << 10;
    frames.change(Some(Uuid::nil()), Some(max));
    let record = format!(r#"{{"type":"session_error","error":"{}"}}"#, "ä\\\"".repeat(max));
    let line = write(&mut frames, &record, Keep::Yes);
    assert!(line.len() <= max, "{}", line.len());
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["cut"]["recordId"], "r1");
    assert_eq!(line["cut"]["bytes"], record.len());

    let mut whole = String::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let request = GetRecord { record_id: "r1".to_owned(), offset: Some(at), limit: None };
        let piece = frames.piece(&request).unwrap();
        assert!(serde_json::to_string(&piece).unwrap().len() <= max);
        whole.push_str(&piece.text);
        offset = piece.next_offset;
    }
    assert_eq!(whole, record);
}

#[test]
fn cut_records_are_dropped_oldest_first() {
    let mut frames = Frames::default();
    frames.change(None, Some(64 << 10));
    let record = format!(r#"{{"type":"session_error","error":"{}"}}"#, "x".repeat(100 << 10));
    for _ in 0..=CUT_RECORDS {
        write(&mut frames, &record, Keep::Yes);
    }
    let piece = |id: &str| {
        let request = GetRecord { record_id: id.to_owned(), offset: None, limit: Some(5) };
        frames.piece(&request).map(|piece| piece.text.into_owned())
    };
    assert_eq!(piece("r1"), Err("Record not found: r1".to_owned()));
    assert_eq!(piece("r2"), Ok(r#"{"typ"#.to_owned()));
}
