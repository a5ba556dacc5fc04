//! TLS: a server is trusted for its certificate, which an authority of the user's has signed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tiller_postgres::{Options, Postgres};
use tiller_session::{DatabaseStore, Store};

use crate::common::{owner_of, say, snapshot};
use crate::conformance::{LIMIT, begin, location_of};
use crate::connections::{connect, error_of, secure};
use crate::postgres::cluster;

/// The certificate of the server 127.0.0.1, that of the authority that has signed it, and that of
/// another one.
pub struct Certificates {
    pub server: String,
    pub server_key: String,
    pub authority: PathBuf,
    pub another: PathBuf,
    _folder: TempDir,
}

impl Certificates {
    pub fn new() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, name);
            let pair = KeyPair::generate().unwrap();
            let path = folder.path().join(format!("{name}.pem"));
            std::fs::write(&path, params.self_signed(&pair).unwrap().pem()).unwrap();
            (Issuer::new(params, pair), path)
        };
        let ((issuer, authority_path), (_, another)) = (authority("ours"), authority("another"));
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let pair = KeyPair::generate().unwrap();
        let server = params.signed_by(&pair, &issuer).unwrap().pem();
        let server_key = pair.serialize_pem();
        Certificates { server, server_key, authority: authority_path, another, _folder: folder }
    }
}

#[test]
fn server_with_a_certificate_of_the_trusted_authority_is_used() {
    let Some(secure) = secure() else { return };
    let url = secure.cluster.tcp_url(&secure.database());
    let url = format!("{url}?{}", secure.trusted());
    let postgres = connect(&url);
    postgres.init(2).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let store = DatabaseStore::new(Arc::new(postgres.clone()), scratch.path().to_owned());
    let mut session = begin(&store);
    say(&mut session, "over TLS");
    let other = Postgres::start(Options::read(&url).unwrap(), owner_of(1)).unwrap();
    let theirs = DatabaseStore::new(Arc::new(other), scratch.path().to_owned());
    let location = location_of(&session);
    assert_eq!(snapshot(&theirs.open_read_only(&location).unwrap()), snapshot(&session));
    // The connection that listens uses TLS, too.
    let (sender, woken) = channel();
    let wake = Box::new(move || sender.send(()).unwrap_or_default());
    let _watch = theirs.watch(&location, wake).unwrap();
    say(&mut session, "more");
    while theirs.lines_since(&location, 1).unwrap().unwrap().is_empty() {
        woken.recv_timeout(LIMIT).expect("the follower is woken");
    }
    let name = url.split('?').next().unwrap().rsplit('/').next().unwrap();
    let connections = format!(
        "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE datname = '{name}' AND application_name = 'tiller'"
    );
    assert_eq!(secure.cluster.sql("postgres", &connections), "t");
}

#[test]
fn server_of_another_authority_is_refused() {
    let Some(secure) = secure() else { return };
    let url = secure.cluster.tcp_url(&secure.database());
    let another = secure.certificates.another.display();
    for parameters in [
        // Those of the system do not know the authority.
        "sslmode=require".to_owned(),
        "sslmode=verify-full".to_owned(),
        "sslmode=prefer".to_owned(),
        format!("sslmode=require&sslrootcert={another}"),
    ] {
        let error = error_of(&format!("{url}?{parameters}"));
        assert!(error.contains("certificate"), "{parameters}: {error}");
        assert!(error.contains("error performing TLS handshake"), "{parameters}: {error}");
    }
}

#[test]
fn server_with_the_certificate_of_another_host_is_refused() {
    let Some(secure) = secure() else { return };
    let url = secure.cluster.tcp_url(&secure.database()).replace("127.0.0.1", "localhost");
    let error = error_of(&format!("{url}?{}", secure.trusted()));
    assert!(error.contains("certificate not valid for name \"localhost\""), "{error}");
}

#[test]
fn connection_without_tls_is_refused_where_the_server_demands_it() {
    let Some(secure) = secure() else { return };
    let url = secure.cluster.tcp_url(&secure.database());
    // The default for a server on this machine.
    for parameters in ["", "?sslmode=disable"] {
        let error = error_of(&format!("{url}{parameters}"));
        assert!(error.contains("no encryption (28000)"), "{error}");
    }
}

#[test]
fn server_without_tls_is_refused_where_the_url_demands_it() {
    let Some(cluster) = cluster() else { return };
    let url = cluster.create_database();
    let error = error_of(&format!("{url}?sslmode=require"));
    assert!(error.contains("TLS"), "{error}");
    // Where it is only preferred, the connection is made.
    let postgres = connect(&format!("{url}?sslmode=prefer"));
    postgres.init(2).unwrap();
}

#[test]
fn file_without_certificates_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let start = |path: &str| {
        let url =
            format!("postgres://ada:geheim@127.0.0.1:1/work?sslmode=require&sslrootcert={path}");
        Postgres::start(Options::read(&url).unwrap(), owner_of(0)).map(drop)
    };
    let missing = start("/nowhere/ca.pem").unwrap_err();
    assert_eq!(
        missing,
        "cannot read /nowhere/ca.pem (sslrootcert): No such file or directory (os error 2)"
    );
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    let error = start(broken.to_str().unwrap()).unwrap_err();
    assert!(error.starts_with("cannot read ") && error.contains("(sslrootcert): "), "{error}");
}
