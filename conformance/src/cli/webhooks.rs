//! `kubeproof webhooks`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use kube::Client;
use kubeproof::kruise::{self, TlsWebhook};
use kubeproof_apiserver::Tls;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use super::kruise_gates::KruiseGates;
use super::{listen, out};

#[derive(Args)]
pub(super) struct WebhooksArgs {
    /// The kubeconfig with the API server that calls the webhooks, and a user who may register them there.
    /// OpenKruise's definitions have to be installed.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The address to listen on: a name or address, and a port; port 0 takes any free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = listen::address)]
    listen: SocketAddr,
    /// The name or address by which the API server reaches this machine [default: the address of --listen].
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    #[command(flatten)]
    kruise_gates: KruiseGates,
}

pub(super) fn run(args: WebhooksArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(answer_until_signal(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn answer_until_signal(args: WebhooksArgs) -> anyhow::Result<()> {
    // Before anything is printed, so that a signal sent right after is not lost.
    let mut terminate = signal(SignalKind::terminate())?;
    super::service::prepare(LevelFilter::WARN, false);
    let config = super::kubeconfig::config(&args.kubeconfig).await?;
    super::kubeconfig::version(&config).await?;
    let url = config.cluster_url.clone();
    let client = Client::try_from(config)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let host = args.host.unwrap_or_else(|| address.ip().to_string());
    let tls = Tls::for_host(&host).with_context(|| format!("{host:?} is not a host"))?;
    let base = match host.contains(':') {
        true => format!("https://[{host}]:{}", address.port()),
        false => format!("https://{host}:{}", address.port()),
    };
    let authority = tls.authority_pem().to_owned();
    let webhook = TlsWebhook {
        tls,
        client: client.clone(),
        gates: args.kruise_gates.read(),
    };
    let shutdown = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    let registration = async {
        // The webhooks answer during registration: stored objects may have to be converted.
        let registered = kruise::register(&client, &base, &authority).await;
        if let Err(kube::Error::Api(status)) = &registered
            && status.is_not_found()
        {
            bail!(
                "OpenKruise's definitions are not installed in the API server at {url}: {}",
                status.message
            );
        }
        registered.context("cannot register the webhooks")?;
        out::say(&format!(
            "serving the webhooks of {} on {base}",
            kubeproof_controller::kruise::GROUP
        ))?;
        shutdown.await;
        kruise::withdraw(&client)
            .await
            .context("the webhooks are still registered")
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let ended = async {
        let _ = stopped.await;
    };
    let registration = async {
        let outcome = registration.await;
        drop(stop);
        outcome
    };
    let (served, registered) = tokio::join!(kruise::serve(webhook, listener, ended), registration);
    served?;
    registered
}
