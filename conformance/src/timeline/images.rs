//! Timeline lines for NodeImages and ImagePullJobs.

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value;

use super::diff;

/// Returns the changes of a NodeImage: first the requests in its spec, then the answers in its status.
pub(super) fn node_image(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    let (before, after) = (asked(&old["spec"]), asked(&new["spec"]));
    for (image, request) in &after {
        if before.get(image) != Some(request) {
            changes.push(format!("asked for {image} {request}"));
        }
    }
    let gone = before.keys().filter(|image| !after.contains_key(*image));
    changes.extend(gone.map(|image| format!("no longer asked for {image}")));
    let (before, after) = (phases(&old["status"]), phases(&new["status"]));
    for (image, phase) in &after {
        if before.get(image) != Some(phase) {
            changes.push(format!("{image} {phase}"));
        }
    }
    let gone = before.keys().filter(|image| !after.contains_key(*image));
    changes.extend(gone.map(|image| format!("{image} forgotten")));
    changes
}

/// The changes of an ImagePullJob.
pub(super) fn image_pull_job(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = diff::fields("spec", &old["spec"], &new["spec"]);
    let status = &new["status"];
    if old["status"] != *status {
        let words = format!(
            "status {} pull, {} succeeded, {} failed of {}: {}",
            status["active"],
            status["succeeded"],
            status["failed"],
            status["desired"],
            status["message"].as_str().unwrap_or_default()
        );
        changes.push(words);
    }
    changes
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Each requested image, with the version, owners and secrets of the request.
fn asked(spec: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, image) in spec["images"].as_object().into_iter().flatten() {
        let secrets = image["pullSecrets"].as_array().into_iter().flatten();
        let secrets: Vec<&str> = secrets.map(|secret| text(secret, "name")).collect();
        for tag in image["tags"].as_array().into_iter().flatten() {
            let owners = tag["ownerReferences"].as_array().into_iter().flatten();
            let owners: Vec<&str> = owners.map(|owner| text(owner, "name")).collect();
            let version = tag["version"].as_i64().unwrap_or(0);
            let mut request = format!("(version {version})");
            if !owners.is_empty() {
                request.push_str(&format!(" by {}", owners.join(", ")));
            }
            if !secrets.is_empty() {
                request.push_str(&format!(" with {}", secrets.join(", ")));
            }
            found.insert(format!("{name}:{}", text(tag, "tag")), request);
        }
    }
    found
}

/// Each image in the node's status, with its phase.
fn phases(status: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, image) in status["imageStatuses"].as_object().into_iter().flatten() {
        for tag in image["tags"].as_array().into_iter().flatten() {
            let version = tag["version"].as_i64().unwrap_or(0);
            let phase = format!("{} (version {version})", text(tag, "phase"));
            found.insert(format!("{name}:{}", text(tag, "tag")), phase);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn requests_and_answers_are_shown_by_image() {
        let asked = json!({"spec": {"images": {"a": {"pullSecrets": [{"name": "s"}],
            "tags": [{"tag": "1", "version": 2, "ownerReferences": [{"name": "x"}, {"name": "y"}]}]}}}});
        let pulled = json!({"status": {"imageStatuses": {"a": {"tags": [{"tag": "1", "version": 2, "phase": "Pulling"}]}}}});
        assert_eq!(
            node_image(&json!({}), &asked),
            ["asked for a:1 (version 2) by x, y with s"]
        );
        assert_eq!(node_image(&asked, &json!({})), ["no longer asked for a:1"]);
        assert_eq!(node_image(&json!({}), &pulled), ["a:1 Pulling (version 2)"]);
        assert_eq!(node_image(&pulled, &json!({})), ["a:1 forgotten"]);
        assert!(node_image(&asked, &asked).is_empty());
    }
}
