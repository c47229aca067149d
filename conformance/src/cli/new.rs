//! `kubeproof new`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use kubeproof::first_scenario::REFERENCE;
use kubeproof::suite;
use kubeproof_machinery::json::Value;

use super::out;

#[derive(Args)]
pub(super) struct NewArgs {
    #[command(subcommand)]
    what: New,
}

#[derive(Subcommand)]
enum New {
    /// Write a scenario that runs as it is, and print how to run it.
    Scenario(ScenarioArgs),
}

#[derive(Args)]
struct ScenarioArgs {
    /// The name of the scenario: lower-case letters, digits and dashes.
    #[arg(value_name = "AREA/NAME", value_parser = name)]
    name: ScenarioName,
    /// The workload that the scenario is about.
    #[arg(long, value_enum, default_value_t = Kind::StatefulSet, conflicts_with = "object")]
    kind: Kind,
    /// Begin with the objects of this manifest instead. The scenario is about the first of them.
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// The directory of the areas [default: the nearest `scenarios` or `conformance/scenarios` upwards from the working
    /// directory, else `scenarios`].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A workload of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(name = "statefulset")]
    StatefulSet,
    Deployment,
    #[value(name = "daemonset")]
    DaemonSet,
    Job,
    #[value(name = "cloneset")]
    CloneSet,
}

/// The area and the name of a scenario.
#[derive(Clone, Debug)]
pub(super) struct ScenarioName {
    area: String,
    name: String,
}

impl ScenarioName {
    /// Returns the path of the scenario below `directory`, or below that of `kubeproof run`.
    pub(super) fn path(&self, directory: Option<PathBuf>) -> anyhow::Result<PathBuf> {
        let directory = match directory {
            Some(directory) => directory,
            None => default_directory()?,
        };
        let Self { area, name } = self;
        Ok(directory.join(area).join(format!("{name}.yaml")))
    }
}

pub(super) fn name(text: &str) -> Result<ScenarioName, String> {
    let is_word = |word: &str| {
        let mut bytes = word.bytes();
        let first = bytes.next();
        first.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match text.split_once('/') {
        Some((area, name)) if is_word(area) && is_word(name) => Ok(ScenarioName {
            area: area.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(
            "expected AREA/NAME of lower-case letters, digits and dashes, such as web/scale-up"
                .to_owned(),
        ),
    }
}

pub(super) fn new(args: NewArgs) -> anyhow::Result<ExitCode> {
    let New::Scenario(args) = args.what;
    let path = args.name.path(args.dir)?;
    let text = match &args.object {
        None => of_kind(args.kind),
        Some(manifest) => of_manifest(manifest, &path)?,
    };
    write(&path, &text)?;
    let path = path.display();
    out::say(&format!("{path}"))?;
    out::note(&format!(
        "complete it, then write its golden with: kubeproof run --accept {path}"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory that `kubeproof run` takes without arguments, or the one that it will take.
fn default_directory() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("there is no working directory")?;
    let nearest = suite::nearest(&here);
    Ok(nearest.unwrap_or_else(|| PathBuf::from("scenarios")))
}

/// Writes a file that does not exist yet.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(cannot)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists", path.display())
        }
        file => file
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(cannot),
    }
}

const HEAD: &str = "\
title: TODO what happens, as a sentence
source: TODO what says so, such as a manual, a KEP, an issue or an upstream test
";

/// Returns a scenario with a workload of the kind, and a change of its template.
fn of_kind(kind: Kind) -> String {
    let (given, spec, step) = match kind {
        Kind::StatefulSet => ("", STATEFUL_SET, CHANGED_IMAGE),
        Kind::Deployment => ("", DEPLOYMENT, CHANGED_IMAGE),
        Kind::DaemonSet => ("", DAEMON_SET, CHANGED_IMAGE),
        Kind::Job => ("", JOB, CHANGED_PARALLELISM),
        Kind::CloneSet => ("  kruise: true\n", CLONE_SET, CHANGED_IMAGE),
    };
    let resource = kind.to_possible_value().expect("no kind is hidden");
    // Custom resources have no strategic merge patch.
    let patch_type = if kind == Kind::CloneSet {
        "    type: merge\n"
    } else {
        ""
    };
    let step = step.replace("KIND", resource.get_name());
    let step = step.replace("    patch:", &format!("{patch_type}    patch:"));
    format!("{REFERENCE}{HEAD}given:\n  nodes: 2\n{given}  objects:\n{spec}steps:\n{step}")
}

const STATEFUL_SET: &str = "  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: \"nginx:1.25\"}]}
";

const DEPLOYMENT: &str = "  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: \"nginx:1.25\"}]}
";

const DAEMON_SET: &str = "  - apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: web}
    spec:
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: \"nginx:1.25\"}]}
";

const JOB: &str = "  - apiVersion: batch/v1
    kind: Job
    metadata: {name: web}
    spec:
      parallelism: 1
      completions: 2
      template:
        spec: {restartPolicy: Never, containers: [{name: web, image: \"nginx:1.25\"}]}
";

const CLONE_SET: &str = "  - apiVersion: apps.kruise.io/v1alpha1
    kind: CloneSet
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: \"nginx:1.25\"}]}
";

const CHANGED_IMAGE: &str = "- patch:
    target: KIND/web
    patch: {spec: {template: {spec: {containers: [{name: web, image: \"nginx:1.26\"}]}}}}
- table: pods
";

const CHANGED_PARALLELISM: &str = "- patch:
    target: KIND/web
    patch: {spec: {parallelism: 2}}
- table: pods
";

/// Returns a scenario at `path` that begins with the objects of a manifest, and labels the first of them.
fn of_manifest(manifest: &Path, path: &Path) -> anyhow::Result<String> {
    let shown = manifest.display();
    let text = std::fs::read_to_string(manifest);
    let text = text.with_context(|| format!("cannot read {shown}"))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{shown} is not YAML"))?;
    let first = documents.iter().find(|document| !document.is_null());
    let first = first.with_context(|| format!("{shown} has no object"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&first["kind"]), text(&first["metadata"]["name"]));
    ensure!(
        !kind.is_empty() && !name.is_empty(),
        "the first object of {shown} has no kind or no metadata.name"
    );
    let target = format!("{}/{name}", kind.to_lowercase());
    let objects = relative(manifest, path)?;
    Ok(format!(
        "{REFERENCE}{HEAD}given:\n  nodes: 2\n  objects: [{objects}]\nsteps:\n- note: TODO the change that the scenario is about.\n  \
         patch:\n    target: {target}\n    type: merge\n    patch: {{metadata: {{labels: {{changed: \"yes\"}}}}}}\n- show: {{target: {target}, fields: [.metadata.labels]}}\n"
    ))
}

/// Returns the path of `file` as seen from the directory of `from`, quoted for YAML.
pub(super) fn relative(file: &Path, from: &Path) -> anyhow::Result<String> {
    let absolute = |path: &Path| {
        let path = std::path::absolute(path);
        path.context("there is no working directory")
    };
    let (file, from) = (absolute(file)?, absolute(from)?);
    let directory = from.parent().unwrap_or(&from);
    let common = directory.components().zip(file.components());
    let common = common.take_while(|(one, other)| one == other).count();
    let up = directory.components().skip(common).map(|_| "..".as_ref());
    let down = file.components().skip(common).map(|part| part.as_os_str());
    let path: PathBuf = up.chain(down).collect();
    let path = path
        .to_str()
        .context("the path of the manifest is not UTF-8")?;
    Ok(Value::from(path).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_an_area() {
        let read = |text: &str| name(text).map(|ScenarioName { area, name }| (area, name));
        let given = |area: &str, name: &str| Ok((area.to_owned(), name.to_owned()));
        assert_eq!(read("web/scale-up"), given("web", "scale-up"));
        for wrong in [
            "web",
            "web/",
            "/web",
            "Web/up",
            "web/../up",
            "web/a/b",
            "-a/b",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_manifest_is_named_as_seen_from_the_scenario() {
        let seen = |file: &str, from: &str| relative(Path::new(file), Path::new(from)).unwrap();
        assert_eq!(
            seen("/p/web.yaml", "/p/scenarios/a/b.yaml"),
            "\"../../web.yaml\""
        );
        assert_eq!(
            seen("/p/scenarios/a/web.yaml", "/p/scenarios/a/b.yaml"),
            "\"web.yaml\""
        );
        assert_eq!(seen("web.yaml", "scenarios/a/b.yaml"), "\"../../web.yaml\"");
    }
}
