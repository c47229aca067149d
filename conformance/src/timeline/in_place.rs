//! The records of an update in place by OpenKruise's workloads, in a few words.

use kubeproof_machinery::json::{SmolStr, Value};

/// The annotations that record the progress of an update, and the pending part of it.
const STATE: &str = "apps.kruise.io/inplace-update-state";
const GRACE: &str = "apps.kruise.io/inplace-update-grace";

/// Whether the annotation is one of these.
pub(super) fn is_shown(key: &str) -> bool {
    [STATE, GRACE].contains(&key)
}

/// Describes `value` of the annotation: the containers of each batch, and those that wait.
pub(super) fn describe(key: &str, value: &str) -> String {
    let record: Value = serde_json::from_str(value).unwrap_or_default();
    if key == GRACE {
        return format!(
            "annotation inplace-update-grace ({}s)",
            record["graceSeconds"]
        );
    }
    let batches = record["containerBatchesRecord"]
        .as_array()
        .into_iter()
        .flatten();
    let batches: Vec<String> = batches
        .map(|batch| {
            let names = batch["containers"].as_array().into_iter().flatten();
            let names: Vec<&str> = names.filter_map(Value::as_str).collect();
            names.join(" ")
        })
        .collect();
    let mut next: Vec<&SmolStr> = ["nextContainerImages", "nextContainerRefMetadata"]
        .iter()
        .filter_map(|field| record[field].as_object())
        .flat_map(|waiting| waiting.keys())
        .collect();
    next.sort();
    next.dedup();
    let mut words = format!(
        "annotation inplace-update-state (batches [{}]",
        batches.join("] [")
    );
    if !next.is_empty() {
        let next: Vec<&str> = next.into_iter().map(SmolStr::as_str).collect();
        words.push_str(&format!(", then {}", next.join(" ")));
    }
    words.push(')');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_described_without_times_and_images() {
        let state = r#"{"containerBatchesRecord": [{"timestamp": "t", "containers": ["a", "b"]},
            {"containers": ["c"]}], "nextContainerImages": {"d": "x:1"}}"#;
        assert_eq!(
            describe(STATE, state),
            "annotation inplace-update-state (batches [a b] [c], then d)"
        );
        assert_eq!(
            describe(GRACE, r#"{"graceSeconds": 10}"#),
            "annotation inplace-update-grace (10s)"
        );
    }
}
