//! The nodes' side of the API: what a server asks a kubelet for.

use std::fmt::Debug;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Answers for the containers of the nodes; [`ApiServer::set_kubelet`](crate::ApiServer::set_kubelet)
/// takes one for all of them.
pub trait Kubelet: Debug + Send + Sync {
    /// What a container has written, in chunks as they come.
    ///
    /// # Errors
    /// Whatever the kubelet refuses.
    fn logs(
        &self,
        container: ContainerReference<'_>,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, KubeletError>;

    /// A new process in a container.
    ///
    /// # Errors
    /// Whatever the kubelet refuses.
    fn exec(
        &self,
        container: ContainerReference<'_>,
        command: Vec<String>,
        options: ExecOptions,
    ) -> Result<ContainerStreams, KubeletError>;

    /// What the main process of a container writes from now on. It may read from the client if
    /// `stdin`.
    ///
    /// # Errors
    /// Whatever the kubelet refuses.
    fn attach(
        &self,
        container: ContainerReference<'_>,
        stdin: bool,
    ) -> Result<ContainerStreams, KubeletError>;

    /// The ports of a pod.
    ///
    /// # Errors
    /// Whatever the kubelet refuses.
    fn port_forward(&self, pod: PodReference<'_>) -> Result<PodPorts, KubeletError>;
}

/// A pod that is bound to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodReference<'a> {
    /// `metadata.namespace`
    pub namespace: &'a str,
    /// `metadata.name`
    pub name: &'a str,
    /// `metadata.uid`
    pub uid: &'a str,
    /// `spec.nodeName`
    pub node: &'a str,
}

/// A container of a pod that is bound to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerReference<'a> {
    /// The pod's `metadata.name`.
    pub pod: &'a str,
    /// The pod's `metadata.uid`.
    pub uid: &'a str,
    /// The pod's `spec.nodeName`.
    pub node: &'a str,
    /// The container's name.
    pub container: &'a str,
}

/// What a new process in a container is given, as `PodExecOptions` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// It reads what the client writes.
    pub stdin: bool,
    /// It has a terminal, which has one output: a kubelet echoes what is typed there.
    pub tty: bool,
}

/// Which part of a log is asked for, as `PodLogOptions` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on until the container ends.
    pub follow: bool,
    /// The run before the present one.
    pub previous: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last lines.
    pub tail_lines: Option<u64>,
    /// Nothing behind so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only what was written in the last seconds.
    pub since_seconds: Option<i64>,
    /// Only what was written from then on.
    pub since_time: Option<Timestamp>,
}

/// The streams of a process, whose client is gone when this is dropped.
pub struct ContainerStreams {
    /// What it writes.
    pub output: BoxStream<'static, (OutputStream, Bytes)>,
    /// What it reads; dropping this ends its input. Absent when it reads nothing.
    pub input: Option<mpsc::Sender<Bytes>>,
    /// Runs it to its end: the exit code, or why it could not be started.
    pub ended: BoxFuture<'static, Result<i32, String>>,
}

/// The ports of a pod that runs.
pub struct PodPorts {
    /// The id of its sandbox, by which its container runtime knows it.
    pub sandbox: String,
    /// Connects to a port.
    pub connect: Connect,
}

/// Connects to the port of a number: the connection, or in the runtime's words why there is none.
pub type Connect =
    Box<dyn Fn(u16) -> BoxFuture<'static, Result<PortConnection, String>> + Send + Sync>;

/// A connection to a port of a pod, which is closed when this is dropped.
pub struct PortConnection {
    /// What the port's side writes.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What it reads.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Has to be polled for the port's side to answer; ready when that is gone.
    pub serving: BoxFuture<'static, ()>,
}

/// One of the streams that a process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why a kubelet does not answer as it is asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    /// No kubelet answers for the node.
    #[error("the node has no kubelet")]
    Unreachable,
    /// 400 with this text.
    #[error("{0}")]
    BadRequest(String),
    /// 500 with this text.
    #[error("{0}")]
    Failed(String),
}
