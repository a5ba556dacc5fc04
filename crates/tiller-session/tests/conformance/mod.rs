//! The laws of a store, each a function and, for every store, a test. A store has several processes
//! here: each has an owner of its own, and they share nothing but what is stored.
//!
//! The tests of `tiller-postgres` use this module, too, next to `common`.

pub mod creation;
pub mod appending;
pub mod claims;
pub mod copies;
pub mod deletion;
pub mod listing;
pub mod finding;
pub mod following;
pub mod properties;
pub mod crash;
pub mod transfer;
pub mod transfer_samples;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tiller_agent::message::UnixMs;
use tiller_session::list::ListQuery;
use tiller_session::{DatabaseStore, Error, NewSession, Session, SessionId, Store};

use crate::common::{NOW, lines_of, new_session, snapshot};

/// How long a law waits for what another process does. Reaching it is a failure.
pub const LIMIT: Duration = Duration::from_secs(60);

pub const CWD: &str = "/work/harbour";

/// A store under test. What is stored ends with it.
pub trait TestStore {
    /// The store as one process sees it, whose owner is `common::owner_of` this number.
    fn process(&self, number: usize) -> Arc<dyn Store>;

    /// The same, if it is a database.
    fn database(&self, number: usize) -> Option<DatabaseStore>;

    /// The lines that are stored, the header first, read without the store. None: there are none.
    fn lines(&self, location: &Path) -> Option<Vec<String>>;

    /// Changes when a session was last modified.
    fn set_modified(&self, location: &Path, time: UnixMs);

    /// How many rounds of a test with random values there is time for, if so many are wanted.
    fn rounds(&self, wanted: u64) -> u64;

    /// What `crash::child` needs in another process. None: only this process has the store.
    fn for_child(&self) -> Option<String>;

    /// Fails if a session is still claimed, or something is stored that belongs to no session.
    fn check_closed(&self);
}

/// Makes a test of every law. `$store` makes a `Result` of a [`TestStore`], or None where the test
/// is skipped.
macro_rules! conformance_tests {
    ($store:expr) => {
        conformance_tests! { $store;
            creation {
                nothing_is_stored_before_the_first_message
                session_that_says_nothing_is_never_stored
                persisted_session_needs_no_message
                used_id_is_refused_and_the_other_session_stays
                stored_lines_are_those_of_a_file
                copied_lines_are_byte_for_byte_those_of_a_file
            }
            appending {
                entry_is_visible_to_another_process_when_append_returns
                unusual_texts_are_stored_unchanged
                names_labels_and_extension_data_are_stored_unchanged
                session_of_five_thousand_entries_opens_equal
                refused_calls_store_nothing
            }
            claims {
                second_writer_is_refused_and_learns_the_owner
                session_is_claimed_from_its_first_message_on
                copy_is_claimed_by_its_process
                dropped_session_can_be_opened_at_once
                one_of_many_writers_gets_the_session
                read_only_session_is_not_appended_to
            }
            copies {
                forks_and_clones_have_the_same_context
                fork_of_the_first_message_is_stored_with_its_first_message
                copy_keeps_entries_that_are_not_in_the_context
                copy_of_a_read_only_session_is_a_session_of_its_own
                session_stored_beside_another_is_listed_with_it
            }
            deletion {
                session_in_use_is_not_deleted
                deleted_session_is_gone
                id_of_a_deleted_session_can_be_used_again
                what_is_not_stored_cannot_be_deleted
            }
            listing {
                listed_session_has_its_details
                sessions_are_listed_newest_first
                pages_make_up_the_list_at_every_page_size
                any_combination_of_filters_lists_the_sessions_that_match
                empty_queries_filter_nothing
                hostile_filters_list_nothing_and_harm_nothing
                list_follows_names_and_messages
            }
            finding {
                session_is_found_by_its_id_or_its_beginning
                sessions_of_the_working_directory_are_found_first
                signs_in_ids_stand_for_themselves
                hostile_ids_find_nothing_and_harm_nothing
                exact_id_is_found_in_its_working_directory
                newest_session_of_a_working_directory_is_found
                location_of_a_stored_session_is_kept
                missing_session_is_not_opened
            }
            following {
                reader_follows_line_by_line
                follower_is_woken_by_another_process
                follower_is_woken_when_the_session_is_deleted
                ended_follower_is_not_called_again
            }
            properties {
                reloading_gives_the_same_tree
                memory_and_store_behave_alike
                context_of_forks_clones_and_copies_is_that_of_the_original
            }
            crash {
                killed_writer_loses_no_announced_entry
            }
        }
    };
    ($store:expr; $($topic:ident { $($law:ident)* })*) => {
        $(mod $topic {
            $(#[test]
            fn $law() {
                use crate::conformance::TestStore as _;
                let Some(store) = $store else { return };
                crate::conformance::$topic::$law(&store);
                store.check_closed();
            })*
        })*
    };
}

/// Makes a test of every law of moving sessions between files and a database.
macro_rules! transfer_tests {
    ($store:expr) => {
        conformance_tests! { $store;
            transfer {
                exported_session_opens_equal
                imported_session_is_exported_byte_for_byte
                imported_session_is_listed_like_its_file
                exported_session_is_imported_again_unchanged
                old_version_is_migrated
                session_is_exported_while_it_is_written
                file_that_cannot_be_kept_is_refused_and_nothing_is_stored
                used_id_is_not_imported
                existing_file_is_not_written_over
                what_is_not_stored_is_not_exported
            }
        }
    };
}

pub fn named(id: &str, cwd: &str) -> NewSession {
    NewSession { id: SessionId::read(id).unwrap(), cwd: cwd.into(), ..new_session() }
}

/// A session in this working directory, which is not stored yet.
pub fn begin_in(store: &dyn Store, cwd: &str) -> Session {
    let new = NewSession { cwd: cwd.into(), ..new_session() };
    Session::new(new, store.storage(cwd.as_ref()))
}

pub fn begin(store: &dyn Store) -> Session {
    begin_in(store, CWD)
}

pub fn location_of(session: &Session) -> PathBuf {
    session.path().unwrap().to_owned()
}

/// Everything there is, newest first.
pub fn all() -> ListQuery {
    ListQuery { limit: usize::MAX, ..ListQuery::default() }
}

pub fn listed_ids(store: &dyn Store, query: &ListQuery) -> Vec<String> {
    store.list(query).unwrap().sessions.into_iter().map(|session| session.id).collect()
}

/// Checks that the lines of a session are stored, and shows the first one that is not.
pub fn check_lines(store: &dyn TestStore, session: &Session) {
    let stored = store.lines(session.path().unwrap()).expect("the session is stored");
    let expected = &lines_of(session);
    let differs = |number: &usize| stored.get(*number) != expected.get(*number);
    let different = (0..stored.len().max(expected.len())).find(differs);
    if let Some(number) = different {
        let show = |lines: &[String]| -> String {
            lines.get(number).map(|line| line.chars().take(1000).collect()).unwrap_or_default()
        };
        panic!("line {number} is\n{}\nexpected\n{}", show(&stored), show(expected));
    }
}

/// Checks that another process reads the session that this one has.
pub fn check_stored(store: &dyn TestStore, session: &Session) {
    if session.is_stored() {
        let location = session.path().unwrap();
        let stored = store.process(9).open_read_only(location).unwrap();
        assert_eq!(snapshot(&stored), snapshot(session));
        assert_eq!(stored.problems(), []);
    }
}

/// The same for a session whose file had problems.
pub fn check_equal_to_stored(store: &dyn TestStore, session: &Session) {
    let stored = store.process(9).open_read_only(session.path().unwrap()).unwrap();
    assert!(snapshot(&stored) == snapshot(session));
    assert_eq!(stored.problems(), session.problems());
}

pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NotFound(_))
}

/// Times in lists: the second with this number.
pub fn at(second: u64) -> UnixMs {
    NOW + second * 1000
}
