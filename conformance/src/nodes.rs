//! The simulated nodes as the server sees them: its kubelet is the controllers' one.

mod ports;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use kubeproof_apiserver::{
    ApiServer, ContainerReference, ContainerStreams, ContainerUsage, ExecOptions, Kubelet,
    KubeletError, LogOptions, OutputStream, PodPorts,
};
use kubeproof_controller::Manager;
use kubeproof_node::{self as node, Channel, Containers, PodReference, Refusal, Session};

pub use ports::{BadPortForward, PortForward};

#[derive(Debug)]
struct Nodes {
    containers: Containers,
    forwards: Arc<[PortForward]>,
}

/// Lets `server` ask the nodes of `manager` for logs, streams and ports.
pub fn connect(server: &ApiServer, manager: &Manager) {
    connect_with(server, manager, Vec::new());
}

/// Lets `server` ask the nodes of `manager` for logs, streams and ports; `forwards` map ports to programs outside of
/// the nodes, unless annotations of the pods do.
pub fn connect_with(server: &ApiServer, manager: &Manager, forwards: Vec<PortForward>) {
    server.set_kubelet(Arc::new(Nodes {
        containers: manager.containers().clone(),
        forwards: forwards.into(),
    }));
}

impl Kubelet for Nodes {
    fn logs(
        &self,
        container: ContainerReference<'_>,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, KubeletError> {
        let options = node::LogOptions {
            follow: options.follow,
            previous: options.previous,
            timestamps: options.timestamps,
            tail_lines: options.tail_lines,
            limit_bytes: options.limit_bytes,
            since_seconds: options.since_seconds,
            since_time: options.since_time,
        };
        let log = self
            .containers
            .logs(pod(container), container.container, options);
        log.map_err(refused)
    }

    fn exec(
        &self,
        container: ContainerReference<'_>,
        command: Vec<String>,
        options: ExecOptions,
    ) -> Result<ContainerStreams, KubeletError> {
        let name = container.container;
        let options = node::ExecOptions {
            stdin: options.stdin,
            tty: options.tty,
        };
        let session = self.containers.exec(pod(container), name, command, options);
        session.map(streams).map_err(refused)
    }

    fn attach(
        &self,
        container: ContainerReference<'_>,
        stdin: bool,
    ) -> Result<ContainerStreams, KubeletError> {
        let name = container.container;
        let session = self.containers.attach(pod(container), name, stdin);
        session.map(streams).map_err(refused)
    }

    fn port_forward(
        &self,
        pod: kubeproof_apiserver::PodReference<'_>,
    ) -> Result<PodPorts, KubeletError> {
        let reference = PodReference {
            name: pod.name,
            uid: pod.uid,
            node: pod.node,
        };
        let network = self.containers.network(reference, pod.namespace);
        let network = network.map_err(refused)?;
        Ok(ports::of(network, Arc::clone(&self.forwards)))
    }

    fn usage(
        &self,
        container: ContainerReference<'_>,
        time: Timestamp,
        window: i64,
    ) -> Option<ContainerUsage> {
        let (uid, name) = (container.uid, container.container);
        let consumed = self.containers.consumed(uid, name, time, window)?;
        Some(ContainerUsage {
            cpu: consumed.cpu,
            memory: consumed.memory,
        })
    }
}

fn pod(container: ContainerReference<'_>) -> PodReference<'_> {
    PodReference {
        name: container.pod,
        uid: container.uid,
        node: container.node,
    }
}

fn refused(refusal: Refusal) -> KubeletError {
    match refusal {
        Refusal::UnknownNode => KubeletError::Unreachable,
        Refusal::BadRequest(message) => KubeletError::BadRequest(message),
        Refusal::ContainerNotFound(_) | Refusal::PodNotFound(_) => {
            KubeletError::Failed(refusal.to_string())
        }
    }
}

fn streams(session: Session) -> ContainerStreams {
    let output = session.output.map(|(channel, bytes)| {
        let stream = match channel {
            Channel::Stdout => OutputStream::Stdout,
            Channel::Stderr => OutputStream::Stderr,
        };
        (stream, bytes)
    });
    ContainerStreams {
        output: output.boxed(),
        input: session.input,
        ended: session.ended,
    }
}
