//! A program as the controller under test: this test program itself, started with KUBECONFIG set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exploring;
mod roles;
mod served;
mod settling;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod virtual_time;

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use kubeproof_runtime::context::with_user_agent;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use crate::support::process::{file, kubeproof, output, stdout};
use roles::{Copying, copy_all, copy_watched, in_cluster, keep_set, refuse_bad, renew};

/// Set in a process that is the controller; says which.
pub(crate) const ROLE: &str = "KUBEPROOF_TEST_COPIER";
const PERIOD: Duration = Duration::from_millis(100);
/// The time after which a killed process must be gone.
const END_MAX: Duration = Duration::from_secs(20);

const SCENARIO: &str = "
title: A ConfigMap is copied
source: none
given: {nodes: 0}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: \"yes\"}}, data: {k: v}}
- wait: {for: configmap/a-copy, field: .data.k, timeout: 6s}
";
const GOLDEN: &str = "---\nsource: none\n---\n# A ConfigMap is copied\n\noutcome\n";

/// Not a test but the controller, when the environment says so.
#[tokio::test]
async fn controller_program() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let client = match role.as_str() {
        "in-cluster" => in_cluster(),
        _ => Client::try_default().await.unwrap(),
    };
    let client = with_user_agent(&client, "copier");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    if role == "needs-settings" {
        api.get("settings").await.unwrap();
    }
    if role == "webhook" {
        let refuse_bad = refuse_bad().await;
        tokio::spawn(refuse_bad);
    }
    match role.as_str() {
        "watches" => copy_watched(&api, Copying::AtOnce).await,
        "ponders" => copy_watched(&api, Copying::Pondered).await,
        _ => {}
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if let Some(role) = role.strip_prefix("virtual-") {
        virtual_time::act(role, &client).await;
    }
    loop {
        // A failed round is retried.
        let copied = copy_all(&api, role == "notes-first").await;
        if let Err(error) = copied {
            println!("cannot copy: {error}");
        }
        match role.as_str() {
            "elected" => renew(&client).await,
            "version-25" | "version-26" => keep_set(&client, &role).await,
            _ => {}
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// `kubeproof COMMAND SCENARIO --controller …` with this program in that role, which notes its process ids.
fn with_copier(command: &str, role: &str, more: &[&str]) -> (Output, Vec<String>) {
    let name = format!("outside-{command}-{role}");
    let scenario = file(&format!("{name}/copy.yaml"), SCENARIO);
    let golden = format!("{name}/snapshots/{name}__copy.snap");
    file(&golden, GOLDEN);
    let ids = file(&format!("{name}/ids"), "");
    let program = std::env::current_exe().unwrap();
    let controller = format!(
        "echo $$ >> {}; export {ROLE}={role}; exec {} --exact outside::controller_program",
        ids.display(),
        program.display()
    );
    let fixed = [
        command,
        scenario.to_str().unwrap(),
        "--controller",
        &controller,
    ];
    let quiet = ["--quiet", "1s"];
    let ran = output(&[&fixed[..], &quiet, more].concat());
    let ids = std::fs::read_to_string(ids).unwrap();
    (ran, ids.lines().map(str::to_owned).collect())
}

/// Whether a process still exists after the time that the end of a killed one may take; its parent or init has to
/// reap it first.
#[allow(
    clippy::disallowed_methods,
    reason = "the end of a process that is not ours is no event"
)]
fn stays(id: &str) -> bool {
    let id = id.parse().ok().and_then(Pid::from_raw).unwrap();
    let is_there = || test_kill_process(id).is_ok();
    let began = Instant::now();
    while is_there() {
        if began.elapsed() > END_MAX {
            return true;
        }
        std::thread::sleep(PERIOD);
    }
    false
}

#[test]
fn a_program_is_given_the_server_and_ended() {
    let (ran, ids) = with_copier("run", "notes-last", &[]);
    let said = stdout(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    assert_eq!(ids.len(), 1);
    assert!(!ids.iter().any(|id| stays(id)), "it is left running");
}

const CRASHES: &[&str] = &["--faults", "crash-before,crash-after", "--from", "copier"];

#[test]
fn a_program_that_stands_crashes_is_killed_and_started_again() {
    let (ran, ids) = with_copier("explore", "notes-last", CRASHES);
    let said = stdout(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(said.ends_with("4 runs, 0 diverged\n"), "{said}");
    // One each in the two runs without faults, and two each in the others.
    assert_eq!(ids.len(), 10, "{said}");
    assert!(!ids.iter().any(|id| stays(id)), "one is left running");
}

#[test]
fn a_program_that_does_not_stand_crashes_is_found_out() {
    let (ran, _) = with_copier("explore", "notes-first", CRASHES);
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("crash-after patch configmaps default/a from copier"),
        "{said}"
    );
    assert!(said.contains("timed out after 6s"), "{said}");
}

#[test]
fn programs_start_when_what_is_given_exists_and_know_where_it_is() {
    let scenario = SCENARIO.replace(
        "given: {nodes: 0}",
        "given:
  nodes: 0
  namespace: shop
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}",
    );
    assert_ne!(scenario, SCENARIO);
    let scenario = file("outside-given/copy.yaml", &scenario);
    file("outside-given/snapshots/outside-given__copy.snap", GOLDEN);
    let (program, seen) = (
        std::env::current_exe().unwrap(),
        file("outside-given/seen", ""),
    );
    let copier = format!(
        "export {ROLE}=needs-settings; exec {} --exact outside::controller_program",
        program.display()
    );
    let other = format!(
        "echo $KUBEPROOF_URL $KUBEPROOF_NAMESPACE $KUBECONFIG >> {}; exec sleep 600",
        seen.display()
    );
    let ran = output(&[
        "run",
        scenario.to_str().unwrap(),
        "--program",
        &copier,
        "--program",
        &other,
        "--quiet",
        "1s",
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    let seen = std::fs::read_to_string(seen).unwrap();
    let words: Vec<&str> = seen.split_whitespace().collect();
    assert!(words[0].starts_with("http://127.0.0.1:"), "{seen}");
    assert_eq!(words[1], "shop");
    assert!(words[2].ends_with("kubeconfig.yaml"), "{seen}");
}

/// Runs `scenario`, whose golden is without content, with this program in the role `role`.
fn run_as(role: &str, scenario: &str, more: &[&str]) -> Output {
    let name = format!("outside-{role}{}", more.len());
    let scenario = file(&format!("{name}/copy.yaml"), scenario);
    file(&format!("{name}/snapshots/{name}__copy.snap"), GOLDEN);
    let program = std::env::current_exe().unwrap();
    let copier = format!(
        "export {ROLE}={role}; exec {} --exact --nocapture outside::controller_program",
        program.display()
    );
    let fixed = ["run", scenario.to_str().unwrap(), "--program", &copier];
    output(&[&fixed[..], &["--quiet", "1s"], more].concat())
}

#[test]
fn a_program_finds_what_a_pod_finds() {
    let ran = run_as("in-cluster", SCENARIO, &[]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
}

const OPERATOR: &str = "
given:
  nodes: 0
  objects:
  - {apiVersion: v1, kind: ServiceAccount, metadata: {name: operator}}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata: {name: operator}
    rules:
    - {apiGroups: [''], resources: [configmaps], verbs: [VERBS]}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: operator}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}
    subjects: [{kind: ServiceAccount, name: operator, namespace: default}]";

#[test]
fn a_program_has_the_permissions_of_its_service_account_and_no_others() {
    let with = |verbs: &str| {
        let given = OPERATOR.replace("VERBS", verbs);
        SCENARIO.replace("\ngiven: {nodes: 0}", &given)
    };
    let account = ["--as-service-account", "default/operator"];
    let ran = run_as("permitted", &with("list, create, patch"), &account);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    let ran = run_as("refused", &with("list"), &account);
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let refusal =
        "User \"system:serviceaccount:default:operator\" cannot create resource \"configmaps\"";
    assert!(said.contains("timed out after 6s"), "{said}");
    assert!(said.contains("program 1 printed"), "{said}");
    assert!(said.contains(refusal), "{said}");
    let ran = run_as("absent", SCENARIO, &account);
    let said = stdout(&ran);
    let absent =
        "service account default/operator: ApiError: serviceaccounts \"operator\" not found";
    assert!(said.contains(absent), "{said}");
}

#[test]
fn the_least_role_of_a_run_is_printed_and_suffices() {
    let log = file("outside-rbac/audit.log", "");
    let log = log.to_str().unwrap();
    let ran = run_as("audited", SCENARIO, &["--audit-log", log]);
    assert!(ran.status.success(), "{}", stdout(&ran));
    let role = "\
# kubernetes-admin (copier)
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: copier
  namespace: default
rules:
- apiGroups:
  - \"\"
  resources:
  - configmaps
  verbs:
  - list
  - create
  - patch
";
    assert_eq!(stdout(&output(&["rbac", log])), role);
    let role = file("outside-copier1/role.yaml", role);
    let given = "
given:
  nodes: 0
  objects:
  - role.yaml
  - {apiVersion: v1, kind: ServiceAccount, metadata: {name: copier}}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: copier}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: copier}
    subjects: [{kind: ServiceAccount, name: copier}]";
    let scenario = SCENARIO.replace("\ngiven: {nodes: 0}", given);
    let ran = run_as(
        "copier",
        &scenario,
        &["--as-service-account=default/copier"],
    );
    assert!(ran.status.success(), "{}", stdout(&ran));
    let compared = output(&["rbac", log, "--role", role.to_str().unwrap()]);
    let same = "kubernetes-admin (copier)\n  has what was needed and nothing else\n";
    assert_eq!(stdout(&compared), same);
    let other = std::fs::read_to_string(&role)
        .unwrap()
        .replace("- list", "- delete");
    let other = file("outside-rbac/other.yaml", &other);
    let compared = output(&[
        "rbac",
        log,
        "--user",
        "kubernetes-admin",
        "--role",
        other.to_str().unwrap(),
    ]);
    assert_eq!(compared.status.code(), Some(1));
    let differs = "kubernetes-admin (copier)\n  lacks:\n    list configmaps in default\n  \
                   has beyond what was needed:\n    Role copier: delete configmaps in default\n";
    assert_eq!(stdout(&compared), differs);
    let unknown = output(&["rbac", log, "--user", "kubernetes-admn"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        said.contains("did you mean \"kubernetes-admin\"?"),
        "{said}"
    );
}

#[test]
fn webhooks_of_a_service_are_called_at_the_port_of_the_program() {
    let scenario = "
title: An object is refused
source: none
given:
  nodes: 0
  objects:
  - apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingWebhookConfiguration
    metadata: {name: shop}
    webhooks:
    - name: v.shop.example.com
      clientConfig: {service: {namespace: shop, name: hook, port: 9443, path: /validate}}
      rules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE], scope: '*'}]
      sideEffects: None
      admissionReviewVersions: [v1]
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: good}}
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: bad}}
  expect: {code: 400}
";
    let ran = run_as("webhook", scenario, &["--service", "shop/hook:9443"]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    let ran = run_as(
        "webhook",
        scenario,
        &["--service", "shop/hook:9443=2", "--fail-fast"],
    );
    let said = stdout(&ran);
    assert!(
        said.contains("there is no program 2 to serve webhooks"),
        "{said}"
    );
}

#[test]
fn an_elected_leader_that_renews_its_lease_settles() {
    let ran = run_as("elected", SCENARIO, &[]);
    let said = stdout(&ran);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
}

/// The command of this program in a role.
fn in_role(role: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "export {ROLE}={role}; exec {} --exact --nocapture outside::controller_program",
        program.display()
    )
}

#[test]
fn commands_have_places_for_values_and_output_is_kept() {
    let scenario = file("outside-places/copy.yaml", SCENARIO);
    let kept = scenario.with_file_name("kept");
    let command = "echo at {url} $KUBEPROOF_URL {webhook-port} '{other}'; \
                   echo first of $(cat {service-account}/namespace) >&2; exit 3";
    let ran = output(&[
        "run",
        scenario.to_str().unwrap(),
        "--program",
        command,
        "--program-output",
        kept.to_str().unwrap(),
    ]);
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let path = kept.join("outside-places__copy.program-1.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let words: Vec<&str> = lines[0].split(' ').collect();
    assert!(words[1].starts_with("http://127.0.0.1:"), "{text}");
    assert_eq!(words[1], words[2]);
    assert!(words[3].parse::<u16>().is_ok(), "{text}");
    assert_eq!(words[4], "{other}");
    assert_eq!(lines[1], "first of default");
    let place = format!("program 1 printed in {}:\n  at http", path.display());
    assert!(said.contains(&place), "{said}");
    assert!(said.contains("it has exited: exit status: 3"), "{said}");
}

const UPGRADED: &str = "
title: A shop stays as it is
source: none
given: {nodes: 1}
steps:
- create: {apiVersion: example.com/v1, kind: Shop, metadata: {name: books}, spec: {color: red}}
- wait: {for: pod/web-0, condition: Ready}
";

/// A definition of shops whose spec has this field.
fn shops(field: &str) -> String {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}},
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
        },
    });
    definition.to_string()
}

#[test]
fn an_upgrade_names_the_field_that_replaces_pods_and_what_the_new_version_writes() {
    let program = std::env::current_exe().unwrap();
    let version = |version: &str| {
        format!(
            "export {ROLE}=version-{version}; exec {} --exact --nocapture outside::controller_program",
            program.display()
        )
    };
    let from = file("outside-upgrade/crds-1.yaml", &shops("color"));
    let to = file("outside-upgrade/crds-2.yaml", &shops("colour"));
    let test = |scenario: &str, more: &[&str]| {
        let scenario = file("outside-upgrade/shop.yaml", scenario);
        let (first, second) = (version("25"), version("26"));
        let fixed = [
            "upgrade-test",
            scenario.to_str().unwrap(),
            "--from",
            &first,
            "--to",
            &second,
            "--settle-after",
            "1s",
        ];
        let definitions = [
            "--crds-from",
            from.to_str().unwrap(),
            "--crds-to",
            to.to_str().unwrap(),
        ];
        output(&[&fixed[..], &definitions, more].concat())
    };
    let report = from.with_file_name("report");
    let ran = test(UPGRADED, &["--report", report.to_str().unwrap()]);
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    // The text is JSON in a script.
    let marked = |image: &str| format!("\\u003cb\\u003e{image}\\u003c/b\\u003e");
    for part in [
        marked("nginx:1.25"),
        marked("nginx:1.26"),
        "After the upgrade".to_owned(),
    ] {
        assert!(page.contains(&part), "{part}");
    }
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let image = |old: &str, new: &str| {
        let field =
            format!("spec.template.spec.containers[web].image nginx:1.{old} → nginx:1.{new}");
        format!(
            "    replaced pod/web-0 a pod of statefulset/web\n      statefulset/web {field}, by copier\n    \
             written configmap/note by copier\n      data.version {old} → {new}\n    \
             written statefulset/web by copier\n      {field}\n"
        )
    };
    let upgraded = format!(
        "FAIL outside-upgrade/shop\n  upgrade:\n    notAccepted shop/books loses spec.color red → unset\n{}    \
         refused patch configmaps default/note: 422 ConfigMap \"note\" is invalid: metadata.labels: Invalid value: \"no label\"",
        image("25", "26")
    );
    assert!(said.starts_with(&upgraded), "{said}");
    assert!(
        said.contains(&format!("\n  back:\n{}", image("26", "25"))),
        "{said}"
    );
    let allowed = format!(
        "{UPGRADED}
upgrade:
  allows:
  - {{finding: replaced, object: pod/web-0, because: the image is that of the version}}
  - {{finding: written, because: the version is noted}}
  - {{finding: notAccepted, object: shop/*, because: the field has a new name}}
  - {{finding: refused, because: it is tried}}
"
    );
    let ran = test(&allowed, &["--one-way"]);
    let said = stdout(&ran);
    assert!(ran.status.success(), "{said}");
    assert_eq!(
        said,
        "ok outside-upgrade/shop\n  upgrade: nothing found\n  5 found that the scenario allows\n"
    );
    let unneeded = format!("{allowed}  - {{finding: looped, because: it never does}}\n");
    let ran = test(&unneeded, &["--one-way", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&said["passed"], &said["allowed"]),
        (&json!(false), &json!(5))
    );
    assert_eq!(said["unneeded"], json!(["looped"]));
}

#[test]
fn a_version_that_does_not_start_is_a_finding() {
    let scenario = file("outside-broken/copy.yaml", SCENARIO);
    let program = std::env::current_exe().unwrap();
    let from = format!(
        "export {ROLE}=notes-last; exec {} --exact outside::controller_program",
        program.display()
    );
    let ran = output(&[
        "upgrade-test",
        scenario.to_str().unwrap(),
        "--from",
        &from,
        "--to",
        "echo no such flag; exit 2",
        "--controllers",
        "none",
        "--settle-after",
        "1s",
    ]);
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let failed = "FAIL outside-broken/copy\n  upgrade:\n    failed program 2: it has exited: exit status: 2\n";
    assert!(said.starts_with(failed), "{said}");
    assert!(
        said.ends_with("program 2 printed:\n    no such flag\n"),
        "{said}"
    );
}

#[test]
fn no_program_outlives_a_run_that_is_killed() {
    let scenario = file("outside-killed/copy.yaml", SCENARIO);
    let pipe = scenario.with_file_name("started");
    let command = format!("echo $$ > {}; exec sleep 600", pipe.display());
    let _ = std::fs::remove_file(&pipe);
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut run = kubeproof(&["run", scenario.to_str().unwrap(), "--program", &command]);
    let mut run = run.stdout(Stdio::null()).spawn().unwrap();
    // The pipe has a writer once the program runs.
    let id = std::fs::read_to_string(&pipe).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(!stays(id.trim()), "it is left running");
}

#[test]
fn a_program_that_ends_is_reported_with_its_last_words() {
    let path = file("outside-ends/copy.yaml", SCENARIO);
    let controller = ["--controller", "echo no manager here; exit 3"];
    let ran = output(&[&["run", path.to_str().unwrap()][..], &controller].concat());
    let said = stdout(&ran);
    assert_eq!(ran.status.code(), Some(1));
    assert!(said.contains("exit status: 3"), "{said}");
    assert!(said.contains("no manager here"), "{said}");
}
