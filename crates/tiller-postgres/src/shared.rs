//! What all parts of the store share: the connections, the names of tables, and this process.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::claims::Held;
use crate::failure::{Failure, FailureKind};
use crate::host::HostName;
use crate::options::Options;

/// Parameters of a statement, with their types. Statements are sent with them in one message, and
/// nothing is prepared on a connection: so they pass every pooler.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) pool: Pool,
    pub(crate) host: HostName,
    pub(crate) held: Held,
    tls: Option<ClientConfig>,
}

impl Shared {
    pub(crate) fn new(options: Options, host: HostName) -> Result<Arc<Shared>, String> {
        let tls = match options.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls(&options)?),
        };
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &tls {
            Some(tls) => {
                let tls = MakeRustlsConnect::new(tls.clone());
                Manager::from_config(options.config.clone(), tls, config)
            }
            None => Manager::from_config(options.config.clone(), NoTls, config),
        };
        let limit = Some(options.timeout);
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .wait_timeout(limit)
            .create_timeout(limit)
            .recycle_timeout(limit)
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build()
            .map_err(|err| format!("cannot make a pool of connections: {err}"))?;
        Ok(Arc::new(Shared { options, pool, host, held: Held::default(), tls }))
    }

    /// The configuration of TLS, if connections use it.
    pub(crate) fn tls(&self) -> Option<&ClientConfig> {
        self.tls.as_ref()
    }

    /// A statement with the names of this store's tables.
    pub(crate) fn sql(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.options.schema)
    }

    /// When an attempt that begins now is given up.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Object, Failure> {
        match timeout_at(deadline, self.pool.get()).await {
            Ok(connection) => connection.map_err(|err| Failure::of_pool(&err)),
            Err(_) if self.pool.status().size < self.options.connections => {
                Err(Failure::no_answer())
            }
            Err(_) => Err(Failure::no_connection()),
        }
    }

    /// Runs a statement once, in a transaction of its own.
    pub(crate) async fn query(
        &self,
        deadline: Instant,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let begin = Instant::now();
        let connection = self.connection(deadline).await?;
        let statement = self.sql(statement);
        match timeout_at(deadline, connection.query_typed(&statement, parameters)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(err)) => Err(self.failed(connection, &err)),
            Err(_) => Err(self.give_up(connection, begin)),
        }
    }

    /// Runs a statement that may be repeated, until it succeeds, is refused, or the time is up.
    pub(crate) async fn query_again(
        &self,
        deadline: Instant,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let mut pause = Pause::new();
        let mut earlier = None;
        loop {
            match self.query(deadline, statement, parameters).await {
                Err(failure) if failure.may_pass() && pause.before(deadline).await => {
                    earlier = Some(failure.or_cause(earlier));
                }
                Err(failure) => return Err(failure.or_cause(earlier)),
                Ok(rows) => return Ok(rows),
            }
        }
    }

    /// Why a request on this connection has failed.
    pub(crate) fn failed(&self, connection: Object, err: &tokio_postgres::Error) -> Failure {
        let failure = Failure::of(err);
        if failure.kind == FailureKind::Busy {
            // For example a primary that has become a replica: another connection may lead to its
            // successor.
            drop(Object::take(connection));
        }
        failure
    }

    /// Closes a connection that did not answer a request that began then. The server may still
    /// carry the request out: it is not cancelled, because that would end its wait for a synchronous
    /// replica and show a commit that the replica does not have.
    pub(crate) fn give_up(&self, connection: Object, begin: Instant) -> Failure {
        drop(Object::take(connection));
        // Idle connections that were not used since then may lead into the same silence.
        let waited = begin.elapsed();
        self.pool.retain(|_, metrics| metrics.last_used() < waited);
        Failure::timeout()
    }
}

/// The growing pause between attempts.
pub(crate) struct Pause(Duration);

impl Pause {
    pub(crate) fn new() -> Pause {
        Pause(Duration::from_millis(10))
    }

    /// Waits. False: no time is left for another attempt.
    pub(crate) async fn before(&mut self, deadline: Instant) -> bool {
        if Instant::now() + self.0 >= deadline {
            return false;
        }
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_millis(500));
        true
    }
}

fn tls(options: &Options) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| format!("cannot set up TLS: {err}"))?;
    let roots = match &options.root_certificates {
        Some(path) => {
            let cannot =
                |why: String| format!("cannot read {} (sslrootcert): {why}", path.display());
            let pem = fs::read(path).map_err(|err| cannot(err.to_string()))?;
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|err| cannot(err.to_string()))?;
                roots.add(certificate).map_err(|err| cannot(err.to_string()))?;
            }
            roots
        }
        None => match builder.clone().with_platform_verifier() {
            Ok(builder) => return Ok(builder.with_no_client_auth()),
            // A machine without certificates of its own.
            Err(_) => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        },
    };
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
