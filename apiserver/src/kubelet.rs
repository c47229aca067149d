//! The nodes' side of the API: the requests of a server to a kubelet.

use std::fmt::Debug;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Serves the containers of the nodes; [`ApiServer::set_kubelet`](crate::ApiServer::set_kubelet)
/// takes one for all of them.
pub trait Kubelet: Debug + Send + Sync {
    /// Returns the log of a container, in chunks as they come.
    ///
    /// # Errors
    /// The refusal of the kubelet.
    fn logs(
        &self,
        container: ContainerReference<'_>,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, KubeletError>;

    /// Starts a process in a container.
    ///
    /// # Errors
    /// The refusal of the kubelet.
    fn exec(
        &self,
        container: ContainerReference<'_>,
        command: Vec<String>,
        options: ExecOptions,
    ) -> Result<ContainerStreams, KubeletError>;

    /// Attaches to the main process of a container: streams its output from now on, and its input
    /// if `stdin`.
    ///
    /// # Errors
    /// The refusal of the kubelet.
    fn attach(
        &self,
        container: ContainerReference<'_>,
        stdin: bool,
    ) -> Result<ContainerStreams, KubeletError>;

    /// Returns the ports of a pod.
    ///
    /// # Errors
    /// The refusal of the kubelet.
    fn port_forward(&self, pod: PodReference<'_>) -> Result<PodPorts, KubeletError>;

    /// Returns the usage of a container, on average of the `window` seconds before `time`. `None` if the node does not
    /// measure it.
    fn usage(
        &self,
        container: ContainerReference<'_>,
        time: Timestamp,
        window: i64,
    ) -> Option<ContainerUsage> {
        let _ = (container, time, window);
        None
    }
}

/// The processor time and the memory that a container uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Billionths of a processor.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
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

/// The streams of a new process in a container, as in `PodExecOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The process reads the client's input.
    pub stdin: bool,
    /// The process has a terminal, which has a single output: a kubelet echoes input there.
    pub tty: bool,
}

/// The part of a log to return, as in `PodLogOptions`.
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
    /// The maximum number of bytes.
    pub limit_bytes: Option<u64>,
    /// Only output of the last seconds, this many.
    pub since_seconds: Option<i64>,
    /// Only output from this time on.
    pub since_time: Option<Timestamp>,
}

/// The streams of a process, whose client is gone when this is dropped.
pub struct ContainerStreams {
    /// The output of the process.
    pub output: BoxStream<'static, (OutputStream, Bytes)>,
    /// The input of the process; dropping this ends it. Absent when the process reads nothing.
    pub input: Option<mpsc::Sender<Bytes>>,
    /// Runs the process to its end: the exit code, or the reason why it could not be started.
    pub ended: BoxFuture<'static, Result<i32, String>>,
}

/// The ports of a pod that runs.
pub struct PodPorts {
    /// The id of the pod's sandbox in the container runtime.
    pub sandbox: String,
    /// Connects to a port.
    pub connect: Connect,
}

/// Connects to the port with a number: the connection, or the container runtime's error.
pub type Connect =
    Box<dyn Fn(u16) -> BoxFuture<'static, Result<PortConnection, String>> + Send + Sync>;

/// A connection to a port of a pod, which is closed when this is dropped.
pub struct PortConnection {
    /// The bytes that the program at the port writes.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// The bytes that the program at the port reads.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Has to be polled for the program to answer; ready when the program is gone.
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

/// The reason why a kubelet refuses a request.
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
