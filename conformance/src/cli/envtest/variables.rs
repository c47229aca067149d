//! The environment variables by which a control plane of a test has more than envtest gives.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use kubeproof_apiserver::fault::Fault;
use kubeproof_machinery::json::Value;
use serde::Deserialize as _;

use crate::cli::{controller_names, known};

const PREFIX: &str = "KUBEPROOF_";
const CONTROLLERS: &str = "KUBEPROOF_CONTROLLERS";
const FAULTS: &str = "KUBEPROOF_FAULTS";
const KEEP: &str = "KUBEPROOF_KEEP";
const LOG: &str = "KUBEPROOF_LOG";
const NODES: &str = "KUBEPROOF_NODES";
const PACE: &str = "KUBEPROOF_PACE";

/// The variables as users set them, and what they do.
const ALL: [(&str, &str); 6] = [
    (
        "KUBEPROOF_CONTROLLERS=all|NAME,...",
        "Run controllers, such as garbage-collector,namespace.",
    ),
    ("KUBEPROOF_NODES=N", "Simulate nodes, with a scheduler."),
    (
        "KUBEPROOF_LOG=DIR",
        "Write a log and a report page for each control plane.",
    ),
    (
        "KUBEPROOF_FAULTS=FILE",
        "Inject the faults in the file, which are those of /kubeproof/v1/faults.",
    ),
    (
        "KUBEPROOF_KEEP=1",
        "Go on serving after the test, and say how to look at the cluster.",
    ),
    (
        "KUBEPROOF_PACE=0",
        "Respond at once. By default requests take the time that a server with etcd takes.",
    ),
];

/// The part of the help that names the variables.
pub(super) fn help() -> String {
    let width = ALL
        .iter()
        .map(|(set, _)| set.len())
        .max()
        .unwrap_or_default();
    let lines = ALL.map(|(set, effect)| format!("  {set:width$}  {effect}"));
    format!(
        "Environment of the control planes that are started:\n{}",
        lines.join("\n")
    )
}

/// The settings in the variables.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variables {
    pub(super) controllers: Vec<String>,
    pub(super) nodes: usize,
    /// The directory for logs and reports.
    pub(super) log: Option<PathBuf>,
    pub(super) faults: Vec<Fault>,
    /// Whether the server outlives its harness.
    pub(super) keep: bool,
    /// Whether writes take the time that etcd takes.
    pub(super) pace: bool,
}

impl Variables {
    /// Reads the variables of this process; also returns a warning for each misspelled name.
    ///
    /// # Errors
    /// Names the variable whose value cannot be used.
    pub(super) fn read() -> anyhow::Result<(Self, Vec<String>)> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let names: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
        let read = Self::of(|name| std::env::var(name).ok().filter(|text| !text.is_empty()))?;
        Ok((read, unknown(&names)))
    }

    fn of(value: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let switch = |name: &str| match value(name).as_deref() {
            None => Ok(None),
            Some("1" | "true") => Ok(Some(true)),
            Some("0" | "false") => Ok(Some(false)),
            Some(other) => Err(anyhow::anyhow!("{name}: expected 0 or 1, not {other:?}")),
        };
        let controllers = match value(CONTROLLERS) {
            None => Vec::new(),
            Some(names) => controller_names(&names).context(CONTROLLERS)?,
        };
        let nodes = match value(NODES) {
            None => 0,
            Some(number) => number
                .parse()
                .with_context(|| format!("{NODES}: {number:?}"))?,
        };
        let faults = match value(FAULTS) {
            None => Vec::new(),
            Some(path) => {
                let text = std::fs::read_to_string(&path);
                let text = text.with_context(|| format!("{FAULTS}: cannot read {path}"))?;
                faults(&text).with_context(|| format!("{FAULTS}: {path}"))?
            }
        };
        Ok(Self {
            controllers,
            nodes,
            log: value(LOG).map(PathBuf::from),
            faults,
            keep: switch(KEEP)?.unwrap_or(false),
            pace: switch(PACE)?.unwrap_or(true),
        })
    }
}

/// Reads faults: a list, or documents with one each, in YAML or JSON.
fn faults(text: &str) -> anyhow::Result<Vec<Fault>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let items = documents.into_iter().flat_map(|document| match document {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        one => vec![one],
    });
    let faults: Vec<Fault> = items.map(Fault::deserialize).collect::<Result<_, _>>()?;
    ensure!(!faults.is_empty(), "the file contains no fault");
    Ok(faults)
}

/// Warnings about variables whose names are nearly those of ours.
fn unknown(names: &[String]) -> Vec<String> {
    let known = [CONTROLLERS, FAULTS, KEEP, LOG, NODES, PACE];
    let own = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let suffixes = known.map(own);
    let suffixes: Vec<&str> = suffixes.iter().map(String::as_str).collect();
    let strange = names.iter().filter(|name| {
        let is_meant = !known::closest(&own(name), &suffixes, 1).is_empty();
        is_meant && !known.contains(&name.as_str())
    });
    strange
        .map(|name| known::unknown("variable", name, known))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> anyhow::Result<Variables> {
        Variables::of(|name| {
            let found = set.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_runs_beside_the_server_unless_a_variable_asks_for_it() {
        let read = of(&[]).unwrap();
        assert!(read.controllers.is_empty() && read.faults.is_empty());
        assert_eq!(
            (read.nodes, read.log, read.keep, read.pace),
            (0, None, false, true)
        );
        let read = of(&[
            ("KUBEPROOF_CONTROLLERS", "garbage-collector,namespace"),
            ("KUBEPROOF_NODES", "3"),
            ("KUBEPROOF_KEEP", "1"),
            ("KUBEPROOF_PACE", "0"),
            ("KUBEPROOF_LOG", "logs"),
        ])
        .unwrap();
        assert_eq!(read.controllers, ["garbage-collector", "namespace"]);
        assert_eq!((read.nodes, read.keep, read.pace), (3, true, false));
        assert_eq!(read.log, Some(PathBuf::from("logs")));
    }

    #[test]
    fn a_wrong_value_is_reported_with_its_variable() {
        for (name, value) in [
            ("KUBEPROOF_CONTROLLERS", "garbage-colector"),
            ("KUBEPROOF_NODES", "three"),
            ("KUBEPROOF_KEEP", "perhaps"),
            ("KUBEPROOF_FAULTS", "/there/is/no/such/file"),
        ] {
            let error = format!("{:#}", of(&[(name, value)]).unwrap_err());
            assert!(error.starts_with(name), "{error}");
            assert!(error.contains(value), "{error}");
        }
    }

    #[test]
    fn faults_are_a_list_or_documents() {
        let list = "- {name: a, on: {verb: create}, loseAnswer: true}\n- {name: b, on: {verb: get}, delay: 1s}\n";
        let documents = "name: a\non: {verb: create}\nloseAnswer: true\n---\nname: b\non: {verb: get}\ndelay: 1s\n";
        assert_eq!(faults(list).unwrap(), faults(documents).unwrap());
        assert_eq!(faults(list).unwrap().len(), 2);
        assert!(faults("").is_err());
        assert!(faults("{name: a, om: {}}").is_err());
    }

    #[test]
    fn a_misspelled_variable_is_reported() {
        let names = ["KUBEPROOF_CONTROLERS", "KUBEPROOF_KEEP", "KUBEPROOF_COMMIT"];
        let warnings = unknown(&names.map(str::to_owned));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("did you mean \"KUBEPROOF_CONTROLLERS\"?"));
    }
}
