//! A cloned repository contains a session with a link beside it: no file of the user is written
//! through the link, however the session is opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;

use crate::client::{Client, Place};

const CONFIG: &str = "[core]\n\tbare = false\n";

/// `.git/config` stands for any file of the user.
fn clone(suffix: &str) -> (Place, PathBuf) {
    let place = Place::new().with("talk.script", "say hello\n");
    let at = |name: &str| place.path().join(name);
    for folder in [".git", ".pi", "kept"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::write(at(".git/config"), CONFIG).unwrap();
    fs::write(at(".pi/settings.json"), r#"{"sessionDir": "kept"}"#).unwrap();
    let cwd = place.path().display();
    let header = format!(
        r#"{{"type":"session","version":3,"id":"x","timestamp":"2026-11-15T20:39:16.762Z","cwd":"{cwd}"}}"#
    );
    let entry = r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":"hi","timestamp":1}}"#;
    fs::write(at("kept/x.jsonl"), format!("{header}\n{entry}\n[core] fsmonitor = evil")).unwrap();
    symlink("../.git/config", at(&format!("kept/x.jsonl.{suffix}"))).unwrap();
    let config = at(".git/config");
    (place, config)
}

fn start(place: &Place, more: &[&str]) -> Client {
    let mut arguments = vec!["--mode", "rpc", "--script", "talk.script"];
    arguments.extend(more);
    Client::start(place.command(&arguments), place.clone())
}

#[test]
fn opening_a_session_never_writes_through_a_link() {
    let ways: [&[&str]; 4] = [
        &["--session", "kept/x.jsonl"],
        &["-c", "--no-approve"],
        &["-c", "--approve"],
        &["--session-dir", "kept", "-c"],
    ];
    for suffix in ["torn", "owner"] {
        for way in ways {
            let (place, config) = clone(suffix);
            let mut tiller = start(&place, way);
            tiller.say(&json!({"id": "1", "type": "prompt", "message": "go on"}));
            assert_eq!(tiller.response("1")["success"], true, "{way:?}");
            tiller.until_type("agent_settled");
            tiller.close_stdin();
            assert_eq!(tiller.end().1, Some(0));
            assert_eq!(fs::read_to_string(&config).unwrap(), CONFIG, "{suffix} {way:?}");
        }
        let (place, config) = clone(suffix);
        let mut tiller = start(&place, &[]);
        let path = place.path().join("kept/x.jsonl");
        tiller.say(&json!({"id": "1", "type": "switch_session", "sessionPath": path}));
        assert_eq!(tiller.response("1")["success"], true);
        tiller.close_stdin();
        assert_eq!(tiller.end().1, Some(0));
        assert_eq!(fs::read_to_string(&config).unwrap(), CONFIG, "{suffix} switch_session");
    }
}

#[test]
fn untrusted_project_cannot_set_the_session_folder() {
    let (place, _) = clone("torn");
    let folder = |more: &[&str]| {
        let mut tiller = start(&place, more);
        tiller.say(&json!({"id": "1", "type": "get_state"}));
        let state = tiller.response("1");
        tiller.close_stdin();
        tiller.end();
        let file = PathBuf::from(state["data"]["sessionFile"].as_str().unwrap());
        file.parent().unwrap().to_owned()
    };
    let kept = place.path().join("kept");
    for untrusted in [&["-c", "--no-approve"][..], &["-c"], &[]] {
        assert_ne!(folder(untrusted), kept, "{untrusted:?}");
    }
    assert_eq!(folder(&["--approve"]), kept);
}
