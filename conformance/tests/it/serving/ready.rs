//! When a server says that it listens, and what it warns of.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{body, fresh_directory, heard, stderr_of};
use crate::support::process::{file, get, kubeproof, serve, terminate};

/// How many nodes are ready and take pods.
fn ready_nodes(url: &str) -> usize {
    let list = body(&get(url, "/api/v1/nodes", ""));
    let nodes = list["items"].as_array().unwrap().iter();
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().unwrap().iter();
        let mut conditions = conditions.map(|own| (&own["type"], &own["status"]));
        let taints = node["spec"]["taints"].as_array().map_or(0, Vec::len);
        conditions.any(|own| own == (&json!("Ready"), &json!("True"))) && taints == 0
    };
    nodes.filter(is_ready).count()
}

#[test]
fn the_line_for_scripts_comes_when_the_nodes_are_ready() {
    for controllers in ["all", "none"] {
        let (child, url) = serve(&["--nodes", "40", "--controllers", controllers]);
        assert_eq!(ready_nodes(&url), 40, "controllers: {controllers}");
        terminate(child);
    }
}

const NO_NODES: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-nodes}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [nodes]}
  validations:
  - expression: 'false'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-nodes}
spec: {policyName: no-nodes, validationActions: [Deny]}
";

#[test]
fn a_server_whose_nodes_are_refused_says_so_and_serves() {
    let policy = file("refused-nodes.yaml", NO_NODES);
    let load = ["--nodes", "1", "--load", policy.to_str().unwrap()];
    let (child, line) = heard(&load);
    let url = line.trim().trim_start_matches("listening on ");
    assert_eq!(ready_nodes(url), 0);
    let said = stderr_of(child);
    let warning = "warning: the nodes are not ready yet; `kubectl get nodes` shows them";
    assert!(said.contains(warning), "{said}");
}

#[test]
fn a_server_that_nobody_listens_to_keeps_its_state() {
    let directory = fresh_directory("unheard/state");
    let state = ["--state", directory.to_str().unwrap(), "--nodes", "1"];
    let mut command = kubeproof(&["serve"]);
    let command = command.args(state).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    let kept = std::fs::read_to_string(directory.join("state.jsonl")).unwrap();
    assert!(kept.contains("\"node-1\""), "{kept}");
}
