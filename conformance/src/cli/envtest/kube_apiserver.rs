//! kube-apiserver: the command line and the files of upstream's, the server in memory.

mod options;
mod serving;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kubeproof::served::{FailedRequests, ServedRun};
use kubeproof::testbed::ROOT_CA;
use kubeproof::{credentials, in_process, nodes};
use kubeproof_apiserver::{ApiServer, Pace as ServerPace};
use kubeproof_controller::{Manager, Options};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

use super::kept::{self, Kept};
use super::variables::Variables;
use crate::cli::flags::{audit_options, kube_apiserver as flags};
use crate::cli::pace::Pace;
use crate::cli::parent::{self, Parent};
use crate::cli::pflag::Parsed;
use crate::cli::serve::authentication;
use crate::cli::{controllers, out, service};

/// The verbosity of `-v` from which each request is logged.
const LOGS_REQUESTS: i64 = 3;

pub(super) fn run() -> ExitCode {
    let parsed = match super::values_to_serve(flags::read(std::env::args().skip(1))) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    for line in parsed.deprecated().into_iter().chain(parsed.warning()) {
        out::note(&line);
    }
    match start(&parsed) {
        Ok(code) => code,
        Err(error) => {
            out::note(&format!(
                "\"command failed\" err={:?}",
                format!("{error:#}")
            ));
            ExitCode::FAILURE
        }
    }
}

fn start(parsed: &Parsed) -> anyhow::Result<ExitCode> {
    let (variables, warnings) = Variables::read()?;
    for warning in warnings {
        out::note(&format!("warning: {warning}"));
    }
    let kept = Kept::of_environment()?;
    if variables.keep && kept.is_none() {
        return kept::start();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(parsed, variables, kept));
    // Requests that are under way end with the process: the harness waits.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(parsed: &Parsed, variables: Variables, kept: Option<Kept>) -> anyhow::Result<()> {
    // Before anything else, so that no signal is lost.
    let stop = parent::stop(Parent::find())?;
    service::prepare(LevelFilter::ERROR, parsed.number("v") >= LOGS_REQUESTS);
    let address = bind_address(parsed)?;
    let certificate = serving::certificate(parsed, address.ip())?;
    let mut builder = options::builder(parsed)?;
    if variables.pace {
        builder = builder.pace(ServerPace::ETCD);
    }
    let failed = variables.log.as_ref().map(|_| FailedRequests::default());
    let audit = match (audit_options(parsed).build()?, &failed) {
        (None, None) => None,
        (Some(audit), None) => Some(audit),
        (None, Some(failed)) => Some(failed.audit()),
        (Some(audit), Some(failed)) => Some(failed.also(audit)),
    };
    if let Some(audit) = audit {
        builder = builder.audit(audit);
    }
    let token = kept.as_ref().map(Kept::token);
    let mut builder = builder.token(token.map(str::to_owned));
    if variables.log.is_some() {
        builder = builder.journal();
    }
    let server = builder.build();
    let logs = variables.log.as_deref().zip(failed.as_ref());
    let run = logs.map(|(dir, failed)| {
        let begun = ServedRun::begin(&server, dir, failed);
        begun.with_context(|| format!("KUBEPROOF_LOG: {}", dir.display()))
    });
    let run = run.transpose()?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("failed to create listener: {address}"))?;
    let url = format!("https://{}", reached_at(parsed, listener.local_addr()?));
    server.set_external_url(&url);
    let client = in_process::client(&server, token.and_then(in_process::bearer));
    if let Some(given) = options::published(parsed)? {
        authentication::publish_given(&client, &given).await?;
    }
    // After the server's own writes.
    for fault in &variables.faults {
        // A rule may name a resource whose definition is yet to come.
        server.inject(fault.clone());
    }
    let manager = start_controllers(&server, client, &variables)?;
    if let Some(kept) = &kept {
        kept.write_kubeconfig(&url, certificate.chain_pem())?;
    }
    kubeproof_apiserver::serve_tls(server, listener, certificate, stop).await?;
    manager.shutdown().await;
    if let Some(run) = run {
        let page = run.end().await.context("KUBEPROOF_LOG")?;
        out::note(&format!("the test's requests are in {}", page.display()));
    }
    Ok(())
}

/// Starts the controllers and nodes that the variables ask for.
fn start_controllers(
    server: &ApiServer,
    client: kube::Client,
    variables: &Variables,
) -> anyhow::Result<Manager> {
    if variables.nodes > 0 {
        server.set_component_running("scheduler");
    }
    if !variables.controllers.is_empty() {
        server.set_component_running("controller-manager");
    }
    let clock = server.clock().clone();
    let running = (variables.controllers.clone(), variables.nodes);
    let options = Options {
        credentials: Some(credentials::of(server)),
        now: Arc::new(move || clock.now()),
        ..controllers::options(running, Pace::Fast, ROOT_CA.to_owned())
    };
    let manager = Manager::start_supervised(client, options)?;
    nodes::connect(server, &manager);
    Ok(manager)
}

/// The address to listen on.
fn bind_address(parsed: &Parsed) -> anyhow::Result<SocketAddr> {
    let port = u16::try_from(parsed.number("secure-port")).context("--secure-port")?;
    let address = match parsed.text("bind-address") {
        Some(address) => address.parse().context("--bind-address")?,
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    Ok(SocketAddr::new(address, port))
}

/// The address by which clients reach a server that listens on `bound`.
fn reached_at(parsed: &Parsed, bound: SocketAddr) -> SocketAddr {
    let advertised = parsed.text("advertise-address");
    let advertised = advertised.and_then(|text| text.parse().ok());
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let own = match bound.ip().is_unspecified() {
        true => advertised.unwrap_or(local),
        false => bound.ip(),
    };
    SocketAddr::new(own, bound.port())
}
