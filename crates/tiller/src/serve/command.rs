//! `tiller serve`: the command line, the start and the end of the server.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Parser};
use tiller_protocol::{Level, ServerRecord};
use tiller_server::connection::{ClientInput, Signal};
use tiller_server::{Router, RouterConfig, RouterEnd};
use tokio::sync::mpsc;

use super::access::AccessRules;
use super::address::Address;
use super::http::HttpServer;
use super::listeners::Listener;
use super::opener::Opener;
use super::pending::PendingConnections;
use super::runtime;
use super::token;
use crate::launch::ProcessEnv;
use crate::print_mode::print_stderr;
use crate::stdio::listen_for_signals;
use crate::usage::StartError;

/// Serve many sessions on sockets
#[derive(Debug, Parser)]
#[command(
    name = "tiller serve",
    disable_version_flag = true,
    long_about = include_str!("../../texts/serve-about.md"),
    after_help = include_str!("../../texts/serve-examples.md")
)]
pub struct ServeCommand {
    /// Listen here: unix:PATH or ws://HOST:PORT; may be repeated [default: unix: in the agent folder]
    #[arg(long, value_name = "ADDRESS", action = ArgAction::Append)]
    listen: Vec<String>,
    /// Serve a page for the browser at the WebSocket's address
    #[arg(long)]
    web: bool,
    /// The file of the token [default: serve-token in the agent folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Accept addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,
    /// Accept this host name in requests; may be repeated
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    allow_host: Vec<String>,
    /// Accept web pages of this origin; may be repeated
    #[arg(long, value_name = "ORIGIN", action = ArgAction::Append)]
    allow_origin: Vec<String>,
    /// Store sessions in this database: postgres://…, or `files` [default: TILLER_STORE]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where clients of other processes reach this one, for errors that name it [default: the first
    /// address]
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<String>,
    /// Drop a session from memory when it was idle for so long; 0 means never
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    idle_close: u64,
    /// The most sessions that may be open
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_sessions: usize,
    /// The most extensions that the open sessions may load, all together
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_extensions: usize,
    /// How long runs may go on after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain_seconds: u64,
    /// Options of `tiller --mode rpc` for every session
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl ServeCommand {
    /// Serves until a signal ends it. Returns the exit code.
    pub fn run(self, env: ProcessEnv) -> Result<u8, StartError> {
        let agent_dir = env.agent_dir();
        let texts = if self.listen.is_empty() { vec!["unix:".to_owned()] } else { self.listen };
        let read = |text: &String| Address::read(text, &agent_dir).map_err(StartError::Usage);
        let addresses = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let has_tcp = addresses.iter().any(|address| matches!(address, Address::WebSocket(_)));
        if let Some(remote) = addresses.iter().find(|address| !address.is_local())
            && !self.allow_remote
        {
            return Err(StartError::Usage(format!(
                "{remote} can be reached by other machines; pass --allow-remote if they may use \
                 this server, and put a proxy with TLS in front of it"
            )));
        }
        if self.web && !has_tcp {
            let why = "--web needs an address for browsers, such as --listen ws://127.0.0.1:7433";
            return Err(StartError::Usage(why.to_owned()));
        }
        let token_file = self.token_file.unwrap_or_else(|| agent_dir.join("serve-token"));
        let token = if has_tcp { token::read_or_create(&token_file)? } else { String::new() };
        let env = env.with_store(self.store.as_deref());
        if let Some(address) = self.advertise {
            env.serves_at(address);
        }
        let opener = Opener::new(self.options, env.clone())?;
        let router_config = RouterConfig {
            level: Level::PiDelta,
            idle_limit: (self.idle_close > 0).then(|| Duration::from_secs(self.idle_close)),
            max_sessions: self.max_sessions,
            max_extensions: self.max_extensions,
        };
        let access = AccessRules {
            token,
            hosts: self.allow_host,
            origins: self.allow_origin,
            allows_remote: self.allow_remote,
        };
        let drain = Duration::from_secs(self.drain_seconds);
        tiller_tools::process::install();
        let runtime = runtime::start()?;
        let code = runtime.block_on(async {
            let router = Router::new(router_config, Arc::new(opener));
            let pending = PendingConnections::default();
            let http = HttpServer {
                router: router.clone(),
                access,
                serves_page: self.web,
                pending,
                databases: env.databases().clone(),
            };
            serve(router, Arc::new(http), addresses, drain, &env).await
        });
        env.databases().close();
        runtime.shutdown_background();
        Ok(code?)
    }
}

/// How long clients have to read their last records.
const DISCONNECT_LIMIT: Duration = Duration::from_secs(2);

async fn serve(
    router: Router,
    http: Arc<HttpServer>,
    addresses: Vec<Address>,
    drain: Duration,
    env: &ProcessEnv,
) -> Result<u8, String> {
    let (signals, mut received) = mpsc::channel(8);
    listen_for_signals(signals);
    let mut listeners = Vec::new();
    for address in &addresses {
        listeners.push(Listener::open(address).await?);
    }
    for listener in &listeners {
        let address = listener.address().map_err(|err| format!("cannot read an address: {err}"))?;
        env.serves_at(address.absolute(&env.cwd).to_string());
    }
    // The owner of sessions has an address by now. A database that cannot be used is reported here
    // rather than with the first session.
    router.check_store()?;
    let mut tasks = Vec::new();
    for listener in listeners {
        let address = listener.address().map_err(|err| format!("cannot read an address: {err}"))?;
        announce(&address, http.serves_page.then_some(&http.access.token))?;
        tasks.push(tokio::spawn(listener.serve(router.clone(), http.clone())));
    }
    let code = exit_code(&mut received).await;
    print_stderr(&format!("Ending; runs have {} s. Press Ctrl-C to end at once", drain.as_secs()));
    tokio::select! {
        () = router.end(RouterEnd::Stop { within: drain }) => {}
        _ = exit_code(&mut received) => {
            router.end(RouterEnd::Stop { within: Duration::ZERO }).await;
        }
    }
    router.disconnect_clients(DISCONNECT_LIMIT).await;
    for task in tasks {
        task.abort();
        // Its socket file is removed when the task has ended.
        task.await.ok();
    }
    Ok(code)
}

/// Writes where the server listens, for programs to stdout and for the page to stderr.
fn announce(address: &Address, page_token: Option<&String>) -> Result<(), String> {
    let record = ServerRecord::Listening { address: address.to_string().into() };
    let mut line = serde_json::to_string(&record).expect("our own types serialize to JSON");
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|err| format!("cannot write to stdout: {err}"))?;
    if let (Address::WebSocket(address), Some(token)) = (address, page_token) {
        print_stderr(&format!("The page: http://{address}/#token={token}"));
    }
    Ok(())
}

async fn exit_code(received: &mut mpsc::Receiver<ClientInput>) -> u8 {
    loop {
        match received.recv().await {
            Some(ClientInput::Signal(Signal::Interrupt)) => return 130,
            Some(ClientInput::Signal(Signal::Terminate)) => return 0,
            Some(ClientInput::Signal(Signal::HangUp)) => return 129,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
