//! Sessions, and commands with typed data.

use tiller_client::protocol::data::StateData;
use tiller_client::protocol::{
    Bash, Command, GetEntries, InterruptMode, Level, ListRange, ListSessions, PromptReason,
    PromptStatus, QueueMode, ThinkingLevel,
};

use crate::support::{Place, bounded};

#[test]
fn session_is_stored_listed_and_opened_again() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say Hello.\n").await;
        client.set_session_name("harbour").await.unwrap();
        client.prompt("Hi").await.unwrap().result().await.unwrap().check().unwrap();
        let path = client.get_state().await.unwrap().session_file.unwrap().into_owned();
        assert!(client.close().await.unwrap().success());

        let again = place.client("say Again.\n").await;
        let sessions = again.list_sessions(ListSessions::default()).await.unwrap().sessions;
        let names: Vec<_> = sessions.iter().map(|session| session.name.as_deref()).collect();
        assert_eq!(names, [Some("harbour")]);
        assert!(!again.switch_session(path).await.unwrap().cancelled);
        assert_eq!(again.get_messages(ListRange::ALL).await.unwrap().messages.len(), 2);
        let text = again.get_last_assistant_text().await.unwrap().text;
        assert_eq!(text, Some(Some("Hello.".to_owned())));
        assert_eq!(again.get_session_stats().await.unwrap().user_messages, 1);
    });
}

#[test]
fn session_is_forked_and_cloned() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say One.\n\nsay Two.\n").await;
        for prompt in ["First", "Second"] {
            client.prompt(prompt).await.unwrap().result().await.unwrap().check().unwrap();
        }
        let points = client.get_fork_messages().await.unwrap().messages;
        assert_eq!((points[0].text.as_str(), points[1].text.as_str()), ("First", "Second"));
        assert!(!client.clone_session().await.unwrap().cancelled);
        assert_eq!(client.get_messages(ListRange::ALL).await.unwrap().messages.len(), 4);
        let forked = client.fork(points[1].entry_id.as_str()).await.unwrap();
        assert_eq!(forked.text.as_deref(), Some("Second"));
        assert_eq!(client.get_messages(ListRange::ALL).await.unwrap().messages.len(), 2);
        let refused = client.fork("nowhere").await.unwrap_err().to_string();
        assert!(refused.starts_with("fork: Invalid entry ID for forking"), "{refused}");
    });
}

#[test]
fn new_session_aborts_the_run() {
    let place = Place::new();
    bounded(async {
        let client = place.client("hang\n").await;
        let mut turn = client.prompt("Go").await.unwrap();
        assert!(!client.new_session().await.unwrap().cancelled);
        let result = turn.result().await.unwrap();
        assert_eq!(result.status, PromptStatus::Aborted);
        assert_eq!(result.reason, Some(PromptReason::SessionChanged));
        assert_eq!(client.get_state().await.unwrap().message_count, 0);
    });
}

#[test]
fn models_and_modes_are_set() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say hi\n").await;
        assert_eq!(client.set_model("tiller", "demo").await.unwrap().id, "demo");
        let levels = client.get_available_thinking_levels().await.unwrap().levels;
        assert!(levels.contains(&ThinkingLevel::Low));
        client.set_thinking_level(ThinkingLevel::Low).await.unwrap();
        client.set_steering_mode(QueueMode::All).await.unwrap();
        client.set_interrupt_mode(InterruptMode::Immediate).await.unwrap();
        client.set_auto_compaction(false).await.unwrap();
        let state = client.get_state().await.unwrap();
        assert_eq!(state.thinking_level, ThinkingLevel::Low);
        assert_eq!(state.steering_mode, QueueMode::All);
        assert!(!state.auto_compaction_enabled);
        assert!(client.cycle_thinking_level().await.unwrap().is_some());
        assert!(!client.get_available_models(ListRange::ALL).await.unwrap().models.is_empty());
    });
}

#[test]
fn entries_files_and_shell_commands() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say One.\n").await;
        client.prompt("First").await.unwrap().result().await.unwrap().check().unwrap();
        let entries = client.get_entries(GetEntries::ALL).await.unwrap();
        let leaf = entries.leaf_id.unwrap().into_owned();
        let first = GetEntries { limit: Some(1), ..GetEntries::ALL };
        let page = client.get_entries(first).await.unwrap();
        assert_eq!(page.entries, entries.entries[..1]);
        assert_eq!((page.total, page.next_offset), (Some(entries.entries.len()), Some(1)));
        let newer = GetEntries { since: Some(leaf.clone()), ..GetEntries::ALL };
        assert!(client.get_entries(newer).await.unwrap().entries.is_empty());
        client.set_label(leaf.as_str(), Some("here".into())).await.unwrap();
        assert!(!client.navigate_tree(leaf).await.unwrap().cancelled);
        assert_eq!(client.get_tree().await.unwrap().tree.len(), 1);
        let page = place.path().join("page.html");
        assert!(client.export_html(Some(page)).await.unwrap().path.is_file());
        let command = Bash { command: "echo out; exit 3".into(), exclude_from_context: false };
        let done = client.bash(command).await.unwrap();
        assert_eq!((done.output.as_ref(), done.exit_code), ("out\n", Some(3)));
    });
}

#[test]
fn tiller_describes_itself() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say hi\n").await;
        assert_eq!(client.server().server, "tiller");
        assert!(client.pid().is_some());
        assert_eq!(client.get_capabilities().await.unwrap().wire, Level::PiDelta);
        assert!(client.get_diagnostics().await.unwrap().diagnostics.is_empty());
        assert_eq!(client.reload().await.unwrap().skills, 0);
        assert!(client.get_commands().await.unwrap().commands.is_empty());
        let state: StateData<'static> = client.request(Command::GetState).await.unwrap();
        assert_eq!(state.message_count, 0);
    });
}
