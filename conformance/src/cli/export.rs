//! `kubeproof export`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use http::{Request, Uri};
use jiff::Timestamp;
use kube::{Client, Config};
use kubeproof::incident;
use kubeproof_apiserver::Manifests;
use kubeproof_machinery::json::{Value, json};

use super::{kubeconfig, out, values};

/// The path at which a server serves its state.
const SNAPSHOT: &str = "/kubeproof/v1/snapshot";

/// The running server that a command is about.
#[derive(Args)]
pub(super) struct ServerArgs {
    /// Names the server, and its administrator [default: the kubeconfig that kubectl uses].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The URL of a server that asks for no credentials, as `kubeproof serve` prints it.
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig")]
    server: Option<Uri>,
}

impl ServerArgs {
    /// Returns how to reach the server.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub(super) async fn config(&self) -> anyhow::Result<Config> {
        match (&self.server, &self.kubeconfig) {
            (Some(url), _) => kubeconfig::of_url(url).await,
            (None, Some(path)) => kubeconfig::config(path).await,
            (None, None) => kubeconfig::usual().await,
        }
    }
}

#[derive(Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print a List in YAML, as `kubectl get --output yaml` does, with all objects and their managed fields.
    #[arg(long)]
    list: bool,
    /// Print the List of a directory of `kubectl cluster-info dump` or must-gather, or of an audit log with bodies.
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "server", "list"])]
    from: Option<PathBuf>,
    /// With --from: the state that an audit log has at this time [default: at its end].
    #[arg(long, value_name = "TIME", requires = "from", value_parser = values::time)]
    until: Option<Timestamp>,
}

/// Prints the state of a server as it gives it.
pub(super) fn export(args: ExportArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.from {
        ensure!(
            args.until.is_none() || incident::has_audit_log(std::slice::from_ref(path))?,
            "--until is for audit logs, and {} is not one",
            path.display()
        );
        let objects = incident::read(path, args.until)?;
        let objects = match objects {
            Some(objects) => objects,
            None => Manifests::new().read(path)?.into_iter().collect(),
        };
        say_list(
            objects
                .into_iter()
                .map(|manifest| manifest.object)
                .collect(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(async {
        let config = args.server.config().await?;
        let url = config.cluster_url.clone();
        let request = Request::get(SNAPSHOT).body(Vec::new())?;
        match Client::try_from(config)?.request_text(request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                bail!("the API server at {url} is not kubeproof: it does not serve {SNAPSHOT}")
            }
            text => text.with_context(|| format!("cannot use the API server at {url}")),
        }
    })?;
    if args.list {
        say_list(objects(&text).collect())?;
    } else {
        out::say(text.trim_end_matches('\n'))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects in what a server has exported.
pub(super) fn objects(text: &str) -> impl Iterator<Item = Value> {
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let objects = lines.map(|mut line: Value| line["object"]["object"].take());
    objects.filter(|object| !object.is_null())
}

/// Prints objects as a List.
fn say_list(objects: Vec<Value>) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    out::say(serde_saphyr::to_string(&list)?.trim_end())
}
