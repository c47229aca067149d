//! A socket on which programs speak to the server of a testbed.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use http::Request;
use hyper::body::Incoming;
use kubeproof_apiserver::{ApiServer, serve, serve_requests};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// An open socket, with a directory for the files of its clients.
pub(super) struct Socket {
    address: SocketAddr,
    directory: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    listener: JoinHandle<io::Result<()>>,
}

impl Socket {
    /// Opens a socket on loopback, and writes a kubeconfig with `namespace` for it. Needs a runtime with I/O.
    ///
    /// # Errors
    /// When the socket or the files cannot be created.
    pub(super) async fn open(server: &ApiServer, namespace: &str) -> io::Result<Self> {
        let server = server.clone();
        Self::serving(namespace, |listener, shutdown| {
            tokio::spawn(serve(server, listener, shutdown.map(|_| ())))
        })
        .await
    }

    /// Opens a socket as [`Socket::open`] does; `watched` counts the watches that have been answered.
    ///
    /// # Errors
    /// When the socket or the files cannot be created.
    pub(super) async fn open_counting(
        server: &ApiServer,
        namespace: &str,
        watched: watch::Sender<u64>,
    ) -> io::Result<Self> {
        let server = server.clone();
        let answer = move |request: Request<Incoming>| {
            let (server, watched) = (server.clone(), watched.clone());
            let query = request.uri().query().unwrap_or_default();
            let is_watch = query.split('&').any(|part| WATCH.contains(&part));
            async move {
                let response = server.handle(request).await;
                if is_watch {
                    watched.send_modify(|count| *count += 1);
                }
                response
            }
        };
        Self::serving(namespace, |listener, shutdown| {
            tokio::spawn(serve_requests(listener, None, shutdown.map(|_| ()), answer))
        })
        .await
    }

    async fn serving(
        namespace: &str,
        serve: impl FnOnce(TcpListener, oneshot::Receiver<()>) -> JoinHandle<io::Result<()>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let directory = own_directory()?;
        let kubeconfig = kubeconfig_text(address, namespace);
        std::fs::write(directory.join(KUBECONFIG), kubeconfig)?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self {
            address,
            directory,
            stop: Some(stop),
            listener: serve(listener, stopped),
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join(KUBECONFIG)
    }

    /// Closes the socket and its connections.
    pub(super) async fn close(mut self) {
        if let Some(stop) = self.stop.take() {
            // The listener may have failed, and is gone then.
            let _ = stop.send(());
        }
        let _ = (&mut self.listener).await;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.listener.abort();
        // Remnants in a temporary directory do no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

const KUBECONFIG: &str = "kubeconfig.yaml";
/// The parameter of a watch.
const WATCH: [&str; 2] = ["watch=true", "watch=1"];

/// A directory of this run alone.
fn own_directory() -> io::Result<PathBuf> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("kubeproof-{}-{run}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}

fn kubeconfig_text(address: SocketAddr, namespace: &str) -> String {
    let config: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubeproof", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "kubeproof", "user": {}}],
        "contexts": [{
            "name": "kubeproof",
            "context": {"cluster": "kubeproof", "user": "kubeproof", "namespace": namespace},
        }],
        "current-context": "kubeproof",
    });
    // JSON is YAML.
    config.to_string()
}
