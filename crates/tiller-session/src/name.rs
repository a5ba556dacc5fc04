//! The names of sessions and the ids of sessions and entries.

use std::fmt;

use uuid::Uuid;

use crate::error::Error;

/// The id of a session: a UUID that grows with time, or one chosen by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// A new id, greater than all that this process created before.
    pub fn fresh() -> SessionId {
        SessionId(Uuid::now_v7().to_string())
    }

    /// Checks an id given by the user: it becomes part of a file name.
    pub fn read(text: &str) -> Result<SessionId, Error> {
        let bytes = text.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        let valid =
            ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric)) && may_begin_id(text);
        if valid { Ok(SessionId(text.to_owned())) } else { Err(Error::InvalidSessionId) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text has only the characters of ids.
pub(crate) fn may_begin_id(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Eight hex digits that are not the id of another entry.
pub(crate) fn new_entry_id(is_taken: impl Fn(&str) -> bool) -> String {
    loop {
        let mut id = Uuid::new_v4().simple().to_string();
        id.truncate(8);
        if !is_taken(&id) {
            return id;
        }
    }
}

/// A session's name as it is stored: on one line, trimmed.
pub(crate) fn clean(name: &str) -> Result<String, Error> {
    let lines = name.split(['\r', '\n']).filter(|line| !line.is_empty());
    let name = lines.collect::<Vec<_>>().join(" ");
    let name = name.trim();
    if name.is_empty() { Err(Error::EmptyName) } else { Ok(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_session_ids_are_refused() {
        for good in ["a", "abc.1", "0199aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee", "A_b-c.d9"] {
            assert_eq!(SessionId::read(good).unwrap().as_str(), good);
        }
        for bad in ["", ".a", "a.", "-a", "a/b", "a b", "ä", "a\n", ".."] {
            assert!(SessionId::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fresh_session_ids_grow() {
        let ids: Vec<_> = (0..1000).map(|_| SessionId::fresh().to_string()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(&ids[0][14..15], "7");
    }

    #[test]
    fn taken_entry_ids_are_not_reused() {
        let tries = std::cell::RefCell::new(Vec::new());
        let id = new_entry_id(|id| {
            tries.borrow_mut().push(id.to_owned());
            tries.borrow().len() < 3
        });
        assert_eq!(tries.borrow().len(), 3);
        assert_eq!(tries.borrow().last(), Some(&id));
        assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn session_names_are_trimmed_to_one_line() {
        assert_eq!(clean("  my\r\n\nname ").unwrap(), "my name");
        assert!(matches!(clean(" \n "), Err(Error::EmptyName)));
    }
}
