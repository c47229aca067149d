//! The command line as people use it: their own scenarios, what is printed when, and errors that say what there is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::process::{file, kubeproof, output, post, serve, start, stdout, terminate};

const SCENARIO: &str = "title: A ConfigMap\nsource: none\ngiven: {nodes: 0}\nsteps:\n\
    - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

/// Scenarios `own/one` to `own/three` below a directory of that name, with goldens of none.
fn project(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    for scenario in ["one", "three", "two"] {
        file(&format!("{name}/scenarios/own/{scenario}.yaml"), SCENARIO);
    }
    root
}

fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    std::fs::create_dir_all(directory).expect("it can be made");
    let mut command = kubeproof(arguments);
    let ran = command.current_dir(directory).output();
    ran.expect("the program runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it prints UTF-8")
}

/// The error of a command that must not succeed.
fn refused(arguments: &[&str]) -> String {
    let refused = output(arguments);
    assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
    stderr(&refused)
}

fn standard(scenario: &str) -> String {
    format!("{}/scenarios/{scenario}.yaml", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn scenarios_are_those_of_the_project_that_one_stands_in() {
    let root = project("nearest");
    let inside = root.join("src/deep");
    let accepted = run_in(&inside, &["run", "--accept"]);
    assert!(accepted.status.success(), "{accepted:?}");
    let ran = run_in(&inside, &["run"]);
    let used = format!("scenarios: {}\n", root.join("scenarios").display());
    assert_eq!(stderr(&ran), used);
    assert!(stdout(&ran).ends_with("3 passed, 0 failed\n"), "{ran:?}");
    // A member of a workspace with several crates may be called `conformance`, as this one is.
    let moved = project("nearest-member");
    std::fs::create_dir_all(moved.join("conformance")).unwrap();
    let to = moved.join("conformance/scenarios");
    std::fs::rename(moved.join("scenarios"), &to).unwrap();
    let ran = run_in(&moved, &["run", "--only", "one"]);
    assert_eq!(stderr(&ran), format!("scenarios: {}\n", to.display()));
}

#[test]
fn goldens_of_ones_own_scenarios_are_accepted_and_reviewed() {
    let root = project("own");
    let golden = root.join("snapshots/own__one.snap");
    let pending = root.join("snapshots/own__one.snap.new");
    let one = root.join("scenarios/own/one.yaml");
    let one = one.to_str().unwrap();

    let reviewed = output(&["run", one, "--review"]);
    assert_eq!(reviewed.status.code(), Some(1));
    assert!(stdout(&reviewed).contains(&format!("wrote {}", pending.display())));
    assert!(!golden.exists());
    let written = std::fs::read_to_string(&pending).unwrap();
    let header =
        "---\nsource: \"scenarios/own/one.yaml\"\ndescription: \"derived\"\n---\n# A ConfigMap\n";
    assert!(written.starts_with(header), "{written}");

    let accepted = output(&["run", one, "--accept"]);
    assert!(accepted.status.success(), "{accepted:?}");
    assert!(stdout(&accepted).contains(&format!("wrote {}", golden.display())));
    assert_eq!(std::fs::read_to_string(&golden).unwrap(), written);
    assert!(!pending.exists(), "what was left for a review is gone");
    assert!(output(&["run", one]).status.success());

    // Another golden keeps its header, and one that is right is left alone.
    let other = written
        .replace("A ConfigMap", "B")
        .replace("source: \"", "origin: \"");
    std::fs::write(&golden, &other).unwrap();
    let differs = output(&["run", one]);
    let said = stdout(&differs);
    assert!(
        said.contains(&format!("accept: kubeproof run {one} --accept")),
        "{said}"
    );
    assert!(output(&["run", one, "--accept"]).status.success());
    let again = std::fs::read_to_string(&golden).unwrap();
    assert_eq!(again, written.replace("source: \"", "origin: \""));
    assert!(!stdout(&output(&["run", one, "--accept"])).contains("wrote"));
}

#[test]
fn a_run_that_violates_a_property_is_not_accepted() {
    let violating = format!(
        "{SCENARIO}properties:\n- {{name: no maps, expression: 'objects.ConfigMap.size() == 0'}}\n"
    );
    let path = file("violating/scenarios/own/one.yaml", &violating);
    let ran = output(&["run", path.to_str().unwrap(), "--accept"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let said = stdout(&ran);
    assert!(!said.contains("accept:"));
    assert!(said.contains("no maps"), "the reason is printed: {said}");
    assert!(
        !path
            .with_file_name("../../snapshots/own__one.snap")
            .exists()
    );
}

#[test]
fn a_plan_whose_point_never_comes_is_an_error_that_names_the_nearest() {
    let scenario = standard("statefulset/sts-create-ordered");
    let plan = "crash-after create pods default/web-9 from statefulset-controller";
    let stderr = refused(&["explore", &scenario, "--plan", plan]);
    assert!(
        stderr.contains(&format!("`{plan}` does not strike")),
        "{stderr}"
    );
    let near = "\n  crash-after create pods default/web-0 from statefulset-controller";
    assert!(stderr.contains(near), "{stderr}");
}

#[test]
fn unknown_user_agents_are_errors_that_name_those_there_are() {
    let scenario = standard("statefulset/sts-create-ordered");
    let ran = output(&["explore", &scenario, "--from", "statefulset-controler"]);
    assert_eq!(ran.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let meant = "did you mean \"statefulset-controller\"? there are: ";
    assert!(stderr.contains(meant), "{stderr}");
    assert_eq!(stdout(&ran), "", "no numbers of an exploration of nothing");
}

#[test]
fn an_exploration_of_nothing_is_an_error() {
    let alone = SCENARIO.replace("nodes: 0", "nodes: 0, controllers: []");
    let path = file("nothing/scenarios/own/one.yaml", &alone);
    let stderr = refused(&["explore", path.to_str().unwrap()]);
    assert!(stderr.contains("nothing was explored"), "{stderr}");
}

#[test]
fn filters_without_a_match_are_errors_that_name_what_there_is() {
    let root = project("filtered");
    let root = root.to_str().unwrap();
    let stderr = refused(&["run", root, "--only", "own/ohne"]);
    let meant = "did you mean \"own/one\"? there are: own/one, own/three, own/two";
    assert!(stderr.contains(meant), "{stderr}");
    let cases = r#"{"case": {"case": "config", "steps": [{"req": "GET /version"}]}}"#;
    let cases = file("filtered-cases/cases.jsonl", cases);
    let path = cases.to_str().unwrap();
    let stderr = refused(&["exchange", "check", path, "--only", "^konfig$"]);
    assert!(stderr.contains("there are: config"), "{stderr}");
    let record = ["exchange", "record", "--server", "http://127.0.0.1:1"];
    let stderr = refused(&[&record[..], &[root]].concat());
    assert!(stderr.contains("there is no recorded case"), "{stderr}");
}

#[test]
fn empty_manifests_are_errors_that_name_the_file() {
    let empty = file("empty/none.yaml", "# nothing\n---\n");
    let path = empty.to_str().unwrap();
    let directory = empty.parent().unwrap().to_str().unwrap();
    for path in [path, directory] {
        let stderr = refused(&["serve", "--load", path]);
        let wanted = format!("error: --load {path}: the file contains no object\n");
        assert_eq!(stderr, wanted);
        assert!(refused(&["serve", "--stages", path]).contains("the file contains no Stage"));
    }
    let words = file("empty-words/words.yaml", "hello world\n");
    let stderr = refused(&["serve", "--load", words.to_str().unwrap()]);
    assert!(
        stderr.contains("words.yaml: document 1 is not an object: it is a string"),
        "{stderr}"
    );
}

#[test]
fn faults_of_an_unknown_verb_or_resource_are_refused() {
    let (child, url) = serve(&["--controllers", "none"]);
    let fault = |on: &str| {
        let body = format!(r#"{{"name": "f", "on": {on}, "refuse": {{"code": 500}}}}"#);
        post(&url, "/kubeproof/v1/faults", &body)
    };
    let verb = fault(r#"{"verb": "creat"}"#);
    assert!(verb.starts_with("HTTP/1.1 400"), "{verb}");
    assert!(
        verb.contains(
            r#"there is no verb \"creat\"; did you mean \"create\"? there are: get, list,"#
        ),
        "{verb}"
    );
    for (wrong, why) in [
        (
            r#"{"resource": "statefulset"}"#,
            r#"no resource \"statefulset\"; did you mean \"statefulsets.apps\"? there are: "#,
        ),
        (
            r#"{"resource": "pods/statsu"}"#,
            r#"pods has no subresource \"statsu\"; did you mean \"status\"? there are: attach, "#,
        ),
        (
            r#"{"resource": "pods/status", "verb": "delete"}"#,
            r#"no request for pods/status has the verb \"delete\"; there are: get, patch, update"#,
        ),
    ] {
        let refused = fault(wrong);
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
        assert!(refused.contains(why), "{refused}");
    }
    for right in [
        r#"{"verb": "create", "resource": "statefulsets.apps"}"#,
        r#"{"resource": "statefulsets"}"#,
        r#"{"resource": "pods/status"}"#,
        "{}",
    ] {
        let taken = fault(right);
        assert!(taken.starts_with("HTTP/1.1 200"), "{right}: {taken}");
    }
    terminate(child);
}

#[test]
fn a_kubeconfig_is_its_owners_alone_and_has_the_name_of_ones_choice() {
    let path = file("private/kubeconfig", "was there before, and readable");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let out = ["--kubeconfig-out", path.to_str().unwrap(), "--name", "mine"];
    let (child, _) = serve(&out);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(config["current-context"], "mine");
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(config[list][0]["name"], "mine", "{list}");
    }
    assert_eq!(config["contexts"][0]["context"]["user"], "mine");
    terminate(child);
}

#[test]
fn a_token_without_tls_is_warned_of() {
    for (flags, is_warned) in [(&[][..], true), (&["--tls"][..], false)] {
        let arguments = [&["serve", "--token", "secret"][..], flags].concat();
        let mut command = kubeproof(&arguments);
        let (mut child, _) = start(command.stderr(Stdio::piped()));
        let mut stderr = child.stderr.take().unwrap();
        terminate(child);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
        assert_eq!(text.contains("send no token"), is_warned, "{text}");
    }
}

#[test]
fn names_of_one_image_are_read_as_a_kubelet_reads_them() {
    for (names, why) in [
        ("app:1", "expected IMAGE=IMAGE"),
        (
            "app:1=App",
            "image name \"App\": invalid reference format: repository name (App) must be lowercase",
        ),
    ] {
        let stderr = refused(&["serve", "--same-image", names]);
        let wanted =
            format!("error: invalid value '{names}' for '--same-image <IMAGE=IMAGE>': {why}\n");
        assert!(stderr.starts_with(&wanted), "{stderr}");
    }
}

#[test]
fn where_to_listen_is_a_name_or_an_address() {
    let (child, url) = serve(&["--listen", "localhost:0", "--authorization", "rbac"]);
    assert!(url.starts_with("http://"), "{url}");
    terminate(child);
    let everywhere = refused(&["serve", "--listen", ":0"]);
    assert!(
        everywhere.contains("0.0.0.0:0 would be a cluster administrator"),
        "{everywhere}"
    );
}

#[test]
fn a_closed_pipe_ends_a_run_quietly() {
    let root = project("pipe");
    let root = root.to_str().unwrap();
    let scenario = standard("statefulset/sts-create-ordered");
    let explore = ["explore", &scenario, "--faults", "conflict"];
    for arguments in [&["run", root][..], &["run", root, "--json"], &explore] {
        let mut child = kubeproof(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(stderr(&ended), "", "{arguments:?}");
        assert_eq!(ended.status.code(), Some(141), "{arguments:?}");
    }
}

#[test]
fn json_is_json_to_the_last_line() {
    let root = project("json");
    let root = root.to_str().unwrap();
    let scenario = standard("statefulset/sts-create-ordered");
    let plan = "conflict create pods default/web-1 from statefulset-controller";
    let mut summaries = Vec::new();
    for arguments in [
        &["run", root, "--json"][..],
        &["explore", &scenario, "--faults", "conflict", "--json"],
        &["explore", &scenario, "--plan", plan, "--json"],
    ] {
        let ran = output(arguments);
        let lines = stdout(&ran);
        let lines = lines.lines().map(serde_json::from_str::<Value>);
        let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
        summaries.push(lines.last().unwrap()["summary"].clone());
    }
    assert_eq!(summaries[0]["failed"], 3);
    assert_eq!(summaries[1]["diverged"], 0);
    assert_eq!(summaries[2]["runs"], 1);
}

#[test]
fn failures_are_listed_in_the_end_with_what_shows_and_accepts_them() {
    let root = project("failures");
    let path = root.join("scenarios");
    let one = path.join("own/one.yaml");
    assert!(
        output(&["run", one.to_str().unwrap(), "--accept"])
            .status
            .success()
    );
    file("failures/scenarios/own/wrong.yaml", "title: t\n");
    let ran = output(&["run", path.to_str().unwrap()]);
    let said = stdout(&ran);
    let (_, list) = said.split_once("\nfailures:\n").unwrap();
    let (three, two) = (path.join("own/three.yaml"), path.join("own/two.yaml"));
    let wrong = path.join("own/wrong.yaml");
    let wanted = format!(
        "  own/three\n    show:   kubeproof run {0}\n    accept: kubeproof run {0} --accept\n  \
         own/two\n    show:   kubeproof run {1}\n    accept: kubeproof run {1} --accept\n  \
         own/wrong\n    show:   kubeproof run {2}\n\n1 passed, 3 failed\n",
        three.display(),
        two.display(),
        wrong.display()
    );
    assert_eq!(list, wanted);
}

#[test]
fn a_run_ends_after_the_first_failure_if_asked_to() {
    let root = project("fast");
    let root = root.to_str().unwrap();
    for jobs in ["1", "3"] {
        let ran = output(&["run", root, "--fail-fast", "--jobs", jobs]);
        let said = stdout(&ran);
        assert!(said.starts_with("FAIL own/one "), "{said}");
        assert!(said.ends_with("0 passed, 1 failed\n"), "{said}");
    }
}

#[test]
fn results_are_written_for_junit() {
    let root = project("junit");
    let xml = root.join("results.xml");
    let root = root.to_str().unwrap();
    let only = [
        "run",
        root,
        "--only",
        "one|two",
        "--junit",
        xml.to_str().unwrap(),
    ];
    let ran = output(&only);
    assert_eq!(ran.status.code(), Some(1));
    let xml = std::fs::read_to_string(xml).unwrap();
    assert!(
        xml.contains(r#"<testsuites tests="2" failures="2" "#),
        "{xml}"
    );
    assert!(
        xml.contains(r#"<testcase classname="own" name="one" file=""#),
        "{xml}"
    );
    assert!(
        xml.contains("<failure message=\"there is no golden "),
        "{xml}"
    );
}

#[test]
fn colours_are_for_terminals_only() {
    let root = project("colours");
    let run = |variable: (&str, &str)| {
        let mut command = kubeproof(&["run", root.to_str().unwrap()]);
        stdout(&command.env(variable.0, variable.1).output().unwrap())
    };
    assert!(!run(("TERM", "xterm")).contains('\u{1b}'), "into a pipe");
    assert!(
        run(("CLICOLOR_FORCE", "1")).contains("\u{1b}[31m"),
        "on demand"
    );
}

#[test]
fn a_wait_in_vain_says_what_there_was_instead() {
    for (wait, why) in [
        (
            "{for: configmap/a, field: .data.k, is: w}",
            "5s: .data.k is v, not w",
        ),
        (
            "{for: configmap/a, field: .data.y, is: y}",
            "5s: .data.y is \"y\", not true; `is: \"y\"` waits for the string",
        ),
        ("{for: configmap/a, field: .data.l}", "5s: .data.l is unset"),
        (
            "{for: configmap/a, condition: Ready}",
            "5s: condition Ready is unset",
        ),
        (
            "{for: configmap/a, gone: true}",
            "5s: configmap a is still there",
        ),
        (
            "{for: configmap/b, field: .data}",
            "5s: there is no configmap b",
        ),
        (
            "{for: widget/b, field: .spec}",
            "is its definition among the manifests?",
        ),
    ] {
        let wait = wait.replace('}', ", timeout: 5s}");
        let steps = SCENARIO.replace("{name: a}", r#"{name: a}, data: {k: v, y: "y"}"#);
        let path = file(
            "vain/scenarios/own/one.yaml",
            &format!("{steps}- wait: {wait}\n"),
        );
        let said = stdout(&output(&["run", path.to_str().unwrap()]));
        assert!(said.contains(why), "{wait}: {said}");
    }
}

#[test]
fn errors_say_why_once_and_what_was_meant() {
    for arguments in [
        &["run", "/nope.yaml"][..],
        &["explore", "/nope.yaml"],
        &["serve", "--load", "/nope.yaml"],
        &["controllers", "--kubeconfig", "/nope.yaml"],
        &[
            "run",
            "--kubeconfig",
            "/nope.yaml",
            &standard("gc/gc-policy-switch"),
        ],
    ] {
        let stderr = refused(arguments);
        let whys = stderr.matches("No such file or directory").count();
        assert_eq!(whys, 1, "{arguments:?}: {stderr}");
    }
    for (arguments, wanted) in [
        (&["run", "--acept"][..], "'--accept'"),
        (
            &["serve", "--controllers", "none,deployment"],
            "\"none\" cannot be combined",
        ),
        (
            &["serve", "--controllers", "deploymnet"],
            "did you mean \"deployment\"?",
        ),
        (&["run", "--controller", ""], "a command is expected"),
        (
            &["serve", "--nodes", "-1"],
            "invalid value '-1' for '--nodes",
        ),
        (&["run", "--accept", "--seeds", "2"], "cannot be used with"),
    ] {
        let stderr = refused(arguments);
        assert!(stderr.contains(wanted), "{arguments:?}: {stderr}");
    }
}
