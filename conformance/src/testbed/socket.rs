//! Sockets on which programs speak to the server of a testbed, and the files of these programs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use http::Request;
use hyper::body::Incoming;
use kubeproof_apiserver::{ApiServer, Tls, serve, serve_requests, serve_tls};
use kubeproof_machinery::json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// An open socket on loopback.
pub(super) struct Listening {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    listener: JoinHandle<io::Result<()>>,
}

impl Listening {
    /// Opens a socket. Needs a runtime with I/O.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub(super) async fn plain(server: &ApiServer) -> io::Result<Self> {
        let server = server.clone();
        Self::serving(|listener, shutdown| {
            tokio::spawn(serve(server, listener, shutdown.map(|_| ())))
        })
        .await
    }

    /// Opens a socket for TLS. Needs a runtime with I/O.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub(super) async fn encrypted(server: &ApiServer, tls: &Tls) -> io::Result<Self> {
        let (server, tls) = (server.clone(), tls.clone());
        Self::serving(|listener, shutdown| {
            tokio::spawn(serve_tls(server, listener, tls, shutdown.map(|_| ())))
        })
        .await
    }

    async fn serving(
        serve: impl FnOnce(TcpListener, oneshot::Receiver<()>) -> JoinHandle<io::Result<()>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self {
            address,
            stop: Some(stop),
            listener: serve(listener, stopped),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
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

impl Drop for Listening {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// A directory of one run, which is removed with its end.
pub(super) struct RunDirectory(PathBuf);

impl RunDirectory {
    /// Makes one below the directory for temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn make() -> io::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("kubeproof-{}-{run}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the kubeconfig of a run.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write_kubeconfig(&self, cluster: &ClusterAccess<'_>) -> io::Result<()> {
        std::fs::write(self.kubeconfig(), cluster.kubeconfig())
    }

    /// The path of the kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig.yaml")
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Remnants in a temporary directory do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The facts of the server that a client has to know.
pub(super) struct ClusterAccess<'a> {
    /// `http://127.0.0.1:41227`
    pub(super) url: &'a str,
    /// The namespace of requests that name none.
    pub(super) namespace: &'a str,
    /// The certificate of the authority in PEM, and the token of the client.
    pub(super) credentials: Option<(&'a str, &'a str)>,
}

impl ClusterAccess<'_> {
    fn kubeconfig(&self) -> String {
        let (mut cluster, mut user) = (json!({"server": self.url}), json!({}));
        if let Some((authority, token)) = self.credentials {
            cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
            user["token"] = token.into();
        }
        let config: Value = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubeproof", "cluster": cluster}],
            "users": [{"name": "kubeproof", "user": user}],
            "contexts": [{
                "name": "kubeproof",
                "context": {"cluster": "kubeproof", "user": "kubeproof", "namespace": self.namespace},
            }],
            "current-context": "kubeproof",
        });
        // JSON is YAML.
        config.to_string()
    }
}

/// An open socket, with a directory for the files of its clients.
pub(super) struct Socket {
    listening: Listening,
    directory: RunDirectory,
}

impl Socket {
    /// Opens a socket on loopback, and writes a kubeconfig with `namespace` for it; `watched` counts the watches that have
    /// been answered. Needs a runtime with I/O.
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
        let listening = Listening::serving(|listener, shutdown| {
            tokio::spawn(serve_requests(listener, None, shutdown.map(|_| ()), answer))
        });
        let (listening, directory) = (listening.await?, RunDirectory::make()?);
        directory.write_kubeconfig(&ClusterAccess {
            url: &format!("http://{}", listening.address()),
            namespace,
            credentials: None,
        })?;
        Ok(Self {
            listening,
            directory,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.kubeconfig()
    }

    /// Closes the socket and its connections.
    pub(super) async fn close(self) {
        self.listening.close().await;
    }
}

/// The parameter of a watch.
const WATCH: [&str; 2] = ["watch=true", "watch=1"];
