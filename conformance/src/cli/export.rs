//! `kubeproof export`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use http::Request;
use kube::Client;

use super::{kubeconfig, out};

/// The path at which a server serves its state.
const SNAPSHOT: &str = "/kubeproof/v1/snapshot";

#[derive(Args)]
pub(super) struct ExportArgs {
    /// Names the server, and its administrator [default: the kubeconfig that kubectl uses].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Prints the state of a server as it gives it.
pub(super) fn export(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(async {
        let config = match &args.kubeconfig {
            Some(path) => kubeconfig::config(path).await?,
            None => kubeconfig::usual().await?,
        };
        let url = config.cluster_url.clone();
        let request = Request::get(SNAPSHOT).body(Vec::new())?;
        match Client::try_from(config)?.request_text(request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                bail!("the API server at {url} is not kubeproof: it does not serve {SNAPSHOT}")
            }
            text => text.with_context(|| format!("cannot use the API server at {url}")),
        }
    })?;
    out::say(text.trim_end_matches('\n'))?;
    Ok(ExitCode::SUCCESS)
}
