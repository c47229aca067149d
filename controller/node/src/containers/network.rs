//! The ports of pods.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::io::DuplexStream;

use super::consumer::{Asked, Consumption, consume, spread};
use super::{Containers, Pod, PodReference, Refusal, Run};
use crate::container::Found;
use crate::identity;
use crate::program::Serves;
use crate::server::{Page, Server};

/// The network of one running pod.
#[derive(Clone, Debug)]
pub struct Network {
    containers: Containers,
    uid: String,
    /// The pod's namespace and name.
    pod: (String, String),
}

/// The target of a connection to a port of a pod.
pub enum Behind {
    /// A program of the container that listens: the client's side of the connection.
    Program(DuplexStream),
    /// The HTTP server that a simulated container is taken to have.
    Site(Box<Site>),
    /// No listener: the connection is refused.
    Nobody,
}

/// The HTTP server of a simulated container on one port.
pub struct Site {
    run: Arc<Run>,
    server: Server,
    containers: Containers,
    pod: (String, String),
    port: u16,
}

impl Containers {
    /// Returns the network of a pod.
    ///
    /// # Errors
    /// [`Refusal::UnknownNode`]; [`Refusal::PodNotFound`] unless the pod is running.
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

/// Lets the programs of containers read objects for as long as this exists.
pub(crate) struct Linked(Containers);

impl Drop for Linked {
    fn drop(&mut self) {
        *self.0.client.lock() = None;
    }
}

impl Containers {
    /// Lets the programs of containers read objects until the returned value is dropped.
    pub(crate) fn link(&self, client: Client) -> Linked {
        *self.client.lock() = Some(client);
        Linked(self.clone())
    }

    /// Returns what a program that counts its own use has used on average in the `window` seconds before `time`; `None`
    /// for other programs.
    #[must_use]
    pub fn consumed(
        &self,
        uid: &str,
        container: &str,
        time: Timestamp,
        window: i64,
    ) -> Option<Consumption> {
        let run = Arc::clone(&self.pods.lock().get(uid)?.containers.get(container)?.run);
        run.consumes().then(|| run.loads.at(time, window))
    }

    /// Returns the consumers that are ready behind a service.
    async fn consumers(&self, namespace: &str, service: &str) -> Vec<Arc<Run>> {
        let client = self.client.lock().clone();
        let Some(client) = client else {
            return Vec::new();
        };
        let slices: Api<EndpointSlice> = Api::namespaced(client, namespace);
        let selected = format!("kubernetes.io/service-name={service}");
        let slices = slices.list(&ListParams::default().labels(&selected)).await;
        let slices = slices.map(|list| list.items).unwrap_or_default();
        let endpoints = slices.iter().flat_map(|slice| {
            let port = slice.ports.iter().flatten().find_map(|own| own.port);
            let ready = slice.endpoints.iter().flatten().filter(|own| is_ready(own));
            ready.filter_map(move |own| Some((own.target_ref.as_ref()?.uid.clone()?, port?)))
        });
        let found = endpoints.filter_map(|(uid, port)| self.consumer(&uid, port));
        found.collect()
    }

    /// Returns the consumer that listens on a port of a pod.
    fn consumer(&self, uid: &str, port: i32) -> Option<Arc<Run>> {
        let pods = self.pods.lock();
        let mut runs = running(pods.get(uid)?);
        let found = runs.find(|run| {
            let listens = run.ports.iter().any(|own| i32::from(*own) == port);
            listens && run.consumes()
        });
        found.cloned()
    }
}

fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|own| own.ready) != Some(false)
}

impl Network {
    /// Returns the id of the pod's sandbox.
    #[must_use]
    pub fn sandbox(&self) -> String {
        identity::sandbox_id(&self.uid)
    }

    /// Returns the name of the pod.
    #[must_use]
    pub fn pod(&self) -> &str {
        &self.pod.1
    }

    /// Returns the namespace of the pod.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.pod.0
    }

    /// Returns whether a container of the pod is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let pods = self.containers.pods.lock();
        let pod = pods.get(self.uid.as_str());
        pod.is_some_and(|pod| running(pod).next().is_some())
    }

    /// Returns the address that a port is forwarded to by an annotation of the pod or of its
    /// Namespace.
    #[must_use]
    pub fn forwarded(&self, port: u16) -> Option<SocketAddr> {
        let pods = self.containers.pods.lock();
        pods.get(self.uid.as_str())?.forwards.get(&port).copied()
    }

    /// Connects to a port: to a program that listens there, or to the HTTP server that its
    /// container is taken to have.
    #[must_use]
    pub fn connect(&self, port: u16) -> Behind {
        let pods = self.containers.pods.lock();
        let Some(pod) = pods.get(self.uid.as_str()) else {
            return Behind::Nobody;
        };
        for run in running(pod) {
            match run.container.connect(port) {
                Found::Connection(connection) => return Behind::Program(connection),
                // A port belongs to the program that has listened there.
                Found::Refusal => return Behind::Nobody,
                Found::Nothing => {}
            }
        }
        let mut running = running(pod);
        let Some(run) = running.find(|run| run.ports.contains(&port)) else {
            return Behind::Nobody;
        };
        Behind::Site(Box::new(Site {
            run: Arc::clone(run),
            server: run.server(),
            containers: self.containers.clone(),
            pod: self.pod.clone(),
            port,
        }))
    }

    /// Returns containerd's message for a port without a listener.
    #[must_use]
    pub fn refused(&self, port: u16) -> String {
        let (namespace, id) = (identity::network_namespace(&self.uid), self.sandbox());
        format!(
            "failed to execute portforward in network namespace {namespace:?}: failed to connect to \
             localhost:{port} inside namespace {id:?}, IPv4: dial tcp4 127.0.0.1:{port}: connect: \
             connection refused IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
        )
    }

    /// Waits until every container of the pod that is running now has ended.
    #[must_use]
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        let pods = self.containers.pods.lock();
        let slots = pods
            .get(self.uid.as_str())
            .map(|pod| pod.containers.values());
        let logs = slots.into_iter().flatten().map(|slot| slot.run.log.clone());
        let ends: Vec<_> = logs.map(|log| async move { log.closed().await }).collect();
        async move { drop(join_all(ends).await) }.boxed()
    }
}

/// Returns the running containers of a pod.
fn running(pod: &Pod) -> impl Iterator<Item = &Arc<Run>> {
    let runs = pod.containers.values().map(|slot| &slot.run);
    runs.filter(|run| !run.log.is_closed())
}

impl Site {
    /// Answers a request as the image's program does if that is known, else with a line that names the pod and the
    /// port.
    pub async fn answer(&self, asked: Asked<'_>) -> Page {
        let Run {
            container, loads, ..
        } = &*self.run;
        let line = match self.server.serves() {
            Some(Serves::Files(_)) => return self.server.page(asked.path, container),
            Some(Serves::Consumer) => return consume(asked, loads, (container.now)()),
            Some(Serves::ConsumerController { namespace, name }) => {
                let consumers = self.containers.consumers(namespace, name).await;
                let loads: Vec<_> = consumers.iter().map(|run| &run.loads).collect();
                return spread(asked, &loads, (container.now)());
            }
            Some(Serves::Hostname) => container.hostname.to_string(),
            None => {
                let (namespace, pod) = &self.pod;
                format!("pod {namespace}/{pod}, port {}\n", self.port)
            }
        };
        Page {
            status: 200,
            content_type: "text/plain; charset=utf-8",
            body: line.into_bytes(),
        }
    }

    /// Waits until the container has ended.
    #[must_use]
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        let log = Arc::clone(&self.run.log);
        async move { log.closed().await }.boxed()
    }

    /// Returns whether the server has static files only, which are read with GET.
    #[must_use]
    pub fn serves_files(&self) -> bool {
        matches!(self.server.serves(), Some(Serves::Files(_)))
    }
}
