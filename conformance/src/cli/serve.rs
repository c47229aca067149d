//! `kubeproof serve`.

mod authentication;
mod identity;
mod pace;

use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use http::HeaderValue;
use kubeproof::log::{Moment, State};
use kubeproof::nodes::PortForward;
use kubeproof::scenario::read_objects;
use kubeproof::testbed::ROOT_CA;
use kubeproof::{credentials, in_process, kruise, nodes, quota_usage, type_checking};
use kubeproof_apiserver::{ApiServer, ApiServerBuilder, Clock, FieldValidation, Manifests, Tls};
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::node::{LEASE_RENEWAL, Stage};
use kubeproof_controller::statefulset::Settings;
use kubeproof_controller::{KRUISE_CONTROLLERS, Manager, Options};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use super::kruise_gates::KruiseGates;
use super::out;
use identity::IdentityArgs;
use pace::Pace;

/// The mode of a file with credentials.
const OWNER_ONLY: u32 = 0o600;

/// How many files of `--load` are read before their turn.
const FILES_AHEAD: usize = 8;

#[derive(Args)]
pub(super) struct ServeArgs {
    /// Where to listen: a name or address, and a port; port 0 takes any free one, and without a name
    /// (`:8080`) every address of the machine is meant.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = listen)]
    listen: SocketAddr,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Refuse pods whose service account does not exist, and mount tokens into the others.
    #[arg(long)]
    service_account_admission: bool,
    /// How many simulated nodes there are, with a scheduler and kubelets.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    nodes: usize,
    /// How much time things take. `fast`: hardly any. `real`: as much as on a machine; a kubelet asks
    /// its runtime once a second, images and containers take their time, who has no handler for SIGTERM
    /// (sleep, tail, a shell without trap) is killed when the grace period is over, and a namespace is
    /// emptied some seconds after its deletion.
    #[arg(
        long,
        value_name = "fast|real",
        default_value = "fast",
        hide_possible_values = true
    )]
    pace: Pace,
    /// The controllers that run: all, none, or names between commas.
    #[arg(long, value_name = "all|none|NAME,...", default_value = "all")]
    controllers: String,
    /// Create the objects of a manifest, or of all manifests in a directory, before listening;
    /// definitions are served by then. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    load: Vec<PathBuf>,
    /// Load objects with unknown or duplicate fields, too: the fields are dropped with a warning.
    #[arg(long, requires = "load")]
    load_lenient: bool,
    /// Move objects on as the Stage objects of KWOK in a file, or in all files of a directory, say;
    /// stages of pods take the place of the simulated kubelets. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    stages: Vec<PathBuf>,
    /// Write a kubeconfig for this server there, readable by its owner alone.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// How the cluster, the user and the context of that kubeconfig are called.
    #[arg(long, value_name = "NAME", default_value = "kubeproof")]
    name: String,
    /// Where webhooks find a service that has no endpoints here; the port is 443 unless it is
    /// named. May be repeated.
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]=HOST:PORT", value_parser = service)]
    service: Vec<Service>,
    /// Where a port of pods leads when it is forwarded: a program on this machine. The name of the pod
    /// may end with * for all that begin so. May be repeated.
    #[arg(long, value_name = "NAMESPACE/POD:PORT=ADDRESS:PORT")]
    port_forward: Vec<PortForward>,
    /// Have OpenKruise's CloneSet, Advanced StatefulSet, ImagePullJob and NodeImage: definitions, webhooks and
    /// controllers.
    #[arg(long)]
    kruise: bool,
    #[command(flatten)]
    kruise_gates: KruiseGates,
    /// Hold what there was in a run whose log this is, without controllers and nodes.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["nodes", "controllers", "load", "stages", "kruise"]
    )]
    log: Option<PathBuf>,
    /// When in the log: behind the write of that version, at a time, or so long after the beginning (+10m)
    /// [default: in the end].
    #[arg(long, value_name = "REVISION|TIME|+DURATION", requires = "log")]
    at: Option<Moment>,
    /// Serve over TLS, with a certificate whose authority is in the kubeconfig.
    #[arg(long)]
    tls: bool,
}

pub(super) fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve_until_signal(args));
    // A request that was given up may still be computing; the process does not wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn serve_until_signal(args: ServeArgs) -> anyhow::Result<()> {
    // Before anything is printed, so that a signal sent right after is not lost.
    let mut terminate = signal(SignalKind::terminate())?;
    super::service::prepare(LevelFilter::ERROR);
    args.identity.check_listen(args.listen)?;
    if args.identity.token.is_some() && !args.tls {
        out::note(
            "warning: over plain HTTP kubectl, Helm and every other program with client-go send no token \
             and are anonymous; add --tls for them",
        );
    }
    let clock = Clock::real();
    let tls = args.tls.then(|| Tls::generate(args.listen.ip()));
    let gates = args.kruise_gates.read();
    let (server, bearer) = build(&args, clock.clone(), tls.as_ref(), gates)?;
    let client = in_process::client(&server, bearer);
    let mut controllers = match args.log {
        None => super::controller_names(&args.controllers)?,
        Some(_) => Vec::new(),
    };
    if args.kruise {
        if args.controllers == "all" {
            controllers.extend(KRUISE_CONTROLLERS.iter().map(|name| (*name).to_owned()));
        }
        let mut loader = server.loader();
        for object in kruise::objects().into_iter().chain(kruise::image_objects()) {
            loader.create(object).await?;
        }
        loader.finish().await?;
    }
    load(&server, &args).await?;
    if args.nodes > 0 {
        server.set_component_running("scheduler");
    }
    if !controllers.is_empty() {
        server.set_component_running("controller-manager");
    }
    let is_alone = args.nodes == 0 && controllers.is_empty();
    let others = args.identity.other_client_authorities()?;
    if let Some(tls) = tls.as_ref().filter(|_| !is_alone || others.is_some()) {
        authentication::publish(&client, tls.authority_pem(), others.as_deref()).await?;
    }
    let manager = Manager::start_supervised(
        client,
        Options {
            controllers,
            nodes: args.nodes,
            default_storage_class: true,
            timings: args.pace.timings(),
            lease_renewal: LEASE_RENEWAL,
            stages: stages(&args.stages)?,
            root_ca: tls.as_ref().map_or(ROOT_CA, Tls::authority_pem).to_owned(),
            credentials: Some(credentials::of(&server)),
            statefulset: Settings::default(),
            namespace: args.pace.namespace(),
            kruise: gates,
            kruise_daemon: gates.daemon,
            check_types: type_checking::check,
            count_usage: quota_usage::count,
            now: Arc::new(move || clock.now()),
        },
    )?;
    nodes::connect_with(&server, &manager, args.port_forward.clone());
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let scheme = if args.tls { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    if let Some(path) = &args.kubeconfig_out {
        let text = kubeconfig(&args, &url, tls.as_ref())?;
        write_private(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    server.set_external_url(&url);
    out::say(&format!("listening on {url}"))?;
    let shutdown = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    match tls {
        Some(tls) => kubeproof_apiserver::serve_tls(server, listener, tls, shutdown).await?,
        None => kubeproof_apiserver::serve(server, listener, shutdown).await?,
    }
    manager.shutdown().await;
    Ok(())
}

/// Builds the server that the arguments describe, and the header that its own clients send.
fn build(
    args: &ServeArgs,
    clock: Clock,
    tls: Option<&Tls>,
    gates: Gates,
) -> anyhow::Result<(ApiServer, Option<HeaderValue>)> {
    let builder = ApiServer::builder()
        .clock(clock)
        .service_account_admission(args.service_account_admission);
    let mut builder = args.identity.apply(builder, tls)?;
    for service in &args.service {
        let Service {
            namespace,
            name,
            port,
            address,
        } = service;
        builder = builder.resolve_service(namespace, name, *port, *address);
    }
    let bearer = args.identity.token.as_deref().map(in_process::bearer);
    let bearer = bearer.map(|header| header.context("the token cannot be sent in a header"));
    let bearer = bearer.transpose()?;
    // A log may hold OpenKruise's objects.
    if args.kruise || args.log.is_some() {
        let (namespace, service) = (kruise::SERVICE_NAMESPACE, kruise::SERVICE);
        let webhook = kruise::webhook(gates, bearer.clone());
        builder = builder.answer_service(namespace, service, kruise::PORT, webhook);
    }
    let server = match &args.log {
        None => builder.build(),
        Some(path) => open(path, args.at.unwrap_or(Moment::End), builder)?,
    };
    Ok((server, bearer))
}

/// A server that holds what there was in the log at `path`.
fn open(path: &Path, moment: Moment, builder: ApiServerBuilder) -> anyhow::Result<ApiServer> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let state = State::read(&text, moment).with_context(|| path.display().to_string())?;
    eprintln!(
        "{} at revision {}, {}",
        path.display(),
        state.rv,
        state.time
    );
    Ok(state.open(builder))
}

/// An address, or a name that has one; `:PORT` is that port of every address.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    };
    let addresses = text.to_socket_addrs();
    let mut addresses = addresses.map_err(|error| format!("expected HOST:PORT: {error}"))?;
    addresses
        .next()
        .ok_or_else(|| "the name has no address".to_owned())
}

/// A port of a service, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    namespace: String,
    name: String,
    port: u16,
    address: SocketAddr,
}

fn service(text: &str) -> Result<Service, String> {
    let parsed = || {
        let (service, address) = text.split_once('=')?;
        let (namespace, name) = service.split_once('/')?;
        let (name, port) = match name.split_once(':') {
            Some((name, port)) => (name, port.parse().ok()?),
            None => (name, 443),
        };
        let mut addresses = address.to_socket_addrs().ok()?;
        Some(Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
            address: addresses.next()?,
        })
    };
    parsed().ok_or_else(|| "expected NAMESPACE/NAME[:PORT]=HOST:PORT".to_owned())
}

/// Reads stages; whatever else is in the files is left alone.
fn stages(paths: &[PathBuf]) -> anyhow::Result<Vec<Stage>> {
    let mut stages = Vec::new();
    for root in paths {
        let before = stages.len();
        for file in Manifests::files(root)? {
            for object in read_objects(&file).map_err(anyhow::Error::msg)? {
                if object["kind"] == "Stage" {
                    let stage = Stage::parse(&object);
                    stages.push(stage.with_context(|| format!("cannot use {}", file.display()))?);
                }
            }
        }
        ensure!(
            stages.len() > before,
            "--stages {}: there is no Stage in it",
            root.display()
        );
    }
    Ok(stages)
}

async fn load(server: &ApiServer, args: &ServeArgs) -> anyhow::Result<()> {
    let mut loader = server.loader();
    if args.load_lenient {
        loader = loader.field_validation(FieldValidation::Warn);
    }
    for root in &args.load {
        // Files are read ahead on other threads; their objects are created in order.
        let read = |file: PathBuf| async {
            let manifests = tokio::task::spawn_blocking(move || Manifests::new().read(&file));
            manifests.await.context("reading a file does not panic")
        };
        let files = stream::iter(Manifests::files(root)?);
        let mut files = files.map(read).buffered(FILES_AHEAD);
        let mut is_empty = true;
        while let Some(manifests) = files.try_next().await? {
            for manifest in manifests? {
                is_empty = false;
                loader.create(manifest).await?;
            }
        }
        ensure!(
            !is_empty,
            "--load {}: there is no object in it",
            root.display()
        );
    }
    for warning in loader.finish().await? {
        out::note(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Writes a file that nobody but its owner can read, whatever it was before.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = options.mode(OWNER_ONLY).open(path)?;
    // The mode is that of a new file only; a device keeps its own.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    }
    file.write_all(text.as_bytes())
}

fn kubeconfig(args: &ServeArgs, url: &str, tls: Option<&Tls>) -> anyhow::Result<String> {
    let (name, token) = (&args.name, args.identity.token.as_deref());
    let mut cluster = json!({"server": url});
    if let Some(tls) = tls {
        cluster["certificate-authority-data"] = STANDARD.encode(tls.authority_pem()).into();
    }
    let mut user = token.map_or_else(|| json!({}), |token| json!({"token": token}));
    if let Some(tls) = tls {
        let admin = identity::admin_certificate(tls);
        user["client-certificate-data"] = STANDARD.encode(admin.certificate_pem).into();
        user["client-key-data"] = STANDARD.encode(admin.key_pem).into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{
            "name": name,
            "context": {"cluster": name, "user": name, "namespace": "default"},
        }],
        "current-context": name,
    });
    Ok(serde_saphyr::to_string(&config)?)
}
