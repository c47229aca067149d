//! `kubeproof init operator`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::process::{file, kubeproof};

/// An empty directory of this test run.
fn empty(name: &str) -> PathBuf {
    let path = file(&format!("init/{name}/file"), "");
    let path = path.parent().expect("below a directory");
    fs::remove_dir_all(path).expect("it is this test's");
    fs::create_dir_all(path).expect("it can be made");
    path.to_owned()
}

fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    let ran = kubeproof(arguments).current_dir(directory).output();
    ran.expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it prints UTF-8")
}

fn fixture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/crds");
    fixtures
        .join(name)
        .to_str()
        .expect("it is UTF-8")
        .to_owned()
}

/// Writes a scenario and runs it; returns its text.
fn init(directory: &Path, name: &str, more: &[&str]) -> String {
    let fixed = ["init", "operator", name, "--dir", "scenarios"];
    let written = run_in(directory, &[&fixed[..], more].concat());
    assert!(written.status.success(), "{}", text(&written.stderr));
    let scenario = format!("scenarios/{name}.yaml");
    assert_eq!(text(&written.stdout), format!("{scenario}\n"));
    let ran = run_in(directory, &["run", &scenario, "--accept"]);
    assert!(ran.status.success(), "{}", text(&ran.stdout));
    fs::read_to_string(directory.join(scenario)).expect("it was written")
}

/// The patches of a scenario.
fn patches(scenario: &str) -> Vec<Value> {
    let scenario: Value = serde_saphyr::from_str(scenario).expect("it is YAML");
    let steps = scenario["steps"].as_array().expect("it has steps").iter();
    let patches = steps.filter_map(|step| step.get("patch"));
    patches.map(|patch| patch["patch"].clone()).collect()
}

#[test]
fn each_field_is_changed_within_its_limits() {
    let directory = empty("limits");
    let definition = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop, listKind: ShopList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.tills, statusReplicasPath: .status.tills}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color, city]
            properties:
              color: {type: string, enum: [red, green]}
              city:
                type: string
                x-kubernetes-validations: [{rule: self == oldSelf, message: a shop does not move}]
              code: {type: string, pattern: '^[A-Z]{2}[0-9]{3}$'}
              tills: {type: integer, minimum: 0, maximum: 3, default: 2}
              hours: {type: integer, maximum: 24, multipleOf: 4, default: 24}
          status:
            type: object
            properties:
              observedGeneration: {type: integer}
              tills: {type: integer}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
"#;
    fs::write(directory.join("shops.yaml"), definition).unwrap();
    let scenario = init(&directory, "shop/first", &["--crds", "shops.yaml"]);
    let written: Vec<String> = patches(&scenario).iter().map(Value::to_string).collect();
    let expected = [
        r#"{"spec":{"color":"green"}}"#,
        r#"{"spec":{"hours":20}}"#,
        r#"{"spec":{"code":"AA111"}}"#,
        r#"{"spec":{"tills":3}}"#,
        r#"{"spec":{"tills":1}}"#,
        r#"{"spec":{"tills":0}}"#,
        r#"{"spec":{"tills":2}}"#,
    ];
    assert_eq!(written[..2], expected[..2], "{scenario}");
    assert_eq!(written[3..], expected[3..], "{scenario}");
    // Any text of the pattern will do.
    assert!(written[2].starts_with(r#"{"spec":{"code":""#), "{scenario}");
    assert!(
        scenario.contains("- name: the status is not ahead of the spec"),
        "{scenario}"
    );
    assert!(
        scenario.contains("- name: each condition is there once"),
        "{scenario}"
    );
    assert!(
        scenario.contains("- delete: {target: shop/example}"),
        "{scenario}"
    );
}

#[test]
fn definitions_of_real_operators_give_scenarios_that_the_server_accepts() {
    let directory = empty("real");
    for (name, crds, kind) in [
        ("certs/certificate", "cert-manager", "Certificate"),
        ("keda/object", "keda", "ScaledObject"),
        ("gateway/gateway", "gateway-api", "Gateway"),
        ("monitoring/probe", "prometheus-operator", "Probe"),
        ("postgresql/cluster", "cloudnative-pg", "Cluster"),
        ("velero/schedule", "velero", "Schedule"),
    ] {
        let crds = fixture(crds);
        let more = ["--crds", &crds, "--kind", kind, "--changes", "12"];
        let scenario = init(&directory, name, &more);
        assert!(patches(&scenario).len() >= 5, "{scenario}");
    }
}

#[test]
fn an_object_of_a_cluster_is_enough() {
    let directory = empty("object");
    let object = "
apiVersion: v1
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web
    uid: 01234567-89ab-cdef-0123-456789abcdef
    resourceVersion: '12'
    creationTimestamp: '2026-01-01T00:00:00Z'
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: 'nginx:1.25'}]}
  status: {replicas: 2}
kind: List
";
    fs::write(directory.join("web.yaml"), object).unwrap();
    let scenario = init(&directory, "web/first", &["--object", "web.yaml"]);
    assert!(!scenario.contains("resourceVersion"), "{scenario}");
    assert!(scenario.contains(r#""image":"nginx:1.26""#), "{scenario}");
    assert!(
        scenario.contains(r#"patch: {"spec":{"replicas":3}}"#),
        "{scenario}"
    );
    // The selector is immutable, which only the server knows.
    assert!(!scenario.contains("spec.selector"), "{scenario}");
}

#[test]
fn what_is_missing_is_named() {
    let directory = empty("wrong");
    let refused = |more: &[&str]| {
        let fixed = ["init", "operator", "a/b", "--dir", "scenarios"];
        let refused = run_in(&directory, &[&fixed[..], more].concat());
        assert_eq!(refused.status.code(), Some(2));
        text(&refused.stderr).to_owned()
    };
    let crds = fixture("cert-manager");
    let said = refused(&["--crds", &crds]);
    assert!(
        said.contains("several kinds are defined; choose one of"),
        "{said}"
    );
    let said = refused(&["--crds", &crds, "--kind", "Shop"]);
    assert!(said.contains("there is no definition of Shop"), "{said}");
    fs::write(directory.join("none.yaml"), "a: b\n").unwrap();
    let said = refused(&["--crds", "none.yaml"]);
    assert!(
        said.contains("there is no CustomResourceDefinition in none.yaml"),
        "{said}"
    );
    let said = refused(&["--object", "none.yaml"]);
    assert!(
        said.contains("the object has no apiVersion, kind or metadata.name"),
        "{said}"
    );
}
