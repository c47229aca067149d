//! The command line as scripts use it: what is printed, how it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};

use crate::support::process::{file, get, output, post, serve, start, stdout, terminate};

#[test]
fn serve_announces_its_url_and_ends_cleanly_on_sigterm() {
    let (child, url) = serve(&["--nodes", "1"]);
    assert!(get(&url, "/version", "").starts_with("HTTP/1.1 200"));
    terminate(child);
}

#[test]
fn serve_looks_for_a_service_of_webhooks_at_the_address_of_its_flag() {
    let hook = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = hook.local_addr().expect("a bound listener has an address");
    let (child, url) = serve(&["--service", &format!("infra/hook:8443={address}")]);
    let configuration = r#"{"metadata":{"name":"v"},"webhooks":[{
        "name":"v.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
        "rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}],
        "clientConfig":{"service":{"namespace":"infra","name":"hook","port":8443}}}]}"#;
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let created = post(&url, configurations, configuration);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    // The listener speaks no TLS: the server's ClientHello shows the host that it looks for.
    let greeted = std::thread::spawn(move || {
        let (mut stream, _) = hook.accept().expect("the webhook is called");
        let mut hello = [0; 1024];
        let length = stream.read(&mut hello).expect("the client speaks first");
        String::from_utf8_lossy(&hello[..length]).into_owned()
    });
    let path = "/api/v1/namespaces/default/configmaps";
    let refused = post(&url, path, r#"{"metadata":{"name":"a"}}"#);
    let called = r#"failed calling webhook \"v.example.com\": failed to call webhook: Post \"https://hook.infra.svc:8443/?timeout=10s\""#;
    assert!(refused.contains(called), "{refused}");
    let hello = greeted.join().expect("the webhook does not panic");
    assert!(hello.contains("hook.infra.svc"), "{hello:?}");
    terminate(child);
}

#[test]
fn serve_sets_the_gates_of_openkruise() {
    let set = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"sample"},
        "spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},
            "spec":{"containers":[{"name":"c","image":"nginx:1.25"}]}}}}"#;
    let path = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets";
    for (gates, has_policy) in [(None, true), (Some("AllAlpha=true"), false)] {
        let gates = gates.map(|gates| ["--kruise-gates", gates]);
        let mut arguments = vec!["--kruise", "--controllers", "none"];
        arguments.extend(gates.iter().flatten());
        let (child, url) = serve(&arguments);
        let created = post(&url, path, set);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        let is_there = created.contains(r#""imagePullPolicy":"Always""#);
        assert_eq!(is_there, has_policy, "{created}");
        terminate(child);
    }
    let refused = output(&["serve", "--kruise-gates", "ShortHash=true"]);
    assert!(!refused.status.success());
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("unrecognized feature gate: ShortHash (known: AllAlpha,"),
        "{stderr}"
    );
}

#[test]
fn serve_has_the_metrics_apis_that_are_asked_for() {
    for (nodes, metrics, has_metrics) in [
        ("1", None, true),
        ("1", Some("none"), false),
        ("0", None, false),
        ("0", Some("all"), true),
    ] {
        let mut arguments = vec!["--controllers", "*,-job", "--nodes", nodes];
        arguments.extend(metrics.iter().flat_map(|chosen| ["--metrics", *chosen]));
        let (child, url) = serve(&arguments);
        let groups = get(&url, "/apis", "");
        assert!(groups.starts_with("HTTP/1.1 200"), "{groups}");
        let is_there = groups.contains(r#""name":"metrics.k8s.io""#);
        assert_eq!(is_there, has_metrics, "{arguments:?}: {groups}");
        terminate(child);
    }
}

/// Deletes an object; what comes back.
fn delete(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn serve_keeps_the_pace_of_its_flag() {
    let path = "/api/v1/namespaces/sample";
    for (pace, begins_at_once) in [(None, true), (Some("fast"), true), (Some("real"), false)] {
        let pace = pace.map(|pace| ["--pace", pace]);
        let arguments: Vec<&str> = pace.iter().flatten().copied().collect();
        let (child, url) = serve(&arguments);
        let body = r#"{"metadata":{"name":"sample"}}"#;
        let created = post(&url, "/api/v1/namespaces", body);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        let began = Instant::now();
        delete(&url, path);
        while get(&url, path, "").starts_with("HTTP/1.1 200") {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        // Upstream leaves a namespace alone for five seconds.
        let took = began.elapsed();
        assert_eq!(took < Duration::from_secs(5), begins_at_once, "{took:?}");
        terminate(child);
    }
    let refused = output(&["serve", "--pace", "slow"]);
    assert!(!refused.status.success());
}

#[test]
fn serve_asks_for_the_token_and_writes_it_into_the_kubeconfig() {
    let kubeconfig = file("token/kubeconfig", "");
    let (child, url) = serve(&[
        "--token",
        "secret",
        "--kubeconfig-out",
        kubeconfig.to_str().unwrap(),
    ]);
    let path = "/api/v1/namespaces/default";
    assert!(get(&url, path, "").starts_with("HTTP/1.1 403"));
    let authorized = get(&url, path, "Authorization: Bearer secret\r\n");
    assert!(authorized.starts_with("HTTP/1.1 200"), "{authorized}");
    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(
        config.contains(&url) && config.contains("secret"),
        "{config}"
    );
    terminate(child);
}

#[test]
fn serve_over_tls_puts_its_authority_into_the_kubeconfig() {
    let kubeconfig = file("tls/kubeconfig", "");
    let path = kubeconfig.to_str().unwrap();
    let (child, url) = serve(&["--tls", "--token", "secret", "--kubeconfig-out", path]);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    let config: serde_json::Value = serde_saphyr::from_str(&config).unwrap();
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], url.as_str());
    let authority = cluster["certificate-authority-data"].as_str().unwrap();
    // The beginning of every certificate in PEM, in base64.
    assert!(authority.starts_with("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"));
    assert_eq!(config["users"][0]["user"]["token"], "secret");
    terminate(child);
}

#[test]
fn serve_over_tls_publishes_who_signs_client_certificates() {
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    // A server that is alone has what a kube-apiserver without that authority has.
    let other = kubeproof_apiserver::Tls::generate(std::net::Ipv4Addr::LOCALHOST.into());
    let other = file("trust/other.pem", other.authority_pem());
    // Such a server asks for credentials.
    let given = ["--client-ca-file", other.to_str().unwrap()];
    for (nodes, others, status, kind) in [
        ("1", &[][..], 200, "ConfigMap"),
        ("0", &[], 404, "Status"),
        ("0", &given, 200, "ConfigMap"),
    ] {
        let token = ["--token", "secret"];
        let flags = ["--tls", "--controllers", "none", "--nodes", nodes];
        let (child, url) = serve(&[&flags[..], &token, others].concat());
        let want = format!(
            r#"{{"case":{{"case":"c","steps":[{{"pick":["kind"],"req":"GET {map}"}}]}},
            "want":[{{"body":"{kind}","status":{status},"type":"application/json","warnings":[]}}]}}"#
        );
        let name = format!("trust/{nodes}-{}.jsonl", others.len());
        let case = file(&name, &want.replace('\n', ""));
        let check = [
            "exchange",
            "check",
            "--server",
            &url,
            "--insecure-skip-tls-verify",
        ];
        let checked = output(&[&check[..], &token, &[case.to_str().unwrap()]].concat());
        assert!(checked.status.success(), "{checked:?}");
        terminate(child);
    }
}

#[test]
fn serve_loads_manifests_before_it_listens() {
    let manifest = file(
        "load/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n",
    );
    let (child, url) = serve(&["--load", manifest.to_str().unwrap()]);
    let answer = get(&url, "/api/v1/namespaces/default/configmaps/settings", "");
    assert!(answer.contains("\"colour\":\"blue\""), "{answer}");
    terminate(child);
}

#[test]
fn serve_loads_a_directory_of_definitions_and_their_objects() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  \
        names: {plural: widgets, kind: Widget}\n  versions:\n  - {name: v1, served: true, \
        storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: \
        {type: integer, default: 1}}}}}\n";
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: small}\n";
    // Their order is not that of their names.
    file("load-both/a-widget.yaml", widget);
    let path = file("load-both/z-definition.yaml", definition);
    let directory = path.parent().expect("it is in a directory");
    let (child, url) = serve(&[
        "--load",
        directory.to_str().expect("cargo's paths are UTF-8"),
    ]);
    let path = "/apis/example.com/v1/namespaces/default/widgets/small";
    let answer = get(&url, path, "");
    assert!(answer.contains("\"size\":1"), "{answer}");
    terminate(child);

    let refused = output(&[
        "serve",
        "--load",
        file("load-one/widget.yaml", widget).to_str().unwrap(),
    ]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).expect("it prints UTF-8");
    let why = "cannot create Widget.v1.example.com small: nothing serves this kind";
    assert!(said.contains(why), "{said}");
}

#[test]
fn serve_loads_unknown_fields_only_leniently() {
    let manifest = file(
        "lenient/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndota: {colour: blue}\n",
    );
    let path = manifest.to_str().unwrap();
    let refused = output(&["serve", "--load", path]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).expect("it prints UTF-8");
    let wanted = format!("error: {path}: cannot create ConfigMap.v1 settings: ");
    assert!(said.starts_with(&wanted), "{said}");
    let wanted = "strict decoding error: unknown field \"dota\"\n";
    assert!(said.ends_with(wanted), "{said}");
    let (child, url) = serve(&["--load", path, "--load-lenient"]);
    let answer = get(&url, "/api/v1/namespaces/default/configmaps/settings", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    terminate(child);
}

#[test]
fn serve_follows_stages() {
    let map = file(
        "staged/settings.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
    );
    let stage = file(
        "stages/paint.yaml",
        "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: paint}\nspec:\n  \
         resourceRef: {apiGroup: v1, kind: ConfigMap}\n  selector:\n    matchExpressions:\n    \
         - {key: .data.colour, operator: DoesNotExist}\n  next:\n    patches:\n    \
         - {template: 'data: {colour: blue}'}\n",
    );
    let directory = stage.parent().unwrap().to_str().unwrap();
    let (child, url) = serve(&["--load", map.to_str().unwrap(), "--stages", directory]);
    let path = "/api/v1/namespaces/default/configmaps/settings";
    let watch = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=2";
    get(&url, watch, "");
    let answer = get(&url, path, "");
    assert!(answer.contains("\"colour\":\"blue\""), "{answer}");
    terminate(child);
    let broken = file("broken/stage.yaml", "kind: Stage\nmetadata: {name: x}\n");
    let output = output(&["serve", "--stages", broken.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("not a Stage of kwok.x-k8s.io/v1alpha1"),
        "{said}"
    );
}

#[test]
fn what_is_not_built_is_refused_in_words() {
    for arguments in [
        &["serve", "--authorization", "Webhook"][..],
        &["serve", "--controllers", "nonsense"],
        &["run", "--controller", "true", "--seeds", "2"],
        &["run", "--kubeconfig", "x", "--report", "x"],
    ] {
        let output = output(arguments);
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    }
}

const SCENARIO: &str = "title: A set of no pods\nsource: none\ngiven: {nodes: 0}\nsteps:\n\
    - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

#[test]
fn a_scenario_without_a_golden_fails_and_shows_its_transcript() {
    let path = file("bare/some.yaml", SCENARIO);
    let output = output(&["run", path.to_str().unwrap()]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("FAIL bare/some  ("), "{said}");
    assert!(said.contains("configmap a created"), "{said}");
    assert_eq!(said.lines().last(), Some("0 passed, 1 failed"));
}

#[test]
fn a_golden_that_differs_is_shown_as_a_diff() {
    let path = file("differs/some.yaml", SCENARIO);
    file(
        "differs/snapshots/differs__some.snap",
        "---\nsource: x\n---\n# Another title\n",
    );
    let output = output(&["run", path.to_str().unwrap()]);
    let said = stdout(&output);
    assert!(said.contains("-# Another title\n"), "{said}");
    assert!(said.contains("+# A set of no pods\n"), "{said}");
}

#[test]
fn marks_are_in_the_golden_and_fail_the_scenario_without_their_line() {
    let shows =
        |mark: &str| format!("{SCENARIO}shows: [{{text: It is created., marks: [{mark}]}}]\n");
    let path = file("marked/some.yaml", &shows("configmap a created"));
    let path = path.to_str().unwrap();
    let accepted = output(&["run", "--accept", path]);
    assert_eq!(accepted.status.code(), Some(0), "{}", stdout(&accepted));
    let golden = Path::new(path).with_file_name("snapshots/marked__some.snap");
    let text = std::fs::read_to_string(&golden).unwrap();
    assert!(text.contains("\n# shows: It is created.\n"), "{text}");
    assert!(text.contains("\n► +0s"), "{text}");
    file("marked/some.yaml", &shows("configmap b created"));
    let unmet = output(&["run", "--accept", path]);
    assert_eq!(unmet.status.code(), Some(1));
    let said = stdout(&unmet);
    assert!(
        said.contains("shows: no line matches: configmap b created"),
        "{said}"
    );
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn a_wrong_scenario_names_the_file_and_the_fault() {
    let path = file("wrong/some.yaml", "title: t\nsource: s\nstep: []\n");
    let output = output(&["run", "--json", path.to_str().unwrap()]);
    let said = stdout(&output);
    let first: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(first["passed"], false);
    let failure = first["failure"].as_str().unwrap();
    assert!(
        failure.contains("wrong/some.yaml") && failure.contains("step"),
        "{failure}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_passing_scenario_is_one_line_and_a_summary() {
    let name = "scenarios/statefulset/sts-validation-create.yaml";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    let output = output(&["run", path.to_str().unwrap()]);
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("ok   statefulset/sts-validation-create  ("),
        "{said}"
    );
    assert_eq!(lines[1..], ["1 passed, 0 failed"]);
    assert!(output.status.success());
}

#[test]
fn serve_refuses_durations_that_no_clock_can_follow() {
    let log = file("durations/a.jsonl", "");
    for (at, why) in [
        ("+999999999999h", "is longer than 876000h, a hundred years"),
        ("+99999999999999999999999s1s", "is longer than 876000h"),
        ("+5d", "is not a duration"),
    ] {
        let refused = output(&["serve", "--log", log.to_str().unwrap(), "--at", at]);
        assert_eq!(refused.status.code(), Some(2));
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(stderr.contains(why), "{stderr}");
    }
}

/// Raises the number of files that this process may have open, and returns it.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
    limit
        .maximum
        .map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}

#[test]
fn serve_answers_while_thousands_of_half_sent_requests_hold_its_descriptors() {
    let sockets = 3000.min(open_files_max() - 200);
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_kubeproof");
    command.args([
        "-c",
        "ulimit -n 80 && exec \"$0\" serve --controllers none",
        program,
    ]);
    let (child, line) = start(&mut command);
    let url = line.trim().strip_prefix("listening on http://").unwrap();
    let connect = |head: &str| {
        let mut stream = TcpStream::connect(url).unwrap();
        // The server may have closed it already.
        let _ = stream.write_all(head.as_bytes());
        stream
    };
    let path = "/api/v1/namespaces/default/configmaps";
    let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut watch = connect(&format!("GET {path}?watch=1 {head}"));
    let mut begun = [0; 12];
    watch.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let half: Vec<TcpStream> = (0..sockets).map(|_| connect("GET /healthz HTT")).collect();
    let large = format!(
        r#"{{"metadata":{{"name":"large"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(900_000)
    );
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (url, large) = (url.to_owned(), large.clone());
            std::thread::spawn(move || post(&url, &format!("{path}?dryRun=All"), &large))
        })
        .collect();
    assert!(get(url, "/healthz", "").ends_with("\r\n\r\nok"));
    for thread in threads {
        let created = thread.join().unwrap();
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    }
    // Connections with a request have not made room.
    let created = post(url, path, r#"{"metadata":{"name":"seen"}}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let mut events = Vec::new();
    while !String::from_utf8_lossy(&events).contains(r#""name":"seen""#) {
        let mut piece = [0; 4096];
        let length = watch.read(&mut piece).unwrap();
        assert_ne!(length, 0, "the watch goes on");
        events.extend_from_slice(&piece[..length]);
    }
    drop(half);
    terminate(child);
}
