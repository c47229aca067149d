//! `kubeproof run --kubeconfig`.

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

use super::super::{controllers, kubeconfig};
use super::{Finished, in_json, in_words};

/// How many scenarios run at once: they wait most of the time, and each has a namespace of its own.
const AT_ONCE: usize = 8;

/// Runs the portable ones of the scenarios on the cluster of a kubeconfig, beside `controllers` of this
/// project's. A signal ends the runs and removes their namespaces.
pub(super) fn run(
    paths: &[PathBuf],
    kubeconfig: &Path,
    controllers: Vec<String>,
    json: bool,
) -> anyhow::Result<Vec<Finished>> {
    let mut files = Vec::new();
    for path in paths {
        let file = ScenarioFile::read(path)?;
        match unportable(&file.scenario) {
            None => files.push(file),
            Some(why) if !json => println!("skip {}  ({why})", file.name),
            Some(_) => {}
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run_until_signal(files, kubeconfig, controllers, json))
}

async fn run_until_signal(
    files: Vec<ScenarioFile>,
    kubeconfig: &Path,
    names: Vec<String>,
    json: bool,
) -> anyhow::Result<Vec<Finished>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = kubeconfig::config(kubeconfig).await?;
    kubeconfig::version(&config).await?;
    let has_kruise = controllers::serves_kruise(&config).await?;
    let (files, without): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| has_kruise || !file.scenario.given.kruise);
    for file in without.iter().filter(|_| !json) {
        println!("skip {}  (the cluster has no OpenKruise)", file.name);
    }
    let client = Client::try_from(config.clone())?;
    let (own_client, options) = controllers::options(config, names, 0)?;
    let manager = Manager::start(own_client, options)?;
    let namespaces = Namespaces::default();
    let finished = tokio::select! {
        finished = run_all(files, &client, &namespaces, json) => Some(finished),
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
    eprintln!("interrupted: removing namespaces");
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
    json: bool,
) -> Vec<Finished> {
    let clock = Clock::real();
    let runs = stream::iter(files).map(|file| {
        let (client, clock) = (client.clone(), clock.clone());
        async move {
            let began = clock.now();
            let verdict = suite::check_remote(&file, client, namespaces).await;
            let took: SignedDuration = clock.now().duration_since(began);
            Finished {
                name: file.name,
                verdict,
                took: took.unsigned_abs(),
                again: None,
                shown: None,
            }
        }
    });
    let told = runs.buffer_unordered(AT_ONCE).inspect(|one| {
        println!("{}", if json { in_json(one) } else { in_words(one) });
    });
    told.collect().await
}
