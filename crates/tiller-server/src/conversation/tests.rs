//! A conversation in a database that loses its connection during an append.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use tiller_agent::message::{Arguments, AssistantMessage, StopReason};
use tiller_session::database::{
    AppendError, Claim, CreateError, Database, SessionRow, StoredSession, Watch,
};
use tiller_session::list::{ListQuery, Listing};
use tiller_session::{DatabaseStore, NewSession, Row, SessionId, Store};

use super::*;

/// What happens to an append.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Connection {
    #[default]
    Up,
    /// It breaks behind the append, which is stored.
    BreaksBehind,
    /// It breaks before the append, which is not stored.
    BreaksBefore,
    /// There is none, so the database does not tell what it has stored.
    Down,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    connection: Connection,
}

/// A database with one session.
#[derive(Clone, Debug, Default)]
struct OneSession(Arc<Mutex<State>>);

impl OneSession {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Database for OneSession {
    fn scheme(&self) -> &'static str {
        "test"
    }

    fn create(
        &self,
        _: &SessionRow,
        rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>,
    ) -> Result<Box<dyn Claim>, CreateError> {
        let lines: Vec<String> = rows.map(|row| row.unwrap().line.into_owned()).collect();
        let known = lines.len();
        self.state().lines = lines;
        Ok(Box::new(OneClaim { database: self.clone(), known }))
    }

    fn claim(&self, _: &str) -> Result<(StoredSession, Box<dyn Claim>), Error> {
        unreachable!("a conversation only appends")
    }

    fn stored(&self, _: &str) -> Result<Option<StoredSession>, Error> {
        unreachable!("a conversation only appends")
    }

    fn read(&self, _: &str, _: Range<u64>) -> Result<Vec<String>, Error> {
        unreachable!("a conversation only appends")
    }

    fn list(&self, _: &ListQuery) -> Result<Listing, Error> {
        unreachable!("a conversation only appends")
    }

    fn find(&self, _: &str, _: &str) -> Result<Vec<String>, Error> {
        unreachable!("a conversation only appends")
    }

    fn delete(&self, _: &str) -> Result<(), Error> {
        unreachable!("a conversation only appends")
    }

    fn watch(&self, _: &str, _: Box<dyn Fn() + Send>) -> Box<dyn Watch> {
        unreachable!("a conversation only appends")
    }
}

struct OneClaim {
    database: OneSession,
    /// How many lines the session knows of.
    known: usize,
}

impl Claim for OneClaim {
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), AppendError> {
        let mut state = self.database.state();
        let connection = std::mem::take(&mut state.connection);
        if matches!(connection, Connection::Up | Connection::BreaksBehind) {
            state.lines.extend(rows.iter().map(|row| row.line.to_string()));
        }
        if connection != Connection::Up {
            return Err(AppendError::Unknown("connection lost".to_owned()));
        }
        self.known = state.lines.len();
        Ok(())
    }

    fn recover(&mut self) -> Result<Vec<String>, AppendError> {
        let state = self.database.state();
        if state.connection == Connection::Down {
            return Err(AppendError::Unknown("no connection".to_owned()));
        }
        let found = state.lines[self.known..].to_vec();
        self.known = state.lines.len();
        Ok(found)
    }
}

fn begin(database: &OneSession) -> Conversation {
    let folder = std::env::temp_dir();
    let store = DatabaseStore::new(Arc::new(database.clone()), folder.clone());
    let new =
        NewSession { id: SessionId::fresh(), cwd: folder.clone(), parent_session: None, now: 0 };
    let session = Session::new(new, store.storage(&folder));
    Conversation::new(session, Durability::Os)
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, Vec::new(), 0))
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "ls".to_owned(),
        arguments: Arguments::default(),
        arguments_error: None,
        thought_signature: None,
    }
}

/// An answer with these calls.
fn answer(calls: &[&str]) -> Arc<Message> {
    Arc::new(Message::Assistant(AssistantMessage {
        content: calls.iter().map(|id| Block::ToolCall(call(id))).collect(),
        stop_reason: StopReason::ToolUse,
        ..AssistantMessage::default()
    }))
}

fn result(call_id: &str) -> Arc<Message> {
    no_result(&call(call_id), "notes.md", 0)
}

/// The messages in memory, after the session was compared with the database.
fn messages(conversation: &mut Conversation, database: &OneSession) -> Vec<String> {
    let shown = |message: &Message| match message {
        Message::User(user) => format!("user {}", user.content.text()),
        Message::Assistant(answer) => {
            let calls: Vec<&str> = answer.tool_calls().map(|call| call.id.as_str()).collect();
            format!("answer {}", calls.join(" "))
        }
        Message::ToolResult(result) => {
            let text = match &result.content[..] {
                [Block::Text { text, .. }] => text.split(':').next().unwrap(),
                _ => panic!("{result:?}"),
            };
            format!("result {} {text}", result.tool_call_id)
        }
        other => panic!("{other:?}"),
    };
    let in_memory: Vec<_> =
        conversation.messages().unwrap().iter().map(|message| shown(message)).collect();
    let stored = database.state().lines.clone();
    let stored = stored.iter().map(|line| Entry::read(line).unwrap().body.unwrap());
    let stored: Vec<_> = stored
        .map(|body| match body {
            Body::Message(message) => shown(&message),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(in_memory, stored);
    in_memory
}

#[test]
fn result_that_was_stored_after_all_is_not_stored_again() {
    for connection in [Connection::BreaksBehind, Connection::BreaksBefore] {
        let database = OneSession::default();
        let mut conversation = begin(&database);
        conversation.push(user("Hello"), 0).unwrap();
        conversation.push(answer(&["c1", "c2"]), 0).unwrap();
        database.state().connection = connection;
        let failed = conversation.push(result("c1"), 0).unwrap_err();
        assert!(matches!(failed, Error::Database { .. }), "{failed}");
        conversation.owe(result("c1"), "connection lost");
        conversation.owe(result("c2"), "connection lost");
        assert_eq!(messages_in(&mut conversation), 2);
        conversation.push(user("Again"), 0).unwrap();
        assert_eq!(
            messages(&mut conversation, &database),
            [
                "user Hello",
                "answer c1 c2",
                "result c1 notes.md",
                "result c2 notes.md",
                "user Again"
            ]
        );
        assert_eq!(conversation.owes(), None);
        let announced = conversation.take_stored_late();
        assert_eq!(announced.len(), 2, "{connection:?}: {announced:?}");
    }
}

#[test]
fn calls_of_an_answer_that_was_stored_after_all_get_results() {
    for (connection, expected) in [
        (
            Connection::BreaksBehind,
            vec![
                "user Hello",
                "answer c1 c2",
                "result c1 The tool was not executed",
                "result c2 The tool was not executed",
                "user Again",
            ],
        ),
        (Connection::BreaksBefore, vec!["user Hello", "user Again"]),
    ] {
        let database = OneSession::default();
        let mut conversation = begin(&database);
        conversation.push(user("Hello"), 0).unwrap();
        database.state().connection = connection;
        conversation.push(answer(&["c1", "c2"]), 0).unwrap_err();
        conversation.owe(answer(&["c1", "c2"]), "connection lost");
        conversation.store_owed(0).unwrap();
        let count = conversation.loaded().unwrap().len();
        assert_eq!(count, expected.len() - 1, "a run begins with the messages in memory");
        conversation.push(user("Again"), 0).unwrap();
        assert_eq!(messages(&mut conversation, &database), expected);
    }
}

#[test]
fn nothing_is_appended_until_the_database_tells_what_it_has_stored() {
    let database = OneSession::default();
    let mut conversation = begin(&database);
    conversation.push(user("Hello"), 0).unwrap();
    database.state().connection = Connection::BreaksBehind;
    conversation.set_name("Harbour", 0).unwrap_err();
    database.state().connection = Connection::Down;
    conversation.push(user("Again"), 0).unwrap_err();
    assert_eq!(database.state().lines.len(), 2);
    assert_eq!(conversation.name(), None);
    database.state().connection = Connection::Up;
    conversation.push(user("Again"), 0).unwrap();
    assert_eq!(database.state().lines.len(), 3);
    assert_eq!(conversation.name(), Some("Harbour"));
    assert_eq!(messages_in(&mut conversation), 2);
}

fn messages_in(conversation: &mut Conversation) -> usize {
    conversation.messages().unwrap().len()
}
