//! `kubeproof init`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use kubeproof::first_scenario::{FirstScenario, Subject};
use kubeproof::scenario::read_objects;
use kubeproof_machinery::json::Value;

use super::new::{self, ScenarioName};
use super::{definitions, out, values};

#[derive(Args)]
pub(super) struct InitArgs {
    #[command(subcommand)]
    what: Init,
}

#[derive(Subcommand)]
enum Init {
    /// Write a first scenario for an operator: an object is created, each important field of its schema is changed within
    /// its limits, it is scaled and deleted. A server of its own accepts each of these requests first.
    Operator(OperatorArgs),
}

#[derive(Args)]
struct OperatorArgs {
    /// The name of the scenario: lower-case letters, digits and dashes.
    #[arg(value_name = "AREA/NAME", value_parser = new::name)]
    name: ScenarioName,
    /// The definitions of custom resources: a file, or a directory.
    #[arg(long, value_name = "FILE|DIR", required_unless_present = "object")]
    crds: Option<PathBuf>,
    /// The kind that the scenario is about [default: the only one that is defined, or that of --object].
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Begin with this object, as `kubectl get -o yaml` prints it, instead of one that is made up from the schema.
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Change at most this many fields: those that the object has first, then those nearest to its spec.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = values::number::<usize>, allow_negative_numbers = true)]
    changes: usize,
    /// The directory of the areas [default: the nearest `scenarios` or `conformance/scenarios` upwards from the working
    /// directory, else `scenarios`].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn init(args: InitArgs) -> anyhow::Result<ExitCode> {
    let Init::Operator(args) = args.what;
    let path = args.name.path(args.dir)?;
    let definitions = match &args.crds {
        Some(crds) => definitions::read(crds)?,
        None => Vec::new(),
    };
    let files: BTreeSet<&PathBuf> = definitions.iter().map(|(file, _)| file).collect();
    let files = files.into_iter().map(|file| new::relative(file, &path));
    let definition_files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let object = args.object.as_deref().map(object).transpose()?;
    let subject = Subject {
        definitions: definitions
            .iter()
            .map(|(_, definition)| definition.clone())
            .collect(),
        kind: args.kind,
        object,
        changes_max: args.changes,
        definition_files,
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build()?;
    let first = runtime.block_on(FirstScenario::of(&subject))?;
    new::write(&path, &first.text)?;
    let path = path.display();
    out::say(&format!("{path}"))?;
    let FirstScenario {
        changed, fields, ..
    } = first;
    out::note(&format!(
        "it changes {changed} of {fields} fields; complete it, then try it with: kubeproof run --accept {path} --program 'COMMAND'"
    ));
    Ok(ExitCode::SUCCESS)
}

/// The first object in a file.
fn object(file: &Path) -> anyhow::Result<Value> {
    let objects = read_objects(file).map_err(anyhow::Error::msg)?;
    let mut objects = objects.into_iter().filter(|object| !object.is_null());
    let first = objects.next();
    let first = first.with_context(|| format!("{} has no object", file.display()))?;
    // `kubectl get` of several prints a List.
    Ok(match first["kind"] == "List" {
        true => first["items"][0].clone(),
        false => first,
    })
}
