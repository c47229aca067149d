//! `kubeproof controllers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kubeproof::testbed::ROOT_CA;
use kubeproof::{quota_usage, type_checking};
use kubeproof_apiserver::Clock;
use kubeproof_controller::kruise;
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::namespace;
use kubeproof_controller::node::{LEASE_RENEWAL, Timings};
use kubeproof_controller::statefulset::Settings;
use kubeproof_controller::{KRUISE_CONTROLLERS, Manager, Options};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use super::kruise_gates::KruiseGates;
use super::out;

#[derive(Args)]
pub(super) struct ControllersArgs {
    /// Names the API server and who the controllers are to it.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The controllers that run: all, or names between commas.
    #[arg(long, value_name = "all|NAME,...", default_value = "all")]
    controllers: String,
    /// Simulated nodes with their scheduler, for a server that has none. Nobody but themselves looks into their
    /// containers: logs and exec are a server's, which asks kubelets at their addresses.
    #[arg(long, value_name = "N", default_value_t = 0)]
    nodes: usize,
    #[command(flatten)]
    kruise_gates: KruiseGates,
}

pub(super) fn run(args: ControllersArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run_until_signal(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn run_until_signal(args: ControllersArgs) -> anyhow::Result<()> {
    // Before anything is printed, so that a signal sent right after is not lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut controllers = super::controller_names(&args.controllers)?;
    let config = super::kubeconfig::config(&args.kubeconfig).await?;
    let url = config.cluster_url.clone();
    // The controllers log what goes wrong; their client would log it a second time.
    super::service::prepare(LevelFilter::WARN);
    // Whoever cannot be reached now is better told of than waited for.
    let version = super::kubeconfig::version(&config).await?;
    if args.controllers == "all" && serves_kruise(&config).await? {
        controllers.extend(KRUISE_CONTROLLERS.iter().map(|name| (*name).to_owned()));
    }
    let names = controllers.join(", ");
    let (client, mut options) = options(config, controllers, args.nodes)?;
    options.kruise = args.kruise_gates.read();
    options.kruise_daemon = options.kruise.daemon;
    let manager = Manager::start_supervised(client, options)?;
    let nodes = match args.nodes {
        0 => String::new(),
        1 => " and 1 node".to_owned(),
        nodes => format!(" and {nodes} nodes"),
    };
    out::say(&format!("running {names}{nodes} against {url} ({version})"))?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    manager.shutdown().await;
    Ok(())
}

/// The client and the options of a manager of these controllers, and nodes, against the server of
/// `config`.
pub(super) fn options(
    config: kube::Config,
    controllers: Vec<String>,
    nodes: usize,
) -> anyhow::Result<(kube::Client, Options)> {
    let root_ca = config.root_cert.as_deref().map_or(ROOT_CA.to_owned(), pem);
    let clock = Clock::real();
    let options = Options {
        controllers,
        nodes,
        default_storage_class: true,
        timings: Timings::default(),
        lease_renewal: LEASE_RENEWAL,
        stages: Vec::new(),
        root_ca,
        statefulset: Settings::default(),
        namespace: namespace::Settings::default(),
        kruise: Gates::default(),
        kruise_daemon: Gates::default().daemon,
        check_types: type_checking::check,
        credentials: None,
        count_usage: quota_usage::count,
        now: Arc::new(move || clock.now()),
    };
    Ok((kube::Client::try_from(config)?, options))
}

/// Whether OpenKruise's kinds are defined there.
pub(super) async fn serves_kruise(config: &kube::Config) -> anyhow::Result<bool> {
    let client = kube::Client::try_from(config.clone())?;
    let groups = client.list_api_groups().await?.groups;
    Ok(groups.iter().any(|group| group.name == kruise::GROUP))
}

/// Certificates as text.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
