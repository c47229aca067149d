//! `kubeproof run --kubeconfig`.

mod joined;
mod origin;

use std::cell::Cell;
use std::future::ready;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use kube::Client;
use kubeproof::runner::remote::{
    LONGEST, Namespaces, QUIET, Target, asks_kubelets, needs_own_nodes, time_of, unportable,
};
use kubeproof::scenario::{HumanDuration, ScenarioFile};
use kubeproof::suite::{self, Verdict};
use kubeproof_apiserver::Clock;
use kubeproof_controller::Manager;
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::pace::Pace;
use super::super::{controllers, kubeconfig, out};
use super::finished::{Finished, in_json, in_words};
use joined::{Joined, groups};
use origin::{ManagerVersions, Origin};

/// The number of scenarios at once: they wait most of the time, and each has a namespace of its own.
const AT_ONCE: usize = 8;

/// The flags for an existing cluster.
#[derive(Args)]
pub(super) struct ClusterArgs {
    /// Run the portable scenarios on the cluster of this kubeconfig, with its own controllers, and
    /// compare their outcomes.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Join simulated nodes to a cluster that has none, as many as each scenario has, so that scenarios can say how pods
    /// behave and let nodes fail.
    #[arg(long, requires = "kubeconfig")]
    join_nodes: bool,
    /// Skip scenarios that let more than this much time pass, on a cluster [default: 1m].
    #[arg(long, value_name = "DURATION", requires = "kubeconfig")]
    longest: Option<HumanDuration>,
    /// The version of the cluster's controller manager, for recordings [default: that of its pod in kube-system].
    #[arg(long, value_name = "VERSION", requires = "kubeconfig")]
    controller_manager: Option<String>,
    /// The version of OpenKruise's manager, for recordings [default: that of its pod in kruise-system].
    #[arg(long, value_name = "VERSION", requires = "kubeconfig")]
    kruise_manager: Option<String>,
}

/// The flags that decide how runs are reported.
#[derive(Clone, Copy)]
pub(super) struct Reporting {
    pub(super) json: bool,
    pub(super) fail_fast: bool,
    pub(super) jobs: Option<NonZeroUsize>,
    /// Whether what the control plane does is recorded.
    pub(super) records: bool,
}

impl Reporting {
    fn skip(self, file: &ScenarioFile, why: &str) -> anyhow::Result<()> {
        match self.json {
            true => Ok(()),
            false => out::say(&format!("skip {}  ({why})", file.name)),
        }
    }
}

/// Runs the portable scenarios of `paths` on the cluster of a kubeconfig, together with this project's `controllers`.
/// A signal ends the runs and removes their namespaces.
pub(super) fn run(
    paths: &[PathBuf],
    args: &ClusterArgs,
    quiet: Option<Duration>,
    controllers: Vec<String>,
    reporting: Reporting,
) -> anyhow::Result<Vec<Finished>> {
    let kubeconfig = args.kubeconfig.as_deref();
    let kubeconfig = kubeconfig.context("there is no kubeconfig")?;
    ensure!(
        controllers.is_empty() || !reporting.records,
        "--record is for the cluster's own controllers, without --controllers"
    );
    let files = paths.iter().map(|path| ScenarioFile::read(path));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let cluster = Cluster {
        args,
        kubeconfig,
        controllers,
        quiet: quiet.unwrap_or(QUIET),
        reporting,
    };
    runtime.block_on(cluster.run_until_signal(files))
}

/// A cluster with the flags of its runs.
struct Cluster<'a> {
    args: &'a ClusterArgs,
    kubeconfig: &'a Path,
    controllers: Vec<String>,
    quiet: Duration,
    reporting: Reporting,
}

impl Cluster<'_> {
    async fn run_until_signal(self, files: Vec<ScenarioFile>) -> anyhow::Result<Vec<Finished>> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let config = kubeconfig::config(self.kubeconfig).await?;
        let version = kubeconfig::version(&config).await?;
        let client = Client::try_from(config.clone())?;
        let origin = match self.reporting.records {
            true => {
                let given = ManagerVersions {
                    controller_manager: self.args.controller_manager.as_deref(),
                    kruise_manager: self.args.kruise_manager.as_deref(),
                };
                Some(Origin::of(&client, &version, given).await?)
            }
            false => None,
        };
        let has_kruise = controllers::serves_kruise(&config).await?;
        let fitting = self.fitting(files, has_kruise)?;
        ensure!(
            !fitting.is_empty(),
            "none of these scenarios can be run on the cluster"
        );
        let names = self.controllers.clone();
        let (own_client, options) = controllers::for_cluster(config.clone(), names, 0, Pace::Real)?;
        let manager = Manager::start(own_client, options)?;
        let namespaces = Namespaces::default();
        // Namespaces are only removed while nodes end their pods, so the nodes outlive an interrupted run.
        let nodes = Mutex::new(None);
        let finished = tokio::select! {
            finished = self.run_groups(fitting, &config, (&namespaces, &nodes), origin.as_ref()) => {
                Some(finished)
            }
            () = either(&mut interrupt, &mut terminate) => None,
        };
        let removed = match finished {
            Some(finished) => finished,
            None => tokio::select! {
                removed = remove(&namespaces, &client) => Err(removed),
                () = either(&mut interrupt, &mut terminate) => {
                    Err(anyhow::Error::msg("interrupted twice: namespaces kubeproof-* are left"))
                }
            },
        };
        if let Some(left) = nodes.into_inner() {
            left.leave(&client).await?;
        }
        manager.shutdown().await;
        removed
    }

    /// Returns the scenarios that can be run; prints the reason for each of the others.
    fn fitting(
        &self,
        files: Vec<ScenarioFile>,
        has_kruise: bool,
    ) -> anyhow::Result<Vec<ScenarioFile>> {
        let longest = self.args.longest.map_or(LONGEST, |longest| longest.0);
        let mut fitting = Vec::new();
        for file in files {
            let scenario = &file.scenario;
            let why = match unportable(scenario) {
                Some(why) => Some(why),
                None if scenario.given.kruise && !has_kruise => {
                    Some("the cluster has no OpenKruise")
                }
                None if needs_own_nodes(scenario) && !self.args.join_nodes => {
                    Some("needs simulated nodes: --join-nodes")
                }
                None if asks_kubelets(scenario) && self.args.join_nodes => {
                    Some("asks a kubelet: simulated nodes have no port for the API server")
                }
                None => (time_of(scenario) > longest).then_some("lets much time pass: --longest"),
            };
            match why {
                Some(why) => self.reporting.skip(&file, why)?,
                None => fitting.push(file),
            }
        }
        Ok(fitting)
    }

    /// Runs the scenarios: those at once that have the same nodes and do not change them.
    async fn run_groups(
        &self,
        files: Vec<ScenarioFile>,
        config: &kube::Config,
        (namespaces, nodes): (&Namespaces, &Mutex<Option<Joined>>),
        origin: Option<&Origin>,
    ) -> anyhow::Result<Vec<Finished>> {
        let client = Client::try_from(config.clone())?;
        let mut target = Target {
            client: client.clone(),
            nodes: None,
            quiet: self.quiet,
        };
        if !self.args.join_nodes {
            return Ok(run_all(files, &target, namespaces, (self.reporting, origin)).await);
        }
        let mut finished: Vec<Finished> = Vec::new();
        for group in groups(files) {
            let joined = Joined::to(config, &group[0].scenario).await?;
            target.nodes = Some(joined.handles());
            *nodes.lock() = Some(joined);
            finished.extend(run_all(group, &target, namespaces, (self.reporting, origin)).await);
            let joined = nodes.lock().take();
            if let Some(joined) = joined {
                joined.leave(&client).await?;
            }
            if self.reporting.fail_fast && finished.iter().any(Finished::has_failed) {
                break;
            }
        }
        Ok(finished)
    }
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Removes what interrupted runs have left; returns what there is to be said then.
async fn remove(namespaces: &Namespaces, client: &Client) -> anyhow::Error {
    out::note("interrupted: removing namespaces");
    match namespaces.remove_all(client).await {
        Ok(()) => anyhow::Error::msg("interrupted"),
        Err(remaining) => {
            let remaining = remaining
                .iter()
                .map(|(name, why)| format!("namespace {name}: {why}"));
            let remaining: Vec<_> = remaining.collect();
            anyhow::Error::msg(format!("interrupted; {}", remaining.join("; ")))
        }
    }
}

async fn run_all(
    files: Vec<ScenarioFile>,
    target: &Target,
    namespaces: &Namespaces,
    (reporting, origin): (Reporting, Option<&Origin>),
) -> Vec<Finished> {
    let clock = Clock::real();
    // After the last failure, or once the reader is gone, started runs still finish, so that no namespace is left.
    let is_over = Cell::new(false);
    let files = stream::iter(files).take_while(|_| ready(!is_over.get()));
    let runs = files.map(|file| {
        let clock = clock.clone();
        async move {
            let began = clock.now();
            let (verdict, wrote) = run_one(&file, target, namespaces, origin).await;
            let took: SignedDuration = clock.now().duration_since(began);
            Finished {
                name: file.name,
                path: file.path,
                schedule_seed: 0,
                verdict,
                took: took.unsigned_abs(),
                offers: false,
                wrote,
                shown: None,
                differs: None,
            }
        }
    });
    let at_once = reporting.jobs.map_or(AT_ONCE, NonZeroUsize::get);
    let ended = runs.buffer_unordered(at_once).inspect(|one| {
        let line = if reporting.json {
            in_json(one)
        } else {
            in_words(one)
        };
        let is_read = out::say(&line).is_ok();
        if !is_read || reporting.fail_fast && one.has_failed() {
            is_over.set(true);
        }
    });
    ended.collect().await
}

async fn run_one(
    file: &ScenarioFile,
    target: &Target,
    namespaces: &Namespaces,
    origin: Option<&Origin>,
) -> (Verdict, Option<PathBuf>) {
    let Some(origin) = origin else {
        return (suite::check_remote(file, target, namespaces).await, None);
    };
    let origin = match origin.words(file) {
        Ok(origin) => origin,
        Err(error) => return (Verdict::Failed(error.to_string()), None),
    };
    match suite::record_remote(file, target, namespaces, &origin).await {
        Ok(recorded) => recorded,
        Err(error) => {
            let path = suite::recording_path(file);
            let why = format!("cannot write {}: {error}", path.display());
            (Verdict::Failed(why), None)
        }
    }
}
