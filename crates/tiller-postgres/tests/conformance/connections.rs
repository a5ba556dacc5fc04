//! Connections that are refused: what the error says, and that it says no password.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tiller_postgres::{Options, Postgres};
use tiller_session::{DatabaseStore, Store};

use crate::common::{NOW, owner_of, user};
use crate::conformance::{all, begin};
use crate::postgres::{Cluster, StopMode, start};
use crate::tls::Certificates;

const PASSWORD: &str = "geheim-7-&%25";
/// The same in a URL.
const ENCODED: &str = "geheim-7-%26%2525";

/// A server that listens on TCP, with TLS and passwords.
pub struct Secure {
    pub cluster: Cluster,
    pub certificates: Certificates,
}

/// The user `ada` needs TLS and her password, `tiller` needs TLS, and `plain` must not use TLS.
const RULES: &str = "\
local all all trust
hostssl all ada 127.0.0.1/32 scram-sha-256
hostssl all tiller 127.0.0.1/32 trust
hostnossl all plain 127.0.0.1/32 scram-sha-256
";

pub fn secure() -> Option<&'static Secure> {
    static SECURE: OnceLock<Option<Secure>> = OnceLock::new();
    SECURE.get_or_init(make_secure).as_ref()
}

fn make_secure() -> Option<Secure> {
    let cluster = start(&[("listen_addresses", "127.0.0.1")])?;
    let certificates = Certificates::new();
    cluster.write_file("server.crt", certificates.server.as_bytes());
    cluster.write_file("server.key", certificates.server_key.as_bytes());
    cluster.write_file("pg_hba.conf", RULES.as_bytes());
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = on");
    for name in ["ada", "plain"] {
        cluster.sql("postgres", &format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
    }
    cluster.stop(StopMode::Fast);
    cluster.start_again();
    assert_eq!(cluster.sql("postgres", "SHOW ssl"), "on");
    Some(Secure { cluster, certificates })
}

impl Secure {
    /// The URL of a user who may do everything in a new database.
    pub fn url(&self, user: &str, password: &str) -> String {
        let name = self.database();
        self.cluster.sql("postgres", &format!("GRANT ALL ON DATABASE {name} TO PUBLIC"));
        let url = self.cluster.tcp_url(&name);
        url.replace("tiller@", &format!("{user}:{password}@"))
    }

    /// The name of a new database.
    pub fn database(&self) -> String {
        let url = self.cluster.create_database();
        url.rsplit('/').next().unwrap().to_owned()
    }

    /// The parameter that trusts the server's certificate.
    pub fn trusted(&self) -> String {
        format!("sslmode=require&sslrootcert={}", self.certificates.authority.display())
    }
}

pub fn connect(url: &str) -> Postgres {
    Postgres::start(Options::read(url).unwrap(), owner_of(0)).unwrap()
}

/// What is wrong with a URL, as a sentence without a password.
pub fn error_of(url: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    let postgres = connect(&format!("{url}{separator}timeout_seconds=1"));
    let error = postgres.check_version().unwrap_err();
    assert!(error.starts_with("cannot use the store "), "{error}");
    let debug = format!("{postgres:?}");
    for text in [&error, &debug, &postgres.init(2).unwrap_err(), &postgres.status().unwrap_err()] {
        assert!(!text.contains("geheim"), "a password is shown: {text}");
    }
    error
}

#[test]
fn right_password_is_accepted() {
    let Some(secure) = secure() else { return };
    for url in [
        format!("{}?{}", secure.url("ada", ENCODED), secure.trusted()),
        secure.url("plain", ENCODED),
    ] {
        let postgres = connect(&url);
        postgres.init(2).unwrap();
        assert_eq!(postgres.check_version(), Ok(()));
        let status = postgres.status().unwrap();
        assert!(status.database.contains("@127.0.0.1/test_"), "{}", status.database);
        assert!(!format!("{status:?} {postgres:?}").contains("geheim"));
    }
}

#[test]
fn wrong_password_is_reported() {
    let Some(secure) = secure() else { return };
    let url = format!("{}?{}", secure.url("ada", "geheim-wrong"), secure.trusted());
    let error = error_of(&url);
    assert!(error.ends_with("password authentication failed for user \"ada\" (28P01)"), "{error}");
    assert!(error.contains("ada@127.0.0.1/test_"), "{error}");
    let error = error_of(&secure.url("plain", ENCODED).replace(&format!(":{ENCODED}@"), "@"));
    assert!(error.contains("password missing"), "{error}");
}

#[test]
fn unknown_user_and_database_are_reported() {
    let Some(secure) = secure() else { return };
    let missing = secure.url("plain", ENCODED).replace("test_", "missing_");
    let error = error_of(&missing);
    assert!(
        error.contains("database \"missing_") && error.ends_with("does not exist (3D000)"),
        "{error}"
    );
    let folder = secure.cluster.folder().display().to_string().replace('/', "%2F");
    let unknown = format!("postgres://bob:{ENCODED}@{folder}:{}/postgres", port(secure));
    let error = error_of(&unknown);
    assert!(error.ends_with("role \"bob\" does not exist (28000)"), "{error}");
}

fn port(secure: &Secure) -> String {
    let url = secure.cluster.tcp_url("x");
    url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn missing_right_to_make_tables_is_reported() {
    let Some(secure) = secure() else { return };
    let url = secure.url("plain", ENCODED);
    let name = url.rsplit('/').next().unwrap();
    secure.cluster.sql("postgres", &format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC"));
    secure.cluster.sql("postgres", &format!("GRANT CONNECT ON DATABASE {name} TO plain"));
    let postgres = connect(&url);
    let error = postgres.init(2).unwrap_err();
    assert!(error.ends_with(&format!("permission denied for database {name} (42501)")), "{error}");
    assert!(postgres.check_version().unwrap_err().contains("run `tiller store init`"));
}

#[test]
fn unreachable_server_is_reported() {
    for (url, expected) in [
        // Nothing listens on this port.
        ("postgres://ada:geheim@127.0.0.1:1/work", "Connection refused"),
        ("postgres://ada:geheim@%2Fnowhere%2Fat%2Fall/work", "No such file or directory"),
    ] {
        let error = error_of(url);
        assert!(error.contains("cannot connect to the database: "), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("/work (schema tiller)"), "{error}");
    }
}

/// Every call of a store fails within its time, and says which session it was about.
#[test]
fn calls_of_a_store_that_cannot_be_reached_fail_in_time() {
    let postgres = connect("postgres://ada:geheim@%2Fnowhere%2Fat%2Fall/work?timeout_seconds=1");
    let scratch = tempfile::tempdir().unwrap();
    let store = DatabaseStore::new(Arc::new(postgres.clone()), scratch.path().to_owned());
    let location: &Path = "postgres:some-id".as_ref();
    let mut session = begin(&store);
    let errors = [
        session.append(user("hello"), NOW).unwrap_err(),
        store.open(location).err().unwrap(),
        store.open_read_only(location).err().unwrap(),
        store.delete(location).unwrap_err(),
        store.lines_since(location, 0).unwrap_err(),
        store.list(&all()).unwrap_err(),
        store.newest("/work".as_ref()).unwrap_err(),
        store.find("some", "/work".as_ref()).unwrap_err(),
    ];
    for (number, error) in errors.into_iter().enumerate() {
        let text = format!("{error} {error:?}");
        assert!(text.contains("No such file or directory"), "{text}");
        assert!(!text.contains("geheim"), "{text}");
        if (1..5).contains(&number) {
            assert!(text.contains("session postgres:some-id"), "{text}");
        }
    }
    assert_eq!((session.len(), session.is_stored()), (0, false));
    // A follower waits for better times, and the end of the process waits for nothing.
    drop(store.watch(location, Box::new(|| ())));
    postgres.close();
}
