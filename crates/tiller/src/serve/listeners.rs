//! The sockets of a server: who may connect to them, and how they come and go.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Uid;
use tiller_server::Router;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::address::Address;
use super::http::{self, HttpServer};
use super::lines::serve_lines;

/// How long to wait after a connection could not be accepted, for example because the process has
/// no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that is open for clients.
pub(crate) enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// The file of a Unix socket, which is removed with it.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and the number of the file.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    /// Another program may have removed the file, or put its own in its place.
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

impl Listener {
    pub(crate) async fn open(address: &Address) -> Result<Listener, String> {
        let cannot = |err: io::Error| format!("cannot listen on {address}: {err}");
        match address {
            Address::Unix(path) => {
                remove_stale(path).await?;
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder).map_err(cannot)?;
                }
                let listener = bind_private(path).map_err(cannot)?;
                let identity = identity(path).map_err(cannot)?;
                Ok(Listener::Unix(listener, SocketFile { path: path.clone(), identity }))
            }
            Address::WebSocket(address) => {
                Ok(Listener::Tcp(TcpListener::bind(address).await.map_err(cannot)?))
            }
        }
    }

    /// The address with the port that was chosen.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Unix(_, SocketFile { path, .. }) => Ok(Address::Unix(path.clone())),
            Listener::Tcp(listener) => Ok(Address::WebSocket(listener.local_addr()?)),
        }
    }

    /// Serves clients until the task is aborted.
    pub(crate) async fn serve(self, router: Router, http: Arc<HttpServer>) {
        match self {
            Listener::Unix(listener, _file) => loop {
                match listener.accept().await {
                    Ok((stream, _)) if is_own_user(&stream) => {
                        let (inputs, output) = router.connect();
                        let (read, write) = stream.into_split();
                        tokio::spawn(serve_lines(read, write, inputs, output));
                    }
                    // Other users get no answer.
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            },
            Listener::Tcp(listener) => loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let id = http.pending.next_id();
                        let task = tokio::spawn(http::serve(http.clone(), stream, id));
                        http.pending.add(id, task.abort_handle());
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            },
        }
    }
}

/// The file's mode already keeps others out; this also holds in a folder whose owner changes it.
fn is_own_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == Uid::effective().as_raw())
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Binds a socket that only its owner can connect to, from its first moment: it is made under
/// another name and renamed when its mode is set.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let private = tempfile::Builder::new()
        .prefix(".tiller-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(folder)?;
    let draft = private.path().join("s");
    let listener = UnixListener::bind(&draft)?;
    std::fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
    std::fs::rename(&draft, path)?;
    Ok(listener)
}

/// Removes the socket of a server that is gone. A socket that answers is in use.
async fn remove_stale(path: &Path) -> Result<(), String> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(format!("cannot listen on unix:{}: {err}", path.display())),
    };
    if !kind.is_socket() {
        return Err(format!("cannot listen on unix:{}: the file exists", path.display()));
    }
    match UnixStream::connect(path).await {
        Err(err) if err.kind() == ErrorKind::ConnectionRefused => {}
        // A server that is too busy to accept is there, too.
        _ => return Err(format!("another server listens on unix:{} already", path.display())),
    }
    std::fs::remove_file(path)
        .map_err(|err| format!("cannot remove the old socket {}: {err}", path.display()))
}
