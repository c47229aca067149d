//! `kubeproof run --kubeconfig`.

use std::cell::Cell;
use std::future::ready;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use kube::Client;
use kubeproof::runner::remote::{Namespaces, unportable};
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use kubeproof_apiserver::Clock;
use kubeproof_controller::Manager;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::pace::Pace;
use super::super::{controllers, kubeconfig, out};
use super::finished::{Finished, in_json, in_words};

/// The number of scenarios at once: they wait most of the time, and each has a namespace of its own.
const AT_ONCE: usize = 8;

/// The flags that decide how runs are reported.
#[derive(Clone, Copy)]
pub(super) struct Reporting {
    pub(super) json: bool,
    pub(super) fail_fast: bool,
    pub(super) jobs: Option<NonZeroUsize>,
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
    kubeconfig: &Path,
    controllers: Vec<String>,
    told: Reporting,
) -> anyhow::Result<Vec<Finished>> {
    let files = paths.iter().map(|path| ScenarioFile::read(path));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run_until_signal(files, kubeconfig, controllers, told))
}

async fn run_until_signal(
    files: Vec<ScenarioFile>,
    kubeconfig: &Path,
    names: Vec<String>,
    told: Reporting,
) -> anyhow::Result<Vec<Finished>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = kubeconfig::config(kubeconfig).await?;
    kubeconfig::version(&config).await?;
    let has_kruise = controllers::serves_kruise(&config).await?;
    let mut fitting = Vec::new();
    for file in files {
        match unportable(&file.scenario) {
            Some(why) => told.skip(&file, why)?,
            None if file.scenario.given.kruise && !has_kruise => {
                told.skip(&file, "the cluster has no OpenKruise")?;
            }
            None => fitting.push(file),
        }
    }
    anyhow::ensure!(
        !fitting.is_empty(),
        "none of these scenarios can be run on the cluster"
    );
    let client = Client::try_from(config.clone())?;
    let (own_client, options) = controllers::for_cluster(config, names, 0, Pace::Real)?;
    let manager = Manager::start(own_client, options)?;
    let namespaces = Namespaces::default();
    let finished = tokio::select! {
        finished = run_all(fitting, &client, &namespaces, told) => Some(finished),
        () = either(&mut interrupt, &mut terminate) => None,
    };
    let removed = match finished {
        Some(finished) => Ok(finished),
        None => tokio::select! {
            removed = remove(&namespaces, &client) => Err(removed),
            () = either(&mut interrupt, &mut terminate) => {
                Err(anyhow::Error::msg("interrupted twice: namespaces kubeproof-* are left"))
            }
        },
    };
    manager.shutdown().await;
    removed
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
            let told = remaining
                .iter()
                .map(|(name, why)| format!("namespace {name}: {why}"));
            let told: Vec<_> = told.collect();
            anyhow::Error::msg(format!("interrupted; {}", told.join("; ")))
        }
    }
}

async fn run_all(
    files: Vec<ScenarioFile>,
    client: &Client,
    namespaces: &Namespaces,
    told: Reporting,
) -> Vec<Finished> {
    let clock = Clock::real();
    // After the last failure, or once the reader is gone, started runs still finish, so that no namespace is left.
    let is_over = Cell::new(false);
    let files = stream::iter(files).take_while(|_| ready(!is_over.get()));
    let runs = files.map(|file| {
        let (client, clock) = (client.clone(), clock.clone());
        async move {
            let began = clock.now();
            let verdict = suite::check_remote(&file, client, namespaces).await;
            let took: SignedDuration = clock.now().duration_since(began);
            Finished {
                name: file.name,
                path: file.path,
                schedule_seed: 0,
                verdict,
                took: took.unsigned_abs(),
                offers: false,
                wrote: None,
                shown: None,
            }
        }
    });
    let at_once = told.jobs.map_or(AT_ONCE, NonZeroUsize::get);
    let ended = runs.buffer_unordered(at_once).inspect(|one| {
        let line = if told.json {
            in_json(one)
        } else {
            in_words(one)
        };
        let is_read = out::say(&line).is_ok();
        if !is_read || told.fail_fast && one.has_failed() {
            is_over.set(true);
        }
    });
    ended.collect().await
}
