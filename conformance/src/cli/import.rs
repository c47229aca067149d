//! `kubeproof import`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use http::Request;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use kube::Client;
use kube::core::Status;
use kubeproof::incident;
use kubeproof_apiserver::{Manifest, Manifests, ServerState};
use kubeproof_machinery::json::{Value, json};
use serde::Deserialize;

use super::export::{self, ServerArgs};
use super::{out, values};

/// The path at which a server takes objects in.
const IMPORT: &str = "/kubeproof/v1/import";

#[derive(Args)]
pub(super) struct ImportArgs {
    /// What `kubeproof export` prints, manifests, or what `serve --load` stores as it was: objects of
    /// `kubectl get --output yaml`, directories of `kubectl cluster-info dump` or must-gather, and audit logs with bodies.
    /// `-` is standard input, for an export or manifests.
    #[arg(required = true, value_name = "FILE|DIR|-")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    /// Replace objects of the same name. Without this flag they are conflicts, and nothing is imported.
    #[arg(long)]
    replace: bool,
    /// Refuse manifests with unknown or duplicate fields, which are dropped with a warning otherwise.
    #[arg(long)]
    strict: bool,
    /// Import the state that an audit log has at this time [default: at its end].
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
}

/// Enough of a file to tell what it is.
const BEGINNING_BYTES: u64 = 64;

/// The answer of the server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImportResult {
    stored: usize,
    unchanged: usize,
    left_out: Vec<String>,
    warnings: Vec<String>,
}

/// Takes files into a running server.
pub(super) fn import(args: ImportArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        args.until.is_none() || incident::has_audit_log(&args.paths)?,
        "--until is for audit logs, and no file is one"
    );
    let mut objects = Vec::new();
    for path in &args.paths {
        let read = read(path, args.until)?;
        ensure!(
            !read.is_empty(),
            "{}: there is no object in it",
            path.display()
        );
        for manifest in &read {
            report_duplicates(manifest, args.strict)?;
        }
        objects.extend(read.into_iter().map(|manifest| manifest.object));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(send(&args, &list))?;
    for object in result.left_out {
        out::note(&format!(
            "warning: {object} is left out: nothing serves this kind, as its definition is not there"
        ));
    }
    for warning in result.warnings {
        out::note(&format!("warning: {warning}"));
    }
    out::say(&in_words(result.stored, result.unchanged))?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(stored: usize, unchanged: usize) -> String {
    let objects = |count: usize| match count {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    match unchanged {
        0 => format!("{} stored", objects(stored)),
        1 => format!("{} stored, 1 was there already", objects(stored)),
        unchanged => format!("{} stored, {unchanged} were there already", objects(stored)),
    }
}

/// Reads the objects at `path`.
fn read(path: &Path, until: Option<Timestamp>) -> anyhow::Result<Vec<Manifest>> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        return match ServerState::is_begun_by(&text) {
            true => held(&text).context("standard input"),
            false => Ok(Manifests::new().yaml(&text)?.into_iter().collect()),
        };
    }
    if path.is_file() && is_export(path)? {
        let text = std::fs::read_to_string(path).with_context(|| cannot_read(path))?;
        return held(&text).with_context(|| path.display().to_string());
    }
    match incident::read(path, until)? {
        Some(objects) => Ok(objects),
        None => Ok(Manifests::new().read(path)?.into_iter().collect()),
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Whether the file begins as an export does. An audit log of gigabytes is not read for that.
fn is_export(path: &Path) -> anyhow::Result<bool> {
    let file = File::open(path).with_context(|| cannot_read(path))?;
    let mut beginning = Vec::new();
    let read = file.take(BEGINNING_BYTES).read_to_end(&mut beginning);
    read.with_context(|| cannot_read(path))?;
    Ok(ServerState::is_begun_by(&String::from_utf8_lossy(
        &beginning,
    )))
}

/// The objects of an export.
///
/// # Errors
/// A line is broken, or the text is a recording, which begins as an export does.
fn held(text: &str) -> anyhow::Result<Vec<Manifest>> {
    let (_, rest) = ServerState::read(text)?;
    ensure!(
        rest.trim().is_empty(),
        "this is more than an export, such as a recording of `serve --record`: \
         `serve --from-log` starts with it, and `export` prints what that server has"
    );
    Ok(export::objects(text).map(Manifest::from).collect())
}

/// Reports the keys that a document has twice, which JSON does not carry to the server.
fn report_duplicates(manifest: &Manifest, strict: bool) -> anyhow::Result<()> {
    let place = manifest.file.as_ref();
    let place = place.map_or_else(String::new, |file| format!("{}: ", file.display()));
    for duplicate in &manifest.duplicates {
        ensure!(!strict, "{place}strict decoding error: {duplicate}");
        out::note(&format!("warning: {place}{duplicate}"));
    }
    Ok(())
}

/// Sends the objects.
///
/// # Errors
/// When the server is not kubeproof, or imports nothing.
async fn send(args: &ImportArgs, list: &Value) -> anyhow::Result<ImportResult> {
    let config = args.server.config().await?;
    let url = config.cluster_url.clone();
    let validation = if args.strict { "Strict" } else { "Warn" };
    let replace = args.replace;
    let path = format!("{IMPORT}?replace={replace}&fieldValidation={validation}");
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    let request = request.body(serde_json::to_vec(list)?)?;
    match Client::try_from(config)?.request(request).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            bail!(
                "the API server at {url} does not serve {IMPORT}: it is not kubeproof, or an older one"
            )
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            bail!(
                "nothing is imported; --replace would replace what exists:{}",
                conflicts(&status)
            )
        }
        Err(kube::Error::Api(status)) => {
            bail!("nothing is imported: {} {}", status.code, status.message)
        }
        result => result.with_context(|| format!("cannot use the API server at {url}")),
    }
}

/// Each conflict in a line.
fn conflicts(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| format!("\n  {}", cause.message));
    causes.collect()
}
