//! `kubeproof serve`.

mod announce;
mod audit;
pub(super) mod authentication;
mod identity;
pub(super) mod kubeconfig;
mod load;
mod programs;
mod record;
mod service;
mod state;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::future::OptionFuture;
use http::HeaderValue;
use jiff::Timestamp;
use kubeproof::log::{Moment, State};
use kubeproof::nodes::PortForward;
use kubeproof::testbed::ROOT_CA;
use kubeproof::{
    credentials, device_selection, in_process, kruise, nodes, quota_usage, type_checking,
};
use kubeproof_apiserver::{ApiServer, FieldValidation, LoadError, Tls, TokenKeys};
use kubeproof_controller::apps::statefulset::Settings;
use kubeproof_controller::kruise::Gates;
use kubeproof_controller::{Manager, Options};
use kubeproof_node::{LEASE_RENEWAL, MissingImages, SameImages};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

use super::kruise_gates::KruiseGates;
use super::load_balancers::LoadBalancerArgs;
use super::memory::WithoutHugePages;
use super::pace::{Pace, PaceArgs};
use super::parent::{self, Parent};
use super::scheduler_config::SchedulerConfigArgs;
use super::{listen, out, values};
use audit::AuditArgs;
use identity::IdentityArgs;
use programs::{ProgramArgs, Programs, Reserved};
use record::Recording;
use service::Service;
use state::{Keeper, StateDir};

/// The code of `AlreadyExists`.
const CONFLICT: u16 = 409;

#[derive(Args)]
pub(super) struct ServeArgs {
    /// The address to listen on: a name or address, and a port. Port 0 takes any free port; `:8080` listens on every
    /// address of the machine.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = listen::address)]
    listen: SocketAddr,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Refuse pods whose service account does not exist, and mount tokens into the others.
    #[arg(long)]
    service_account_admission: bool,
    /// The number of simulated nodes, with a scheduler and kubelets.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = values::number::<usize>,
        allow_negative_numbers = true
    )]
    nodes: usize,
    /// What binds pods to nodes: simulated is a scheduler of kubeproof, also for nodes that are not simulated; none leaves
    /// pods to another scheduler, such as kube-scheduler [default: simulated with nodes, none without].
    #[arg(long, value_name = "simulated|none", hide_possible_values = true)]
    scheduler: Option<Scheduler>,
    #[command(flatten)]
    scheduler_config: SchedulerConfigArgs,
    /// The metrics APIs: all serves metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io [default: all with
    /// nodes, none without].
    #[arg(long, value_name = "all|none")]
    metrics: Option<Metrics>,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    load_balancers: LoadBalancerArgs,
    /// The controllers that run: all, none, or names between commas; *,-NAME are all but one [default: all; with
    /// --from-log none].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Create the objects of a manifest, or of all manifests in a directory, before listening.
    /// Definitions and their objects may come in any order. Objects with a uid and a resourceVersion, as
    /// `kubectl get --output yaml` prints them, are stored as they are, with status and times; so are those of a directory of
    /// `kubectl cluster-info dump` or must-gather, and of an audit log with bodies. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    load: Vec<PathBuf>,
    /// Load the state that an audit log has at this time, such as 2026-05-06T07:08:09Z [default: at its end].
    #[arg(long, value_name = "TIME", requires = "load", value_parser = values::time)]
    load_until: Option<Timestamp>,
    /// Load objects with unknown or duplicate fields, too: the fields are dropped with a warning.
    #[arg(long, requires = "load")]
    load_lenient: bool,
    /// Follow the KWOK Stage objects in a file, or in all files of a directory. Stages of pods replace
    /// the simulated kubelets. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    stages: Vec<PathBuf>,
    /// Write a kubeconfig for this server into this file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// The name of the cluster, the user and the context in that kubeconfig.
    #[arg(long, value_name = "NAME", default_value = "kubeproof")]
    name: String,
    #[command(flatten)]
    programs: ProgramArgs,
    /// Call webhooks of a service that has no endpoints at this address, and pass requests for its APIServices on to it;
    /// with --program, at the port for webhooks of the only program, or of the program with this number, counted from 1.
    /// The port of the service is 443 by default. May be repeated.
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT][=HOST:PORT|=NUMBER]", value_parser = service::read)]
    service: Vec<Service>,
    /// Give two names of one image the same digest. May be repeated.
    #[arg(long, value_name = "IMAGE=IMAGE", value_parser = same_image)]
    same_image: Vec<Vec<String>>,
    /// No registry has this image; a * in the pattern stands for any text. Its containers wait in ImagePullBackOff. May
    /// be repeated.
    #[arg(long, value_name = "PATTERN", value_parser = values::image_pattern)]
    missing_image: Vec<String>,
    /// Forward a port of a pod to a program on this machine. A name that ends with * stands for all pods
    /// whose names have this prefix. May be repeated.
    #[arg(long, value_name = "NAMESPACE/POD:PORT=ADDRESS:PORT")]
    port_forward: Vec<PortForward>,
    /// Install OpenKruise's CloneSet, Advanced StatefulSet, ImagePullJob and NodeImage: definitions, webhooks and
    /// controllers.
    #[arg(long)]
    kruise: bool,
    #[command(flatten)]
    kruise_gates: KruiseGates,
    #[command(flatten)]
    audit: AuditArgs,
    /// Write everything that is stored, and each change from then on, into this file, for --from-log. It may
    /// hold Secrets: only its owner can read it.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Start from the state in a log: written by --record, by `kubeproof export`, or by a run. Controllers and nodes
    /// run only if they are asked for. It may be the file of --record.
    #[arg(long, value_name = "FILE", alias = "log")]
    from_log: Option<PathBuf>,
    /// The moment of the log: after the write of a resourceVersion (57), at a time, some time after the beginning
    /// (+10m) or after a step of the scenario began (1+5s) [default: the end].
    #[arg(
        long,
        value_name = "RESOURCE-VERSION|TIME|+DURATION|STEP+DURATION",
        requires = "from_log"
    )]
    at: Option<Moment>,
    /// Keep the state of the server in this directory across restarts: a snapshot at the end, and every few seconds
    /// in which something changes. --load counts at the first start only.
    #[arg(long, value_name = "DIR", conflicts_with = "from_log")]
    state: Option<PathBuf>,
    /// Serve over TLS, with a certificate whose authority is in the kubeconfig.
    #[arg(long)]
    tls: bool,
    /// End when the process that started this one has ended, so that a harness which is killed leaves no server.
    #[arg(long)]
    exit_with_parent: bool,
    /// Log each request that comes over the network to standard error: verb, URI, latency, user agent, code.
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn serve(args: ServeArgs, memory: Option<WithoutHugePages>) -> anyhow::Result<ExitCode> {
    let memory = memory.filter(|_| args.programs.are_none_in_real_time());
    let runtime = args.programs.runtime()?;
    let served = runtime.block_on(async {
        tokio::select! {
            biased;
            Some(never) = OptionFuture::from(memory.map(WithoutHugePages::while_small)) => match never {},
            served = serve_until_signal(args) => served,
        }
    });
    // A request that was given up may still be computing; the process does not wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}

async fn serve_until_signal(args: ServeArgs) -> anyhow::Result<()> {
    // Before anything is printed, so that a signal sent right after is not lost.
    let stop = parent::stop(match args.exit_with_parent {
        true => Parent::asked_for(),
        false => Parent::NONE,
    })?;
    super::service::prepare(LevelFilter::ERROR, args.verbose);
    args.identity.check_listen(args.listen)?;
    if args.identity.token.is_some() && !args.tls {
        out::note(
            "warning: over plain HTTP kubectl, Helm and every other program with client-go send no token \
             and are anonymous; add --tls for them",
        );
    }
    let tls = args.tls.then(|| Tls::generate(args.listen.ip()));
    let gates = args.kruise_gates.read();
    let directory = args.state.as_deref().map(StateDir::open).transpose()?;
    let held = args.held(directory.as_ref())?;
    let is_new = held.is_none();
    let keys = directory.as_ref().filter(|_| !args.identity.has_keys());
    let keys = keys.map(StateDir::token_keys).transpose()?;
    let (server, bearer, reserved) = build(&args, (held, keys), tls.as_ref(), gates)?;
    let programs =
        Programs::open(&args.programs, reserved, (&server, args.identity.asks())).await?;
    let client = in_process::client(&server, bearer);
    let chosen = args.chosen();
    let mut controllers = super::controller_names(chosen)?;
    if args.kruise {
        super::add_kruise(&mut controllers, chosen);
        install_kruise(&server).await?;
    }
    if !is_new {
        authentication::withdraw(&client).await?;
    }
    if is_new || args.state.is_none() {
        let paths = (&*args.load, args.load_until);
        load::load(&server, paths, args.field_validation()).await?;
    }
    let path = args.record.as_deref();
    let recording = path
        .map(|path| Recording::begin(&server, path))
        .transpose()?;
    let keeper = directory.map(|directory| directory.keep(&server));
    if args.has_scheduler() {
        server.set_component_running("scheduler");
    }
    if !controllers.is_empty() {
        server.set_component_running("controller-manager");
    }
    let is_alone = args.nodes == 0 && !args.has_scheduler() && controllers.is_empty();
    let others = args.identity.other_client_authorities()?;
    if let Some(tls) = tls.as_ref().filter(|_| !is_alone || others.is_some()) {
        authentication::publish(&client, tls.authority_pem(), others.as_deref()).await?;
    }
    let options = args.options(&server, tls.as_ref(), gates, controllers)?;
    let manager = Manager::start_supervised(client.clone(), options)?;
    nodes::connect_with(&server, &manager, args.port_forward.clone());
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let scheme = if args.tls { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    args.write_kubeconfig(&url, tls.as_ref())?;
    server.set_external_url(&url);
    let mut failed = recording.as_ref().map(Recording::failed);
    let mut unkept = keeper.as_ref().map(Keeper::failed);
    let shutdown = async move {
        tokio::select! {
            () = stop => {}
            () = record::when_failed(&mut failed) => {}
            () = record::when_failed(&mut unkept) => {}
        }
    };
    let serving = async {
        match tls {
            Some(tls) => kubeproof_apiserver::serve_tls(server, listener, tls, shutdown).await,
            None => kubeproof_apiserver::serve(server, listener, shutdown).await,
        }
    };
    let served = tokio::select! {
        served = serving => served.map_err(Into::into),
        Err(error) = args.announce(&url, client, &programs) => Err(error),
    };
    programs.stop().await;
    // Also after an error: clients may have written.
    manager.shutdown().await;
    let kept = match keeper {
        Some(keeper) => keeper.end().await,
        None => Ok(()),
    };
    let recorded = match recording {
        Some(recording) => recording.end().await,
        None => Ok(()),
    };
    served.and(recorded).and(kept)
}

impl ServeArgs {
    /// Writes the kubeconfig for a server at `url`, if one is asked for.
    fn write_kubeconfig(&self, url: &str, tls: Option<&Tls>) -> anyhow::Result<()> {
        let Some(path) = &self.kubeconfig_out else {
            return Ok(());
        };
        let token = self.identity.token.as_deref();
        let text = kubeconfig::text(&self.name, token, (url, tls))?;
        kubeconfig::write_private(path, &text)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the options of the controllers and nodes of `server`.
    fn options(
        &self,
        server: &ApiServer,
        tls: Option<&Tls>,
        gates: Gates,
        controllers: Vec<String>,
    ) -> anyhow::Result<Options> {
        let clock = server.clock().clone();
        Ok(Options {
            controllers,
            nodes: self.nodes,
            scheduler: self.has_scheduler(),
            scheduler_config: self.scheduler_config.read()?.unwrap_or_default(),
            default_storage_class: true,
            load_balancers: self.load_balancers.read(),
            timings: self.pace().timings(),
            same_images: SameImages::try_new(&self.same_image)?,
            missing_images: MissingImages::try_new(self.missing_image.clone())?,
            lease_renewal: LEASE_RENEWAL,
            stages: load::stages(&self.stages)?,
            root_ca: tls.map_or(ROOT_CA, Tls::authority_pem).to_owned(),
            credentials: Some(credentials::of(server)),
            statefulset: Settings::default(),
            namespace: self.pace().namespace(),
            kruise: gates,
            kruise_daemon: gates.daemon,
            check_types: type_checking::check,
            compile_selector: device_selection::compile,
            count_usage: quota_usage::count,
            now: Arc::new(move || clock.now()),
        })
    }

    /// Returns the state to start from; None for a new cluster.
    fn held(&self, directory: Option<&StateDir>) -> anyhow::Result<Option<State>> {
        let (path, state) = match (&self.from_log, directory) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                let state = State::read(&text, self.at.unwrap_or(Moment::End));
                (
                    path,
                    Some(state.with_context(|| path.display().to_string())?),
                )
            }
            (None, Some(directory)) => {
                (self.state.as_ref().expect("it is open"), directory.read()?)
            }
            (None, None) => return Ok(None),
        };
        if let Some(State { rv, time, .. }) = &state {
            out::note(&format!(
                "{} at resourceVersion {rv}, {time}",
                path.display()
            ));
        }
        Ok(state)
    }

    /// Returns the controllers to run, as `--controllers` names them.
    fn chosen(&self) -> &str {
        let default = match self.from_log {
            None => "all",
            Some(_) => "none",
        };
        self.controllers.as_deref().unwrap_or(default)
    }

    /// Returns the treatment of unknown fields of loaded objects.
    fn field_validation(&self) -> FieldValidation {
        match self.load_lenient {
            true => FieldValidation::Warn,
            false => FieldValidation::Strict,
        }
    }

    fn pace(&self) -> Pace {
        self.pace.pace
    }

    fn has_scheduler(&self) -> bool {
        match self.scheduler {
            None => self.nodes > 0,
            Some(chosen) => chosen == Scheduler::Simulated,
        }
    }

    fn has_metrics(&self) -> bool {
        match self.metrics {
            None => self.nodes > 0,
            Some(chosen) => chosen == Metrics::All,
        }
    }
}

/// What binds pods to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scheduler {
    Simulated,
    None,
}

/// The metrics APIs that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metrics {
    All,
    None,
}

/// Creates OpenKruise's definitions and configurations, unless they were in the log.
async fn install_kruise(server: &ApiServer) -> anyhow::Result<()> {
    let mut loader = server.loader();
    for object in kruise::objects().into_iter().chain(kruise::image_objects()) {
        match loader.create(object).await {
            Err(LoadError::Refused { code: CONFLICT, .. }) => {}
            created => created?,
        }
    }
    loader.finish().await?;
    Ok(())
}

/// Builds the server that the arguments describe, the header that its own clients send, and what its programs need.
fn build(
    args: &ServeArgs,
    (held, keys): (Option<State>, Option<TokenKeys>),
    tls: Option<&Tls>,
    gates: Gates,
) -> anyhow::Result<(ApiServer, Option<HeaderValue>, Reserved)> {
    let mut builder = ApiServer::builder().clock(args.programs.clock());
    if args.record.is_some() {
        builder = builder.journal();
    }
    if args.has_metrics() {
        builder = builder.metrics_apis();
    }
    if args.service_account_admission {
        builder = builder.service_account_admission();
    }
    builder = args.identity.apply(builder, tls)?;
    for service in &args.service {
        builder = service.resolved(builder);
    }
    let services = args.service.iter().filter_map(Service::of_program);
    let reserved = args.programs.reserve(builder, services.collect())?;
    let (reserved, mut builder) = reserved;
    if let Some(tls) = tls {
        let proxy = tls.client_certificate(authentication::PROXY, &[]);
        let (certificate, key) = (proxy.certificate_pem, proxy.key_pem);
        builder = builder.proxy_client_certificate(certificate.as_bytes(), key.as_bytes())?;
    }
    if let Some(audit) = args.audit.build()? {
        builder = builder.audit(audit);
    }
    let bearer = args.identity.token.as_deref().map(in_process::bearer);
    let bearer = bearer.map(|header| header.context("the token cannot be sent in a header"));
    let bearer = bearer.transpose()?;
    if let Some(keys) = keys {
        builder = builder.service_account_keys(keys);
    }
    // The state may have OpenKruise's objects.
    if args.kruise || held.is_some() {
        let (namespace, service) = (kruise::SERVICE_NAMESPACE, kruise::SERVICE);
        let webhook = kruise::webhook(gates, bearer.clone());
        builder = builder.answer_service(namespace, service, kruise::PORT, webhook);
    }
    let server = match held {
        None => builder.build(),
        Some(state) => state.open_with(builder, args.programs.clock_from()),
    };
    Ok((server, bearer, reserved))
}

fn same_image(text: &str) -> Result<Vec<String>, String> {
    let (one, other) = text.split_once('=').ok_or("expected IMAGE=IMAGE")?;
    let names = vec![one.to_owned(), other.to_owned()];
    SameImages::try_new(std::slice::from_ref(&names)).map_err(|error| error.to_string())?;
    Ok(names)
}
