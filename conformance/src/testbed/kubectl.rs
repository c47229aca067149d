//! The real kubectl on a testbed under virtual time.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use kubeproof_apiserver::ApiServer;
use tokio::process::Command;
use tokio::sync::{oneshot, watch};

use super::TestbedError;
use super::socket::Socket;

/// Time that is held passes again after this long, so that a command that hangs ends in a time-out.
const HELD_MAX: Duration = Duration::from_secs(60);
/// The longest that a command takes in virtual time.
const COMMAND_MAX: Duration = Duration::from_secs(24 * 3600);

/// A kubectl, and the socket on which it speaks to the server.
pub(crate) struct Kubectl {
    program: PathBuf,
    socket: Socket,
    watches: watch::Receiver<u64>,
}

impl Kubectl {
    /// Opens a socket of `server` for `program`, if there is one. Needs a runtime with I/O then.
    ///
    /// # Errors
    /// [`TestbedError::ExternalProgram`] when the socket or the files cannot be created.
    pub(super) async fn of(
        program: &Option<PathBuf>,
        server: &ApiServer,
        namespace: &str,
    ) -> Result<Option<Self>, TestbedError> {
        let Some(program) = program.clone() else {
            return Ok(None);
        };
        let (watched, watches) = watch::channel(0);
        let socket = Socket::open_counting(server, namespace, watched).await;
        Ok(Some(Self {
            program,
            socket: socket.map_err(TestbedError::ExternalProgram)?,
            watches,
        }))
    }

    /// Runs a command and returns what it printed, errors included. Virtual time stands still while it runs, until it watches: then
    /// `goes_on` lets time pass.
    ///
    /// # Errors
    /// When the program cannot be run or does not end.
    pub(crate) async fn run(
        &self,
        arguments: &[&str],
        goes_on: impl Future<Output = ()>,
    ) -> io::Result<String> {
        let mut watches = self.watches.clone();
        watches.borrow_and_update();
        let held = HeldTime::begin();
        let (mut printed, output) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", self.socket.kubeconfig())
            .env("KUBECACHEDIR", self.socket.directory().join("cache"))
            .env("HOME", self.socket.directory())
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        // The ends of the pipe close when the child ends.
        drop(command);
        let (read, text) = oneshot::channel();
        // A thread of its own: a blocking task would hold the time.
        std::thread::spawn(move || {
            let mut text = String::new();
            let result = printed.read_to_string(&mut text).map(|_| text);
            // Nobody waits for it if the run has failed.
            let _ = read.send(result);
        });
        let ended = tokio::time::timeout(COMMAND_MAX, child.wait());
        tokio::pin!(ended);
        let ended = tokio::select! {
            ended = &mut ended => ended,
            // The watch is as old as the requests before it.
            _ = watches.changed() => {
                drop(held);
                goes_on.await;
                let _held = HeldTime::begin();
                ended.await
            }
        };
        if ended.is_err() {
            let words = format!("kubectl {} does not end", arguments.join(" "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, words));
        }
        text.await.map_err(io::Error::other)?
    }

    /// Closes the socket.
    pub(super) async fn end(self) {
        self.socket.close().await;
    }
}

/// While it lives, virtual time does not pass: tokio does not advance it while a blocking task runs.
struct HeldTime {
    _end: mpsc::Sender<()>,
}

impl HeldTime {
    fn begin() -> Self {
        let (end, ended) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ended.recv_timeout(HELD_MAX));
        Self { _end: end }
    }
}
