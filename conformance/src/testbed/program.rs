//! Programs of any language as the controllers under test: they are given the server's address once the
//! scenario's first objects exist, and are killed and started again at crash points.
//!
//! They run in real time, as their clocks cannot be set; everything around them then does too.

use std::collections::BTreeSet;
use std::ffi::OsString;
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
use tokio::sync::watch;

use super::TestbedError;
use super::builder::ControllerUnderTest;
use super::socket::Socket;
use crate::wire::Notes;

/// A program that has sent no request after this long is given up.
const START_MAX: Duration = Duration::from_secs(60);
/// The period of checks for its first request.
const START_POLL: Duration = Duration::from_millis(50);
/// The number of last lines of output that are shown when the program has ended by itself.
const SAID_LINES: usize = 20;

/// Programs that run against the server of a testbed, with the [`variables`] of their environment set.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalPrograms {
    /// The command of each program, as a shell reads it.
    pub commands: Vec<String>,
    /// Everything counts as settled after this long without a write.
    pub quiet: Duration,
}

/// The programs, and the socket on which they speak to the server.
pub(super) struct RunningPrograms {
    /// The time without a write, as [`ExternalPrograms::quiet`].
    pub(super) quiet: Duration,
    socket: Socket,
    /// Whether the programs may run.
    started: watch::Sender<bool>,
    ended: Arc<Mutex<Option<String>>>,
}

impl RunningPrograms {
    /// Opens the socket and writes the kubeconfig; returns the programs as controllers, which do nothing before
    /// [`Self::start`].
    ///
    /// # Errors
    /// When the socket or the files cannot be created.
    pub(super) async fn prepare(
        programs: &ExternalPrograms,
        server: &ApiServer,
        namespace: &str,
    ) -> io::Result<(Self, Vec<ControllerUnderTest>)> {
        let socket = Socket::open(server, namespace).await?;
        let ended = Arc::<Mutex<Option<String>>>::default();
        let started = watch::Sender::new(false);
        let variables = variables(&socket, namespace);
        let controllers = programs
            .commands
            .iter()
            .enumerate()
            .map(|(index, command)| {
                let (command, variables) = (command.clone(), variables.clone());
                let output = socket.directory().join(format!("output-{index}"));
                let (noted, started) = (Arc::clone(&ended), started.subscribe());
                ControllerUnderTest::new("", move |_| {
                    let life = live(command.clone(), variables.clone(), output.clone());
                    let (noted, mut started) = (Arc::clone(&noted), started.clone());
                    async move {
                        // The testbed ends when there is no sender any more.
                        if started.wait_for(|started| *started).await.is_ok() {
                            let words = life.await;
                            *noted.lock() = Some(words);
                        }
                    }
                })
            });
        let controllers = controllers.collect();
        let running = Self {
            quiet: programs.quiet,
            socket,
            started,
            ended,
        };
        Ok((running, controllers))
    }

    /// Starts the programs, and waits until the server gets a request of a client that is not in `notes`, which have
    /// all requests of this process. Does nothing if they run already.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] when that never happens.
    pub(super) async fn start(
        &self,
        server: &ApiServer,
        notes: &Notes,
    ) -> Result<(), TestbedError> {
        if self.started.send_replace(true) {
            return Ok(());
        }
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
                self.run()?;
                tokio::time::sleep(START_POLL).await;
            }
        };
        let begun = tokio::time::timeout(START_MAX, begun).await;
        begun.unwrap_or_else(|_| {
            let words = "the program has not sent any request";
            Err(TestbedError::Ended(words.to_owned()))
        })
    }

    /// Whether all programs still run.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] with the way in which it ended.
    pub(super) fn run(&self) -> Result<(), TestbedError> {
        match &*self.ended.lock() {
            None => Ok(()),
            Some(how) => Err(TestbedError::Ended(how.clone())),
        }
    }

    /// Closes the socket. The programs themselves end with the tasks that started them.
    pub(super) async fn end(self) {
        self.socket.close().await;
    }
}

/// The variables by which a program finds the server: the kubeconfig, the URL and the namespace.
fn variables(socket: &Socket, namespace: &str) -> Vec<(&'static str, OsString)> {
    vec![
        ("KUBECONFIG", socket.kubeconfig().into()),
        ("KUBEPROOF_URL", socket.url().into()),
        ("KUBEPROOF_NAMESPACE", namespace.into()),
    ]
}

/// Runs the program until it ends; returns how. Dropped, it kills the program with all that it has started.
async fn live(
    command: String,
    variables: Vec<(&'static str, OsString)>,
    output: PathBuf,
) -> String {
    let started = Process::start(&command, &variables, &output);
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
    fn start(
        command: &str,
        variables: &[(&'static str, OsString)],
        output: &Path,
    ) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(output)?;
        let child = Command::new("sh")
            .args(["-c", command])
            .envs(variables.iter().cloned())
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
