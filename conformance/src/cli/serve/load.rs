//! Objects and stages out of files.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kubeproof::incident;
use kubeproof::scenario::read_objects;
use kubeproof_apiserver::{ApiServer, FieldValidation, Manifests};
use kubeproof_node::Stage;

use crate::cli::out;

/// The number of files of `--load` that are read ahead.
const FILES_AHEAD: usize = 8;

/// Reads stages; whatever else is in the files is left alone.
pub(super) fn stages(paths: &[PathBuf]) -> anyhow::Result<Vec<Stage>> {
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
            "--stages {}: the file contains no Stage",
            root.display()
        );
    }
    Ok(stages)
}

/// Creates the objects in the files and directories of `paths`. Live objects, which were read from a cluster, are stored as
/// they were there; those of an audit log as they were at `until`.
pub(super) async fn load(
    server: &ApiServer,
    (paths, until): (&[PathBuf], Option<Timestamp>),
    validation: FieldValidation,
) -> anyhow::Result<()> {
    ensure!(
        until.is_none() || incident::has_audit_log(paths)?,
        "--load-until is for audit logs, and no file is one"
    );
    let mut loader = server.loader().field_validation(validation);
    let mut live = Vec::new();
    for root in paths {
        if let Some(objects) = incident::read(root, until)? {
            live.extend(objects);
            continue;
        }
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
                match manifest.is_live() {
                    true => live.push(manifest),
                    false => loader.create(manifest).await?,
                }
            }
        }
        ensure!(
            !is_empty,
            "--load {}: the file contains no object",
            root.display()
        );
    }
    let unstored = server.load_live(live).await?;
    for object in unstored.objects {
        out::note(&format!(
            "warning: {object} is left out: nothing serves this kind, as its definition is not there"
        ));
    }
    for field in unstored.fields {
        out::note(&format!("warning: {field} is left out"));
    }
    for warning in loader.finish().await? {
        out::note(&format!("warning: {warning}"));
    }
    Ok(())
}
