//! A program of any language as the controller under test: it is given the server's address, and killed
//! and started again at crash points.
//!
//! The program runs in real time, as its clock cannot be set; everything around it then does too.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use kubeproof_apiserver::ApiServer;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::TestbedError;
use super::builder::ControllerUnderTest;
use super::socket::Socket;
use crate::scenario::DEFAULT_NAMESPACE;
use crate::wire::Notes;

/// A program that has sent no request after this long is given up.
const START_MAX: Duration = Duration::from_secs(60);
/// The period of checks for its first request.
const START_POLL: Duration = Duration::from_millis(50);
/// The number of last lines of output that are shown when the program has ended by itself.
const SAID_LINES: usize = 20;

/// A program that runs against the server of a testbed, with `KUBECONFIG` set.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalProgram {
    /// The command, as a shell reads it.
    pub command: String,
    /// Everything counts as settled after this long without a write.
    pub quiet: Duration,
}

/// The running program, and the socket on which it speaks to the server.
pub(super) struct RunningProgram {
    /// The time without a write, as [`ExternalProgram::quiet`].
    pub(super) quiet: Duration,
    socket: Socket,
    ended: Arc<Mutex<Option<String>>>,
}

impl RunningProgram {
    /// Opens the socket and writes the kubeconfig; returns the program as a controller that can be started.
    ///
    /// # Errors
    /// When the socket or the files cannot be created.
    pub(super) async fn prepare(
        program: &ExternalProgram,
        server: &ApiServer,
    ) -> io::Result<(Self, ControllerUnderTest)> {
        let socket = Socket::open(server, DEFAULT_NAMESPACE).await?;
        let ended = Arc::<Mutex<Option<String>>>::default();
        let command = program.command.clone();
        let (kubeconfig, output) = (socket.kubeconfig(), socket.directory().join("output"));
        let noted = Arc::clone(&ended);
        let controller = ControllerUnderTest::new("", move |_| {
            let life = live(command.clone(), kubeconfig.clone(), output.clone());
            let noted = Arc::clone(&noted);
            async move {
                let words = life.await;
                *noted.lock() = Some(words);
            }
        });
        let running = Self {
            quiet: program.quiet,
            socket,
            ended,
        };
        Ok((running, controller))
    }

    /// Waits until the server gets a request of a client that is not in `notes`, which have all requests of this
    /// process.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] when that never happens.
    pub(super) async fn has_begun(
        &self,
        server: &ApiServer,
        notes: &Notes,
    ) -> Result<(), TestbedError> {
        let product = |user_agent: &str| -> String {
            let product = user_agent.split(['/', ' ']).next();
            product.unwrap_or_default().to_owned()
        };
        let begun = async {
            loop {
                let own = notes.exchanges();
                let own: BTreeSet<String> =
                    own.iter().map(|own| product(&own.user_agent)).collect();
                let asked = server.points();
                if asked.iter().any(|point| !own.contains(&point.from)) {
                    return Ok(());
                }
                self.runs()?;
                tokio::time::sleep(START_POLL).await;
            }
        };
        let begun = tokio::time::timeout(START_MAX, begun).await;
        begun.unwrap_or_else(|_| {
            let words = "the program has not sent any request";
            Err(TestbedError::Ended(words.to_owned()))
        })
    }

    /// Whether the program still runs.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] with the way in which it ended.
    pub(super) fn runs(&self) -> Result<(), TestbedError> {
        match &*self.ended.lock() {
            None => Ok(()),
            Some(how) => Err(TestbedError::Ended(how.clone())),
        }
    }

    /// Closes the socket. The program itself ends with the task that started it.
    pub(super) async fn end(self) {
        self.socket.close().await;
    }
}

/// Runs the program until it ends; returns how. Dropped, it kills the program with all that it has started.
async fn live(command: String, kubeconfig: PathBuf, output: PathBuf) -> String {
    let started = Process::start(&command, &kubeconfig, &output);
    let how = match started {
        Err(error) => return format!("the program cannot be started: {error}"),
        Ok(mut process) => process.child.wait().await,
    };
    let how = how.map_or_else(|error| error.to_string(), |status| status.to_string());
    let said = std::fs::read_to_string(&output).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(SAID_LINES)..].join("\n");
    format!("the program has exited: {how}\n{last}")
        .trim_end()
        .to_owned()
}

/// A process with its group.
struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    fn start(command: &str, kubeconfig: &Path, output: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(output)?;
        let child = Command::new("sh")
            .args(["-c", command])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            child,
            group: id.and_then(Pid::from_raw),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // As a crash would: without a word. Who has ended already has no group any more.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
