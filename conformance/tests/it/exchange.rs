//! `kubeproof exchange`, as its users run it.

use crate::support::process::{file, output, serve, stdout, terminate};

/// Two cases without recorded answers.
const CASES: &str = concat!(
    r#"{"case": {"case": "config", "steps": ["#,
    r#"{"body": {"metadata": {"name": "a"}}, "req": "POST /api/v1/namespaces/${ns}/configmaps", "#,
    r#""save": {"rv": "metadata.resourceVersion"}}, "#,
    r#"{"req": "GET /api/v1/namespaces/${ns}/configmaps?resourceVersion=${rv}"}, "#,
    r#"{"pick": ["spec"], "req": "GET /api/v1/namespaces/${ns}"}]}}"#,
    "\n",
    r#"{"case": {"case": "forbidden", "steps": ["#,
    r#"{"headers": {"authorization": "Bearer wrong"}, "req": "GET /api/v1/nodes"}]}}"#,
    "\n"
);

#[test]
fn what_was_recorded_from_a_server_is_equal_when_checked_again() {
    let path = file("exchange/new.jsonl", CASES);
    let path = path.to_str().unwrap();
    let (child, url) = serve(&["--token", "secret", "--controllers", "none"]);
    let network = ["--server", &url, "--token", "secret", path];
    let recorded = output(&[&["exchange", "record"], &network[..]].concat());
    assert_eq!(stdout(&recorded), "2 cases recorded\n");
    let first = std::fs::read_to_string(path).unwrap();
    assert!(
        first.contains(r#""body": {"finalizers": ["kubernetes"]}"#),
        "{first}"
    );
    let status = r#"{"body": {"apiVersion": "v1", "code": 401, "kind": "Status""#;
    assert!(first.contains(status), "{first}");
    terminate(child);

    // In process, and over the network against another server.
    let (child, url) = serve(&["--token", "secret", "--controllers", "none"]);
    let network = ["--server", &url, "--token", "secret", path];
    for server in [&[path][..], &network] {
        let checked = output(&[&["exchange", "check"], server].concat());
        assert_eq!(
            stdout(&checked),
            "new.jsonl: 2/2 cases\n2/2 cases equal, 4/4 answers equal\n"
        );
        assert!(checked.status.success());
    }
    terminate(child);
}

#[test]
fn variants_that_differ_are_found_and_can_be_checked() {
    let case = concat!(
        r#"{"case": {"case": "pod", "steps": [{"body": {"apiVersion": "v1", "kind": "Pod", "#,
        r#""metadata": {"name": "p", "labels": {"a": "b"}}, "#,
        r#""spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}, "#,
        r#""req": "POST /api/v1/namespaces/${ns}/pods"}]}}"#,
        "\n"
    );
    let path = file("varied/pod.jsonl", case);
    let path = path.to_str().unwrap();
    let found = file("varied/found.jsonl", "");
    let found = found.to_str().unwrap();
    let vary = |url: &str, options: &[&str]| {
        let server = ["exchange", "vary", "--server", url, "--token", "secret"];
        output(&[&server, options, &[path]].concat())
    };
    let (child, url) = serve(&["--token", "secret", "--controllers", "none"]);
    let varied = vary(&url, &["--count", "20", "--found", found]);
    assert_eq!(stdout(&varied), "20/20 variants equal\n");
    assert!(varied.status.success());
    assert_eq!(std::fs::read_to_string(found).unwrap(), "");
    terminate(child);

    // Pods without a service account are refused there, and not here.
    let strict = ["--token", "secret", "--controllers", "none"];
    let (child, url) = serve(&[&strict[..], &["--service-account-admission"]].concat());
    let varied = vary(&url, &["--count", "10", "--seed", "3", "--found", found]);
    assert_eq!(varied.status.code(), Some(1));
    terminate(child);
    let said = stdout(&varied);
    let refused = r#"step 0 .body.kind: want "Status", got "Pod""#;
    assert!(said.starts_with("--- pod-v3-1\n"), "{said}");
    assert!(said.contains(refused), "{said}");
    // Some variants are no pods for either server.
    let written = std::fs::read_to_string(found).unwrap().lines().count();
    let summary = format!("\n{}/10 variants equal\n", 10 - written);
    assert!(said.ends_with(&summary), "{said}");
    let checked = stdout(&output(&["exchange", "check", found]));
    let none = format!("found.jsonl: 0/{written} cases\n");
    assert!(checked.contains(&none), "{checked}");
}

#[test]
fn an_answer_that_differs_from_the_recorded_one_is_shown() {
    let want = r#"{"case": {"case": "c", "steps": [{"pick": ["gitVersion"], "req": "GET /version"}]}, "want": [{"body": "v1.0.0", "status": 200, "type": "application/json", "warnings": []}]}"#;
    let path = file("differs/version.jsonl", want);
    let checked = output(&["exchange", "check", path.to_str().unwrap()]);
    let said = stdout(&checked);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "--- c");
    assert!(
        lines[1].starts_with(r#"    step 0 .body: want "v1.0.0", got "v1.36."#),
        "{said}"
    );
    assert_eq!(
        lines[2..],
        [
            "version.jsonl: 0/1 cases",
            "0/1 cases equal, 0/1 answers equal"
        ]
    );
    assert_eq!(checked.status.code(), Some(1));
}

#[test]
fn a_server_that_does_not_answer_is_never_recorded() {
    let path = file("silent/new.jsonl", CASES);
    // A socket that is bound and does not listen refuses connections and keeps its port.
    let port = tokio::net::TcpSocket::new_v4().unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    let recorded = output(&[
        "exchange",
        "record",
        "--server",
        &url,
        path.to_str().unwrap(),
    ]);
    let said = String::from_utf8(recorded.stderr.clone()).unwrap();
    assert_eq!(recorded.status.code(), Some(2));
    assert!(said.starts_with("error: config: "), "{said}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), CASES);
}

#[test]
fn a_server_that_speaks_tls_is_believed_by_its_authority_or_on_request() {
    use base64::Engine as _;

    let kubeconfig = file("exchange-tls/kubeconfig", "");
    let path = kubeconfig.to_str().unwrap();
    let (child, url) = serve(&["--tls", "--token", "secret", "--kubeconfig-out", path]);
    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    let config: serde_json::Value = serde_saphyr::from_str(&config).unwrap();
    let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
    let authority = base64::engine::general_purpose::STANDARD.decode(authority.as_str().unwrap());
    let authority = String::from_utf8(authority.unwrap()).unwrap();
    let authority = file("exchange-tls/authority.pem", &authority);
    let none = file("exchange-tls/none.pem", "");
    let want = r#"{"case": {"case": "c", "steps": [{"pick": ["major"], "req": "GET /version"}]}, "want": [{"body": "1", "status": 200, "type": "application/json", "warnings": []}]}"#;
    let case = file("exchange-tls/version.jsonl", want);

    let check = |trust: &[&str]| {
        let server = ["exchange", "check", "--server", &url, "--token", "secret"];
        output(&[&server[..], trust, &[case.to_str().unwrap()]].concat())
    };
    let by_authority = check(&["--certificate-authority", authority.to_str().unwrap()]);
    assert!(by_authority.status.success(), "{by_authority:?}");
    assert!(check(&["--insecure-skip-tls-verify"]).status.success());
    let refused = check(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("--certificate-authority FILE"), "{said}");
    let empty = check(&["--certificate-authority", none.to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(2));
    terminate(child);

    // The authority of one server says nothing for another.
    let (child, url) = serve(&["--tls", "--token", "secret"]);
    let authority = ["--certificate-authority", authority.to_str().unwrap()];
    let server = ["exchange", "check", "--server", &url];
    let other = output(&[&server[..], &authority, &[case.to_str().unwrap()]].concat());
    assert_eq!(other.status.code(), Some(1));
    assert!(stdout(&other).contains("cannot connect to"), "{other:?}");
    terminate(child);
}
