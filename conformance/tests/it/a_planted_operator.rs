//! The operators of `conformance/examples`: an exploration finds the planted bug of each, and shrinks it to a scenario that
//! the mended twin passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../examples/database/operator.rs"]
mod database;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::CustomResourceExt;
use serde_json::Value;

use crate::support::process::{file, output, stdout};
use database::{Database, Surplus};

/// Set in a process that is the operator; says which.
const TWIN: &str = "KUBEPROOF_TEST_DATABASE";
/// The Python with kopf that tests run, if it is not `python3`.
const PYTHON: &str = "KUBEPROOF_TEST_PYTHON";

/// Not a test but the operator, when the environment says so.
#[tokio::test]
async fn database_operator() {
    let surplus = match std::env::var(TWIN).as_deref() {
        Ok("planted") => Surplus::OfThisChange,
        Ok(_) => Surplus::OfAnyChange,
        Err(_) => return,
    };
    let client = kube::Client::try_default().await.unwrap();
    database::run(client, surplus).await;
}

/// The example's file of this name.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// Whether the command succeeds; prints what is skipped otherwise.
fn has(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: `{program} {}` fails", arguments.join(" "));
    }
    is_there
}

/// Whether kubeproof can run programs under virtual time here; says why not otherwise.
fn can_be_traced() -> bool {
    let ports = example("kubectl/ports.yaml");
    let scenario = ports.to_str().unwrap();
    let ran = output(&["run", scenario, "--virtual-time", "--program", "true"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    let is_possible = !said.contains("programs cannot run under virtual time here");
    if !is_possible {
        println!("in real time: {said}");
    }
    is_possible
}

/// A planted bug and its mended twin.
struct Twins<'a> {
    /// The path of the scenario below the examples.
    scenario: &'a str,
    planted: String,
    mended: String,
    /// The kinds of faults to explore.
    faults: &'a str,
    virtual_time: bool,
    /// A part of the plans that are to be found.
    fault: &'a str,
    /// A part of what differs.
    difference: &'a str,
    /// The numbers of steps and objects of the reproducer, and of the scenario.
    left: &'a str,
}

impl Twins<'_> {
    /// Runs a subcommand on a scenario with one of the two operators.
    fn with(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let time: &[&str] = match self.virtual_time {
            true => &["--virtual-time"],
            false => &[],
        };
        let ran = output(&[arguments, &["--program", program], time].concat());
        (ran.status.code(), stdout(&ran))
    }

    fn explore(&self, program: &str, more: &[&str]) -> (Option<i32>, String) {
        let scenario = example(self.scenario);
        let scenario = scenario.to_str().unwrap();
        let fixed = ["explore", scenario, "--faults", self.faults];
        self.with(program, &[&fixed, more].concat())
    }

    fn judge(&self, name: &str) {
        let log = file(&format!("planted-operators/{name}/log"), "");
        let reproducers = log.with_file_name("reproducers");
        // An earlier run may have written some.
        let _ = std::fs::remove_dir_all(&reproducers);
        let directory = reproducers.to_str().unwrap();
        let (code, said) =
            self.explore(&self.planted, &["--fail-fast", "--reproducers", directory]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(self.fault), "{said}");
        assert!(said.contains(self.difference), "{said}");
        let shrunk = format!("1 of 1 faults, {}; ", self.left);
        assert!(said.contains(&shrunk), "{said}");

        let (code, said) = self.explore(&self.mended, &[]);
        assert_eq!(code, Some(0), "{said}");

        let reproducer = std::fs::read_dir(&reproducers)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let reproducer = reproducer.to_str().unwrap();
        let (code, said) = self.with(&self.planted, &["run", reproducer]);
        assert_eq!(code, Some(1), "{said}");
        let (code, said) = self.with(&self.mended, &["run", reproducer]);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn the_secrets_that_a_crash_leaves_behind_are_found() {
    let program = std::env::current_exe().unwrap();
    let twin = |twin: &str| {
        let test = "a_planted_operator::database_operator";
        format!(
            "export {TWIN}={twin}; exec {} --exact --nocapture {test}",
            program.display()
        )
    };
    Twins {
        scenario: "database/scale-in.yaml",
        planted: twin("planted"),
        mended: twin("mended"),
        faults: "crash-before,crash-after",
        // The waits of the operator cost nothing then.
        virtual_time: can_be_traced(),
        fault: "DIFF database/scale-in: crash-after patch statefulsets.apps default/orders",
        difference: "+secret/orders-2 presence: there",
        left: "1 of 2 steps, 2 of 3 given objects",
    }
    .judge("database");
}

#[test]
fn the_definition_of_the_example_is_that_of_its_type() {
    let text = std::fs::read_to_string(example("database/definition.yaml")).unwrap();
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(written, serde_json::to_value(Database::crd()).unwrap());
}

#[test]
fn the_port_that_two_claims_get_after_a_crash_is_found() {
    if !has("kubectl", &["version", "--client"]) {
        return;
    }
    // Each kubectl lives for a moment, and garbage collection takes a fifth of its processor time.
    let script = |name: &str| {
        let path = example(&format!("kubectl/{name}"));
        format!("GOGC=off sh {}", path.display())
    };
    Twins {
        scenario: "kubectl/ports.yaml",
        planted: script("ports.sh"),
        mended: script("ports-mended.sh"),
        faults: "crash-before,crash-after",
        virtual_time: false,
        fault: "DIFF kubectl/ports: crash-after patch configmaps default/a from kubectl",
        difference: "no two claims have the same port",
        left: "2 of 2 steps, 1 of 2 given objects",
    }
    .judge("kubectl");
}

#[test]
fn the_shop_that_never_opens_after_a_lost_answer_is_found() {
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned());
    if !has(&python, &["-c", "import kopf, kubernetes"]) {
        return;
    }
    let operator = |name: &str| {
        let path = example(&format!("kopf/{name}"));
        let namespace = "--namespace {namespace}";
        format!(
            "exec {python} -m kopf run --standalone {namespace} {}",
            path.display()
        )
    };
    Twins {
        scenario: "kopf/shop.yaml",
        planted: operator("operator.py"),
        mended: operator("operator_mended.py"),
        faults: "lose-answer",
        virtual_time: false,
        fault: "DIFF kopf/shop: lose-answer create secrets default/books-key",
        // kopf tries again and again, so the run may end in a loop before its outcome is compared.
        difference: "from OpenAPI-Generator",
        left: "1 of 1 steps, 1 of 2 given objects",
    }
    .judge("kopf");
}
