//! OpenKruise's definitions on a server that knows nothing of them, its webhooks over HTTPS and its
//! controllers in processes of their own.

use serde_json::{Value, json};

use crate::support::process::{
    file, get, kubeproof, output, post, serve, start, stdout, terminate,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
const OLD: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets";
const NEW: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The status code and the object of an answer.
fn parsed(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = body
        .find('{')
        .map(|start| &body[start..])
        .unwrap_or_default();
    let mut objects = serde_json::Deserializer::from_str(body).into_iter();
    let object = objects.next().and_then(Result::ok).unwrap_or_default();
    (code.expect("it has a status"), object)
}

fn set(name: &str, strategy: Value, scale: Value) -> String {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "updateStrategy": strategy,
            "scaleStrategy": scale,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]},
            },
        },
    })
    .to_string()
}

#[test]
fn workloads_run_with_webhooks_and_controllers_of_other_processes() {
    let path = file("kruise-webhooks/kubeconfig", "");
    let path = path.to_str().expect("cargo's directories are UTF-8");
    let definitions = format!("{ROOT}fixtures/crds/kruise");
    let (server, url) = serve(&[
        "--nodes",
        "2",
        "--load",
        &definitions,
        "--kubeconfig-out",
        path,
    ]);

    let without = set("without", json!({}), json!({}));
    let (code, stored) = parsed(&post(&url, OLD, &without));
    assert_eq!((code, &stored["spec"]["updateStrategy"]), (201, &json!({})));

    let (webhooks, line) = start(&mut kubeproof(&["webhooks", "--kubeconfig", path]));
    assert!(
        line.starts_with("serving the webhooks of apps.kruise.io on https://127.0.0.1:"),
        "{line}"
    );

    // Defaults, in the version of the request; the other version is made by conversion.
    let (code, stored) = parsed(&post(&url, OLD, &set("sample", json!({}), json!({}))));
    let strategy = &stored["spec"]["updateStrategy"];
    assert_eq!(
        (code, &strategy["maxUnavailable"]),
        (201, &json!("20%")),
        "{stored}"
    );
    let (_, converted) = parsed(&get(&url, &format!("{NEW}/sample"), ""));
    let strategy = &converted["spec"]["updateStrategy"];
    assert_eq!(
        strategy["rollingUpdate"]["podUpdatePolicy"], "ReCreate",
        "{converted}"
    );

    // Refusals, among them one for which the webhook asks the server about pods.
    let surging = json!({"type": "InPlaceOnly", "maxSurge": 1});
    let refused = [
        (
            set("surging", surging, json!({})),
            "can not use maxSurge with strategy type InPlaceOnly",
        ),
        (
            set("naming", json!({}), json!({"podsToDelete": ["nobody"]})),
            "find pod nobody failed: pods \"nobody\" not found",
        ),
    ];
    for (wrong, why) in refused {
        let (code, status) = parsed(&post(&url, OLD, &wrong));
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(code, 422, "{message}");
        assert!(message.contains(why), "{message}");
    }

    let scenarios = [
        "asts/asts-rolling-default",
        "cloneset/cloneset-inplace-image",
    ];
    let scenarios = scenarios.map(|name| format!("{ROOT}conformance/scenarios/{name}.yaml"));
    let names = "advanced-statefulset,cloneset";
    let (controllers, line) = start(&mut kubeproof(&[
        "controllers",
        "--kubeconfig",
        path,
        "--controllers",
        names,
    ]));
    assert!(
        line.starts_with("running advanced-statefulset and cloneset against "),
        "{line}"
    );
    let run = output(&["run", "--kubeconfig", path, &scenarios[0], &scenarios[1]]);
    assert!(stdout(&run).ends_with("2 passed, 0 failed\n"), "{run:?}");

    terminate(controllers);
    terminate(webhooks);
    let (_, left) = parsed(&get(&url, CONFIGURATIONS, ""));
    assert_eq!(left["items"], json!([]), "nothing is asked for any more");
    let unasked = set(
        "unasked",
        json!({"type": "InPlaceOnly", "maxSurge": 1}),
        json!({}),
    );
    assert_eq!(parsed(&post(&url, OLD, &unasked)).0, 201);
    terminate(server);
}
