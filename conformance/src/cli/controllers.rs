//! `kubeproof controllers`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kube::Client;
use kubeproof::scenario::HumanDuration;
use kubeproof::testbed::ROOT_CA;
use kubeproof::{device_selection, quota_usage, type_checking};
use kubeproof_apiserver::Clock;
use kubeproof_controller::apps::statefulset::Settings;
use kubeproof_controller::kruise;
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::{Manager, Options, RETRY_MAX};
use kubeproof_node::{LEASE_RENEWAL, MissingImages, SameImages, SchedulerConfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tracing_subscriber::filter::LevelFilter;

use super::kruise_gates::KruiseGates;
use super::load_balancers::LoadBalancerArgs;
use super::pace::{Pace, PaceArgs};
use super::scheduler_config::SchedulerConfigArgs;
use super::{out, values};

/// The period of checks that the API server is reachable.
const POLL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct ControllersArgs {
    /// The kubeconfig with the API server, and the user that the controllers act as.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The controllers that run: all, none, or names between commas; *,-NAME are all but one.
    #[arg(long, value_name = "all|none|NAME,...", default_value = "all")]
    controllers: String,
    /// The number of simulated nodes, with a scheduler, for a server without nodes. kubectl logs and exec do not work
    /// with them: the server asks kubelets at their addresses.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = values::number::<usize>,
        allow_negative_numbers = true
    )]
    nodes: usize,
    #[command(flatten)]
    scheduler_config: SchedulerConfigArgs,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    load_balancers: LoadBalancerArgs,
    /// No registry has this image; a * in the pattern stands for any text. Its containers wait in ImagePullBackOff. May
    /// be repeated.
    #[arg(long, value_name = "PATTERN", value_parser = values::image_pattern)]
    missing_image: Vec<String>,
    /// End with exit code 2 when the API server has been unreachable for this long [default when given without a
    /// value: 10s]. Without this flag the controllers retry indefinitely.
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s"
    )]
    exit_on_disconnect: Option<HumanDuration>,
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
    let scheduler_config = args.scheduler_config.read()?;
    let config = super::kubeconfig::config(&args.kubeconfig).await?;
    let url = config.cluster_url.clone();
    // The controllers log errors; their client would log them a second time.
    super::service::prepare(LevelFilter::WARN, false);
    // An unreachable server is reported now instead of being waited for.
    let version = super::kubeconfig::version(&config).await?;
    if super::has_all(&args.controllers) && serves_kruise(&config).await? {
        super::add_kruise(&mut controllers, &args.controllers);
    }
    let running = in_words(&controllers, args.nodes, args.load_balancers.are_given());
    let running = running
        .context("there is nothing to run: name --controllers, --nodes or --load-balancers")?;
    let (client, mut options) = for_cluster(config, controllers, args.nodes, args.pace.pace)?;
    options.scheduler_config = scheduler_config.unwrap_or_default();
    options.load_balancers = args.load_balancers.read();
    options.missing_images = MissingImages::try_new(args.missing_image)?;
    options.kruise = args.kruise_gates.read();
    options.kruise_daemon = options.kruise.daemon;
    // Before the controllers start, because what they log at once goes to stderr, too.
    out::say(&format!("running {running} against {url} ({version})"))?;
    out::note(&match args.exit_on_disconnect {
        None => format!(
            "failed watches are retried within {}; Ctrl-C or SIGTERM stops the controllers",
            HumanDuration(RETRY_MAX)
        ),
        Some(limit) => {
            format!("Ctrl-C, SIGTERM or {limit} without the API server end the controllers")
        }
    });
    let manager = Manager::start_supervised(client.clone(), options)?;
    let ended = tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
        limit = disconnected(&client, args.exit_on_disconnect) => {
            Err(anyhow::anyhow!("the API server at {url} could not be reached for {limit}"))
        }
    };
    manager.shutdown().await;
    ended
}

/// The controllers, the nodes and the cloud as a list; `None` when it would be empty.
fn in_words(controllers: &[String], nodes: usize, has_cloud: bool) -> Option<String> {
    let nodes = match nodes {
        0 => None,
        1 => Some("1 node".to_owned()),
        nodes => Some(format!("{nodes} nodes")),
    };
    let cloud = has_cloud.then(|| "load balancers".to_owned());
    let mut all: Vec<String> = controllers.to_vec();
    all.extend(nodes.into_iter().chain(cloud));
    let last = all.pop()?;
    Some(match all.as_slice() {
        [] => last,
        all => format!("{} and {last}", all.join(", ")),
    })
}

/// Completes after no request to the server has been answered for `limit`, which it returns; never completes when
/// `limit` is `None`.
async fn disconnected(client: &Client, limit: Option<HumanDuration>) -> HumanDuration {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    let mut answered = Instant::now();
    loop {
        tokio::time::sleep(POLL.min(limit.0)).await;
        let asked = tokio::time::timeout(limit.0.max(POLL), client.apiserver_version());
        match asked.await {
            // A refusal is an answer.
            Ok(Ok(_) | Err(kube::Error::Api(_))) => answered = Instant::now(),
            _ if answered.elapsed() >= limit.0 => return limit,
            _ => {}
        }
    }
}

/// The client and the options of a manager of these controllers, and nodes, against the server of
/// `config`.
pub(super) fn for_cluster(
    config: kube::Config,
    controllers: Vec<String>,
    nodes: usize,
    pace: Pace,
) -> anyhow::Result<(Client, Options)> {
    let root_ca = config.root_cert.as_deref().map_or(ROOT_CA.to_owned(), pem);
    let options = options((controllers, nodes), pace, root_ca);
    Ok((Client::try_from(config)?, options))
}

/// The options of a manager of these controllers, and nodes, by the machine's clock.
pub(super) fn options(
    (controllers, nodes): (Vec<String>, usize),
    pace: Pace,
    root_ca: String,
) -> Options {
    let clock = Clock::real();
    Options {
        controllers,
        nodes,
        scheduler: nodes > 0,
        scheduler_config: SchedulerConfig::default(),
        default_storage_class: true,
        load_balancers: None,
        timings: pace.timings(),
        same_images: SameImages::default(),
        missing_images: MissingImages::default(),
        lease_renewal: LEASE_RENEWAL,
        stages: Vec::new(),
        root_ca,
        statefulset: Settings::default(),
        namespace: pace.namespace(),
        kruise: Gates::default(),
        kruise_daemon: Gates::default().daemon,
        check_types: type_checking::check,
        compile_selector: device_selection::compile,
        credentials: None,
        count_usage: quota_usage::count,
        now: Arc::new(move || clock.now()),
    }
}

/// Whether the server has OpenKruise's definitions.
pub(super) async fn serves_kruise(config: &kube::Config) -> anyhow::Result<bool> {
    let client = Client::try_from(config.clone())?;
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
