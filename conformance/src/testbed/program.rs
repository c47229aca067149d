//! Programs of any language as the controllers under test: they are given the server's address once the
//! scenario's first objects exist, and are killed and started again at crash points.
//!
//! They run in real time, and everything around them then does too; or under virtual time, where they can be traced.

mod account;
pub(crate) mod activity;
mod environment;
mod output;
mod process;
mod processes;
mod requests;
mod served;
mod sockets;
pub(in crate::testbed) mod starvation;
mod virtual_time;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubeproof_apiserver::fault::Effect;
use kubeproof_apiserver::{ApiServer, ApiServerBuilder};
use kubeproof_runtime::context::with_user_agent;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::builder::ControllerUnderTest;
use super::{Testbed, TestbedError};
use crate::user_agent;

pub use account::AccountName;
pub(super) use environment::Reserved;
use environment::{Environment, Variables};
use output::Output;
use process::live;
use processes::{Groups, Usage};
pub use served::{ReservedPrograms, ServedPrograms};
pub use virtual_time::{Pace, VirtualTime, share_time};

/// A program that has sent no request is given up after it has not computed for this long.
const START_MAX: Duration = Duration::from_secs(60);
/// A program that has sent no request after this long is given up even if it computes.
const START_LONGEST: Duration = Duration::from_secs(300);
/// The period of checks that it computes.
const USAGE_PERIOD: Duration = Duration::from_secs(1);
/// A leader that has ended because it leads no more is started again after this time.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// The period of checks for its first request.
const START_POLL: Duration = Duration::from_millis(50);

/// Programs that run against the server of a testbed, which their environment describes.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalPrograms {
    /// The command of each program, as a shell reads it. A name in braces, such as `{url}`, is replaced by the value of
    /// the variable.
    pub commands: Vec<String>,
    /// The time in which the programs, and everything around them, run.
    pub time: ProgramTime,
    /// Whether one thread of the programs runs at a time under virtual time, so that they interleave in the same way in each run.
    pub is_sequential: bool,
    /// When everything counts as settled.
    pub pause: SettlePause,
    /// The service account that the programs are; `None` for administrators.
    pub account: Option<AccountName>,
    /// Services of webhooks that the programs serve.
    pub services: Vec<ServedService>,
    /// The beginning of the paths of the files that keep the programs' output, which end with `.program-1.log`; `None`
    /// if nothing is kept.
    pub output: Option<PathBuf>,
    /// The index of the only program that runs at first; `None` if all do.
    pub first: Option<usize>,
    /// The file to which the programs' requests are appended, as audit events at level Metadata; writes of roles and
    /// bindings have bodies.
    pub audit_log: Option<PathBuf>,
}

/// The time in which programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramTime {
    /// The time of the machine.
    #[default]
    Real,
    /// Virtual time, as for controllers in this process. `main` has to call `kubeproof_tracer::helper` first of all, because the
    /// tracer is this program, executed again.
    Virtual,
}

/// How long there must be no write for everything to count as settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SettlePause {
    /// Half a second while the programs are seen to wait for events, 3 s as a rule, and at most 30 s while they are seen to
    /// work.
    #[default]
    ByActivity,
    /// A fixed time, whatever the programs do.
    Fixed(Duration),
}

/// A service whose webhooks are called at the port for webhooks of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedService {
    /// The namespace of the service.
    pub namespace: String,
    /// The name of the service.
    pub name: String,
    /// The port of the service.
    pub port: u16,
    /// The index of the program.
    pub program: usize,
}

/// The programs, and the sockets on which they speak to the server.
pub(super) struct RunningPrograms {
    /// When everything counts as settled.
    pub(super) pause: SettlePause,
    environment: Environment,
    groups: Groups,
    /// The programs that run at first.
    first: BTreeSet<usize>,
    wanted: watch::Sender<Wanted>,
    /// The number of processes.
    alive: watch::Sender<usize>,
    ended: Arc<Mutex<Option<String>>>,
    outputs: Vec<Output>,
    /// Whether programs were still at work when the last wait for them ended.
    work_at_end: AtomicBool,
}

/// The programs that are to run.
#[derive(Clone, Default)]
struct Wanted {
    /// The variables of each program, once they are known.
    variables: Option<Arc<Vec<Variables>>>,
    /// The indexes of the programs.
    running: BTreeSet<usize>,
}

impl Wanted {
    fn runs(&self, index: usize) -> bool {
        self.variables.is_some() && self.running.contains(&index)
    }
}

/// A process that is counted as long as this lives.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn begin(alive: &watch::Sender<usize>) -> Self {
        alive.send_modify(|count| *count += 1);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl RunningPrograms {
    /// Opens the sockets; returns the programs as controllers, which do nothing before [`Self::start`].
    ///
    /// # Errors
    /// When a socket or a file cannot be created.
    pub(super) async fn prepare(
        programs: &ExternalPrograms,
        reserved: Reserved,
        server: &ApiServer,
        namespace: &str,
    ) -> std::io::Result<(Self, Vec<ControllerUnderTest>)> {
        let environment = Environment::open(programs, reserved, (server, false), namespace).await?;
        let time = match programs.time {
            ProgramTime::Real => None,
            ProgramTime::Virtual => {
                let (clock, is_sequential) = (server.clock(), programs.is_sequential);
                let time = VirtualTime::begin(clock, is_sequential, Pace::Unlimited);
                Some(Arc::new(time?))
            }
        };
        let ended = Arc::<Mutex<Option<String>>>::default();
        let (wanted, alive) = (watch::Sender::new(Wanted::default()), watch::Sender::new(0));
        let (mut controllers, mut outputs) = (Vec::new(), Vec::new());
        let (groups, requests) = (Groups::default(), environment.requests().clone());
        for (index, command) in programs.commands.iter().enumerate() {
            let output = Output::of(programs.output.as_deref(), index, environment.directory())?;
            outputs.push(output.clone());
            let (command, noted, wanted) =
                (command.clone(), Arc::clone(&ended), wanted.subscribe());
            let (alive, groups, requests) = (alive.clone(), groups.clone(), requests.clone());
            let (server, time) = (server.clone(), time.clone());
            controllers.push(ControllerUnderTest::new("", move |_| {
                let (server, time) = (server.clone(), time.clone());
                let (command, output) = (command.clone(), output.clone());
                let (noted, mut wanted) = (Arc::clone(&noted), wanted.clone());
                let (alive, groups, requests) = (alive.clone(), groups.clone(), requests.clone());
                async move {
                    // The testbed ends when there is no sender any more.
                    while let Some(variables) = once_wanted(&mut wanted, index).await {
                        let counted = Counted::begin(&alive);
                        requests.starts();
                        let stop = async {
                            // Without a sender the process is killed anyway.
                            let _ = wanted.wait_for(|wanted| !wanted.runs(index)).await;
                        };
                        let kept = (&output, &groups);
                        let time = time.as_deref();
                        let how = live(&command, &variables[index], kept, time, stop).await;
                        drop(counted);
                        if how.is_some() && has_second_leader(&server) {
                            tokio::time::sleep(RESTART_DELAY).await;
                        } else if let Some(how) = how {
                            *noted.lock() = Some(format!("program {}: {how}", index + 1));
                            return;
                        }
                    }
                }
            }));
        }
        let first = match programs.first {
            Some(first) => BTreeSet::from([first]),
            None => (0..programs.commands.len()).collect(),
        };
        let running = Self {
            pause: programs.pause,
            environment,
            groups,
            first,
            wanted,
            alive,
            ended,
            outputs,
            work_at_end: AtomicBool::new(false),
        };
        Ok((running, controllers))
    }

    /// Starts the programs, and waits until the server gets a request of one. Does nothing if they run already.
    /// `client` acts for the scenario.
    ///
    /// # Errors
    /// - [`TestbedError::Account`] when the service account of the programs does not exist,
    /// - [`TestbedError::ExternalProgram`] when their files cannot be written,
    /// - [`TestbedError::Ended`] when no program sends a request.
    pub(super) async fn start(&self, client: &kube::Client) -> Result<(), TestbedError> {
        if self.wanted.borrow().variables.is_some() {
            return Ok(());
        }
        let account = self.environment.account(client).await?;
        let variables = self.environment.variables(&account);
        let variables = variables.map_err(TestbedError::ExternalProgram)?;
        self.wanted.send_replace(Wanted {
            variables: Some(Arc::new(variables)),
            running: self.first.clone(),
        });
        self.first_request().await
    }

    /// Stops all programs as a kubelet stops a container, and waits until they have ended.
    pub(super) async fn stop(&self) {
        self.wanted.send_modify(|wanted| wanted.running.clear());
        let mut alive = self.alive.subscribe();
        // This has a sender.
        let _ = alive.wait_for(|count| *count == 0).await;
    }

    /// Starts the program with this index, and waits for its first request. The programs have run before.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] when the program ends or sends no request.
    pub(super) async fn start_only(&self, index: usize) -> Result<(), TestbedError> {
        self.environment.requests().forget();
        self.wanted
            .send_modify(|wanted| wanted.running = BTreeSet::from([index]));
        self.first_request().await
    }

    /// Waits for the first request of a program.
    ///
    /// # Errors
    /// [`TestbedError::Ended`] when a program ends, or none sends a request.
    async fn first_request(&self) -> Result<(), TestbedError> {
        let began = Instant::now();
        // The last look at the processes, and the last time that they were seen to compute.
        let (mut looked, mut usage) = (began, self.groups.usage());
        let mut computed = began;
        while !self.environment.requests().has_any() {
            self.run()?;
            let now = Instant::now();
            if now - looked >= USAGE_PERIOD {
                let next = self.groups.usage();
                if Usage::shows_work(usage.as_ref(), next.as_ref()) {
                    computed = now;
                }
                (looked, usage) = (now, next);
            }
            if now - computed >= START_MAX || now - began >= START_LONGEST {
                let words = "the program has not sent any request";
                return Err(TestbedError::Ended(words.to_owned()));
            }
            tokio::time::sleep(START_POLL).await;
        }
        Ok(())
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

    /// Notes that everything counts as settled, and whether programs are still seen to work.
    pub(super) fn note_settled(&self, work: bool) {
        self.work_at_end.store(work, Ordering::Relaxed);
    }

    /// The refused writes of programs so far, in words.
    pub(super) fn refused(&self) -> Vec<String> {
        self.environment.requests().refused()
    }

    /// The last lines that each program has printed, under a heading; empty if none has printed anything.
    pub(super) fn last_lines(&self) -> String {
        let said = self.outputs.iter().filter_map(Output::last_lines);
        said.collect::<Vec<_>>().join("\n")
    }

    /// Closes the sockets. The programs themselves end with the tasks that started them.
    pub(super) async fn end(self) {
        self.environment.close().await;
    }
}

/// Whether a fault has deposed leaders. They end when they learn of it, and a kubelet would start them again.
fn has_second_leader(server: &ApiServer) -> bool {
    let mut met = server.faults_met().into_iter();
    met.any(|(fault, times)| times > 0 && matches!(fault.effect, Effect::SecondLeader(_)))
}

/// Waits until the program with this index is to run; returns the variables. `None` when the testbed ends.
async fn once_wanted(
    wanted: &mut watch::Receiver<Wanted>,
    index: usize,
) -> Option<Arc<Vec<Variables>>> {
    let wanted = wanted.wait_for(|wanted| wanted.runs(index)).await;
    wanted.ok().and_then(|wanted| wanted.variables.clone())
}

impl ExternalPrograms {
    /// Reserves the ports of webhooks, and lets the server of `builder` call them and record the programs' requests.
    ///
    /// # Errors
    /// When there is no port, or a service cannot have a certificate.
    pub(super) fn reserve(
        &self,
        builder: ApiServerBuilder,
    ) -> std::io::Result<(Reserved, ApiServerBuilder)> {
        let (reserved, builder) = self.reserve_ports(builder)?;
        let mut builder = builder.audit(reserved.requests().audit());
        if self.account.is_some() {
            builder = builder.ask_for_credentials();
        }
        Ok((reserved, builder))
    }

    /// Reserves the ports of webhooks, and lets the server of `builder` call them.
    ///
    /// # Errors
    /// When there is no port, or a service cannot have a certificate.
    fn reserve_ports(
        &self,
        mut builder: ApiServerBuilder,
    ) -> std::io::Result<(Reserved, ApiServerBuilder)> {
        let reserved = Reserved::of(self)?;
        for service in &self.services {
            let address = reserved.webhook_address(service.program)?;
            builder =
                builder.resolve_service(&service.namespace, &service.name, service.port, address);
        }
        let authority = reserved.authority();
        let builder = builder.webhook_authorities(authority.as_bytes());
        Ok((reserved, builder.expect("the authority is a certificate")))
    }
}

impl Testbed {
    /// Starts the programs under test, and waits until one of them has sent a request. Does nothing if they run already,
    /// and without programs.
    pub(crate) async fn start_programs(&self) -> Result<(), TestbedError> {
        let cluster = self.cluster();
        match &cluster.programs {
            Some(programs) => {
                let client = kube::Client::new(cluster.wire.clone(), self.api.namespace());
                let client = with_user_agent(&client, user_agent::SCENARIO);
                programs.start(&client).await
            }
            None => Ok(()),
        }
    }

    /// Stops the programs under test, as a kubelet stops containers.
    pub(crate) async fn stop_programs(&self) {
        if let Some(programs) = &self.cluster().programs {
            programs.stop().await;
        }
    }

    /// Starts one of the programs under test, which have run before.
    pub(crate) async fn start_program(&self, index: usize) -> Result<(), TestbedError> {
        match &self.cluster().programs {
            Some(programs) => programs.start_only(index).await,
            None => Ok(()),
        }
    }

    /// Whether programs under test were still at work when they were last waited for: they had written nothing for the longest
    /// time that they are given.
    pub(crate) fn programs_still_work(&self) -> bool {
        let programs = self.cluster().programs.as_ref();
        programs.is_some_and(|programs| programs.work_at_end.load(Ordering::Relaxed))
    }

    /// The refused writes of programs under test so far, in words. Conflicts, deletions of objects that are gone, events
    /// and leases are left out.
    pub(crate) fn program_refusals(&self) -> Vec<String> {
        let programs = self.cluster().programs.as_ref();
        programs.map_or_else(Vec::new, RunningPrograms::refused)
    }

    /// The last lines that each program under test has printed; empty without programs.
    pub(crate) fn program_output(&self) -> String {
        let programs = self.cluster().programs.as_ref();
        programs.map_or_else(String::new, RunningPrograms::last_lines)
    }
}
