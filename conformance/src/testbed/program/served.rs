//! Programs that run as long as a server which people use, too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kubeproof_apiserver::{ApiServer, ApiServerBuilder};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ExternalPrograms;
use super::environment::{Environment, Reserved, Variables};
use super::output::Output;
use super::process::live;
use super::processes::Groups;
use super::virtual_time::VirtualTime;
use crate::scenario::{DEFAULT_NAMESPACE, HumanDuration};
use crate::testbed::TestbedError;

/// The first wait before a program that has ended is started again. Source: `kubelet.go`, `backOffPeriod`.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest wait. Source: `kubelet.go`, `MaxCrashLoopBackOff`.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A program that has run for this long is started again after the first wait. Source: `flowcontrol/backoff.go`, `hasExpired`.
const BACKOFF_RESET: Duration = Duration::from_secs(600);

/// Told of a program that has ended.
type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What exists for programs before their server does.
pub struct ReservedPrograms(Reserved);

/// Programs that run against a server as long as it runs. One that ends is started again, as a kubelet starts a container.
pub struct ServedPrograms {
    programs: ExternalPrograms,
    environment: Environment,
    time: Option<Arc<VirtualTime>>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl ReservedPrograms {
    /// Reserves ports for the webhooks of `programs`, and lets the server of `builder` call them.
    ///
    /// # Errors
    /// When there is no port, or a service cannot have a certificate.
    pub fn reserve(
        programs: &ExternalPrograms,
        builder: ApiServerBuilder,
    ) -> io::Result<(Self, ApiServerBuilder)> {
        let (reserved, builder) = programs.reserve_ports(builder)?;
        Ok((Self(reserved), builder))
    }
}

impl ServedPrograms {
    /// Opens the sockets on which the programs reach `server`, which may ask for credentials. They live in `time` if that is
    /// virtual. Needs a runtime with I/O.
    ///
    /// # Errors
    /// When a socket or a directory cannot be created.
    pub async fn open(
        programs: ExternalPrograms,
        reserved: ReservedPrograms,
        server: (&ApiServer, bool),
        time: Option<Arc<VirtualTime>>,
    ) -> io::Result<Self> {
        let ReservedPrograms(reserved) = reserved;
        let environment = Environment::open(&programs, reserved, server, DEFAULT_NAMESPACE).await?;
        Ok(Self {
            programs,
            environment,
            time,
            stop: watch::Sender::new(false),
            running: JoinSet::new(),
        })
    }

    /// Starts the programs. `client` is an administrator's, and `report` is told when one ends.
    ///
    /// # Errors
    /// - [`TestbedError::Account`] when the service account of the programs does not exist,
    /// - [`TestbedError::ExternalProgram`] when their files cannot be written.
    pub async fn start(
        &mut self,
        client: &kube::Client,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), TestbedError> {
        let account = self.environment.account(client).await?;
        let variables = self.environment.variables(&account);
        let variables = variables.map_err(TestbedError::ExternalProgram)?;
        let report: Report = Arc::new(report);
        let commands = self.programs.commands.iter().zip(variables);
        for (index, (command, variables)) in commands.enumerate() {
            let output = match self.programs.output.as_deref() {
                Some(path) => Output::of(Some(path), index, self.environment.directory()),
                None => Ok(Output::shown(index)),
            };
            let program = Program {
                number: index + 1,
                command: command.clone(),
                variables,
                output: output.map_err(TestbedError::ExternalProgram)?,
                time: self.time.clone(),
            };
            let (stop, report) = (self.stop.subscribe(), Arc::clone(&report));
            self.running.spawn(program.keep_running(stop, report));
        }
        Ok(())
    }

    /// Asks the programs to end, waits for them, and closes the sockets.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.running.join_next().await.is_some() {}
        self.environment.close().await;
    }
}

/// A program that is started again when it ends.
struct Program {
    number: usize,
    command: String,
    variables: Variables,
    output: Output,
    time: Option<Arc<VirtualTime>>,
}

impl Program {
    async fn keep_running(self, mut stop: watch::Receiver<bool>, report: Report) {
        let (groups, number) = (Groups::default(), self.number);
        let mut wait = BACKOFF_FIRST;
        loop {
            let began = Instant::now();
            let kept = (&self.output, &groups);
            let asked = stopped(&mut stop);
            let lived = live(
                &self.command,
                &self.variables,
                kept,
                self.time.as_deref(),
                asked,
            );
            let Some(how) = lived.await else {
                return;
            };
            if began.elapsed() >= BACKOFF_RESET {
                wait = BACKOFF_FIRST;
            }
            let again = HumanDuration(wait);
            report(&format!(
                "program {number}: {how}; it is started again in {again}"
            ));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stopped(&mut stop) => return,
            }
            wait = (wait * 2).min(BACKOFF_MAX);
        }
    }
}

/// Completes when the programs are to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender they are dropped.
    let _ = stop.wait_for(|stop| *stop).await;
}
