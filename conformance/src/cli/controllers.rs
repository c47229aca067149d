//! `kubeproof controllers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kubeproof::testbed::ROOT_CA;
use kubeproof::type_checking;
use kubeproof_apiserver::Clock;
use kubeproof_controller::kruise;
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::node::{LEASE_RENEWAL, Timings};
use kubeproof_controller::statefulset::Settings;
use kubeproof_controller::{KRUISE_CONTROLLERS, Manager, Options};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

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
    // The controllers say what goes wrong; their client would say it once more.
    let own = Targets::new().with_target("kubeproof_controller", LevelFilter::WARN);
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(stderr.with_filter(own))
        .init();
    // Whoever cannot be reached now is better told of than waited for.
    let version = super::kubeconfig::version(&config).await?;
    if args.controllers == "all" && serves_kruise(&config).await? {
        controllers.extend(KRUISE_CONTROLLERS.iter().map(|name| (*name).to_owned()));
    }
    let names = controllers.join(", ");
    let manager = start(config, controllers, args.nodes)?;
    match args.nodes {
        0 => println!("running {names} against {url} ({version})"),
        nodes => println!("running {names} and {nodes} nodes against {url} ({version})"),
    }
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    manager.shutdown().await;
    Ok(())
}

/// Starts the controllers of these names, and nodes, against the server of `config`.
pub(super) fn start(
    config: kube::Config,
    controllers: Vec<String>,
    nodes: usize,
) -> anyhow::Result<Manager> {
    let root_ca = config.root_cert.as_deref().map_or(ROOT_CA.to_owned(), pem);
    let clock = Clock::real();
    let manager = Manager::start(
        kube::Client::try_from(config)?,
        Options {
            controllers,
            nodes,
            timings: Timings::default(),
            lease_renewal: LEASE_RENEWAL,
            stages: Vec::new(),
            root_ca,
            statefulset: Settings::default(),
            kruise: Gates::default(),
            check_types: type_checking::check,
            now: Arc::new(move || clock.now()),
        },
    )?;
    Ok(manager)
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
