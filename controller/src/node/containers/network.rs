//! The ports of pods.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio::io::DuplexStream;

use super::{Containers, Pod, PodReference, Refusal, Run};
use crate::node::container::{Container, Found, Log};
use crate::node::identity;
use crate::node::server::{Page, Server};

/// The ports of one pod that runs.
#[derive(Clone, Debug)]
pub struct Network {
    containers: Containers,
    uid: String,
    /// The pod's namespace and name.
    pod: (String, String),
}

/// What is behind a port on its node.
pub enum Behind {
    /// A program that listens: its side of a connection.
    Program(DuplexStream),
    /// A simulated container.
    Site(Box<Site>),
    /// Nobody listens.
    Nobody,
}

/// What a simulated container answers on a port.
pub struct Site {
    container: Container,
    server: Server,
    log: Arc<Log>,
    pod: (String, String),
    port: u16,
}

impl Containers {
    /// The ports of a pod.
    ///
    /// # Errors
    /// [`Refusal::UnknownNode`]; [`Refusal::PodNotFound`] unless the pod runs.
    pub fn network(&self, pod: PodReference<'_>, namespace: &str) -> Result<Network, Refusal> {
        if !self.knows(pod.node) {
            return Err(Refusal::UnknownNode);
        }
        let pods = self.pods.lock();
        let slots = pods.get(pod.uid).map(|own| own.containers.values());
        // The sandbox stays while a container waits for its next run.
        let mut alive = slots.into_iter().flatten();
        if !alive.any(|slot| slot.backs_off || !slot.run.log.is_closed()) {
            let name = format!("{}_{namespace}", pod.name);
            return Err(Refusal::PodNotFound(name));
        }
        Ok(Network {
            containers: self.clone(),
            uid: pod.uid.to_owned(),
            pod: (namespace.to_owned(), pod.name.to_owned()),
        })
    }
}

impl Network {
    /// The id of the pod's sandbox.
    #[must_use]
    pub fn sandbox(&self) -> String {
        identity::sandbox_id(&self.uid)
    }

    /// The name of the pod.
    #[must_use]
    pub fn pod(&self) -> &str {
        &self.pod.1
    }

    /// The namespace of the pod.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.pod.0
    }

    /// Whether anything of the pod runs now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let pods = self.containers.pods.lock();
        let pod = pods.get(&self.uid);
        pod.is_some_and(|pod| running(pod).next().is_some())
    }

    /// Where a port leads beside the node, as the pod says or its namespace for it.
    #[must_use]
    pub fn forwarded(&self, port: u16) -> Option<SocketAddr> {
        let pods = self.containers.pods.lock();
        pods.get(&self.uid)?.forwards.get(&port).copied()
    }

    /// Connects to a port: to a program that listens there, or to the server that its container is
    /// taken to have there.
    #[must_use]
    pub fn connect(&self, port: u16) -> Behind {
        let pods = self.containers.pods.lock();
        let Some(pod) = pods.get(&self.uid) else {
            return Behind::Nobody;
        };
        for run in running(pod) {
            match run.container.listeners.connect(port) {
                Found::Connection(connection) => return Behind::Program(connection),
                // A port is that of the program that has listened there.
                Found::Refusal => return Behind::Nobody,
                Found::Nothing => {}
            }
        }
        let mut running = running(pod);
        let Some(run) = running.find(|run| run.ports.contains(&port)) else {
            return Behind::Nobody;
        };
        Behind::Site(Box::new(Site {
            container: run.container.clone(),
            server: run.server.clone(),
            log: Arc::clone(&run.log),
            pod: self.pod.clone(),
            port,
        }))
    }

    /// Why there is no connection to a port where nobody listens, in the words of containerd.
    #[must_use]
    pub fn refused(&self, port: u16) -> String {
        let (namespace, id) = (identity::network_namespace(&self.uid), self.sandbox());
        format!(
            "failed to execute portforward in network namespace {namespace:?}: failed to connect to \
             localhost:{port} inside namespace {id:?}, IPv4: dial tcp4 127.0.0.1:{port}: connect: \
             connection refused IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
        )
    }

    /// Waits until everything that runs of the pod now has ended.
    #[must_use]
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        let pods = self.containers.pods.lock();
        let slots = pods.get(&self.uid).map(|pod| pod.containers.values());
        let logs = slots.into_iter().flatten().map(|slot| slot.run.log.clone());
        let ends: Vec<_> = logs.map(|log| async move { log.closed().await }).collect();
        async move { drop(join_all(ends).await) }.boxed()
    }
}

/// The runs of a pod's containers that are not over.
fn running(pod: &Pod) -> impl Iterator<Item = &Run> {
    let runs = pod.containers.values().map(|slot| &slot.run);
    runs.filter(|run| !run.log.is_closed())
}

impl Site {
    /// What it answers to a GET of `path`: a file, if its image serves files, or else a line that names
    /// the pod and the port.
    #[must_use]
    pub fn get(&self, path: &str) -> Page {
        self.server.page(path, &self.container).unwrap_or_else(|| {
            let (namespace, pod) = &self.pod;
            Page {
                status: 200,
                content_type: "text/plain; charset=utf-8",
                body: format!("pod {namespace}/{pod}, port {}\n", self.port).into_bytes(),
            }
        })
    }

    /// Waits until the container has ended.
    #[must_use]
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        let log = Arc::clone(&self.log);
        async move { log.closed().await }.boxed()
    }

    /// Whether it serves files alone, which are only read.
    #[must_use]
    pub fn serves_files(&self) -> bool {
        self.server.page("/", &self.container).is_some()
    }
}
