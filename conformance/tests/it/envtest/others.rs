//! Harnesses in other languages, and kwokctl. `kubectl` hands over to a kubectl on the path, or answers itself.

use std::fs;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::plane::{Access, Authority, Pair, Plane, client, free_port, get, named};
use super::{create, define_shops, healthy, ready, start};
use crate::support::process::stdout;

/// A private key as Java's Bouncy Castle writes it, and the same key as PKCS#8.
const RSA_PKCS1: &str = include_str!("../../../../apiserver/tests/it/access/pkcs1.pem");
const RSA_PKCS8: &str = include_str!("../../../../apiserver/tests/it/access/rsa.pem");

#[tokio::test]
async fn fabric8_starts_it_with_java_keys_and_waits_with_kubectl() {
    let plane = Plane::new("fabric8");
    let (port, peers) = (free_port(), free_port());
    let args = [
        "-data-dir".to_owned(),
        plane.path("data"),
        "-wal-dir".to_owned(),
        plane.path("wal"),
        "--listen-client-urls".to_owned(),
        format!("http://0.0.0.0:{port}"),
        "--advertise-client-urls".to_owned(),
        format!("http://0.0.0.0:{port}"),
        "--initial-cluster".to_owned(),
        format!("default=http://localhost:{peers}"),
        "--initial-advertise-peer-urls".to_owned(),
        format!("http://localhost:{peers}"),
        "--listen-peer-urls".to_owned(),
        format!("http://localhost:{peers}"),
    ];
    let etcd = healthy(plane.start("etcd", &args), port).await;

    // Both certificates sign themselves, without constraints or usages.
    let key = KeyPair::from_pem_and_sign_algo(RSA_PKCS8, &PKCS_RSA_SHA256).unwrap();
    let mut serving =
        CertificateParams::new(vec!["127.0.0.1".to_owned(), "kubernetes".to_owned()]).unwrap();
    serving.distinguished_name = named("example.org", "kubeproof");
    let mut user = CertificateParams::default();
    user.distinguished_name = named("kubeapitest", "system:masters");
    for (params, name) in [(serving, "apiserver"), (user, "client")] {
        let pair = Pair {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: RSA_PKCS1.to_owned(),
        };
        pair.write(&plane.dir, name);
    }
    let server_port = free_port();
    let url = format!("https://127.0.0.1:{server_port}");
    let line = format!(
        "--cert-dir DIR --secure-port {server_port} --etcd-servers http://0.0.0.0:{port} --authorization-mode RBAC \
         --service-account-issuer https://localhost --service-account-signing-key-file DIR/apiserver.key \
         --service-account-signing-key-file DIR/apiserver.key --service-account-key-file DIR/apiserver.key \
         --service-account-issuer DIR/apiserver.crt --disable-admission-plugins ServiceAccount \
         --client-ca-file DIR/client.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged"
    );
    let dir = plane.dir.to_str().unwrap();
    let args: Vec<String> = line
        .split_whitespace()
        .map(|word| word.replace("DIR", dir))
        .collect();
    let server = ready(plane.start("kube-apiserver", &args), &url, "/readyz").await;

    let found = plane
        .program("kubectl")
        .args([
            format!("--client-certificate={}", plane.path("client.crt")),
            format!("--client-key={}", plane.path("client.key")),
            format!("--certificate-authority={}", plane.path("apiserver.crt")),
            format!("--server={url}"),
            "--request-timeout=5s".to_owned(),
        ])
        .args(["get", "ns", "default"])
        .env("KUBECONFIG", plane.path("none"))
        .output()
        .unwrap();
    assert!(found.status.success(), "{found:?}");
    assert!(stdout(&found).contains("default"), "{found:?}");
    for running in [server, etcd] {
        assert!(!running.stop(Signal::KILL).success());
    }
}

#[tokio::test]
async fn kwokctl_reads_the_versions_and_asks_for_health_with_kubectl() {
    let plane = Plane::new("kwok");
    let pattern = regex::Regex::new(r"(kubernetes|version)?:? ?v?(\d+\.\d+\.\d+(-\S*)?)").unwrap();
    for (program, want) in [("kube-apiserver", "1.36."), ("etcd", "3.6.")] {
        let version = stdout(&plane.output(program, &["--version"])).to_lowercase();
        let found = pattern
            .captures(&version)
            .and_then(|found| found.get(2))
            .unwrap();
        assert!(found.as_str().starts_with(want), "{version}");
    }
    let authority = Authority::new();
    let admin = authority.client("kwok-admin", "system:masters");
    // One certificate is that of the server, of its administrator and of proxies.
    let serving = authority.serving(&["localhost", "127.0.0.1", "kubernetes.default.svc"]);
    serving.write(&plane.dir, "serving");
    admin.write(&plane.dir, "admin");
    fs::write(plane.dir.join("ca.crt"), authority.pem()).unwrap();
    fs::write(
        plane.dir.join("audit.yaml"),
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n",
    )
    .unwrap();
    let (port, etcd_port, peers) = (free_port(), free_port(), free_port());
    let etcd = format!(
        "--name=node0 --auto-compaction-retention=1 --quota-backend-bytes=8589934592 --data-dir=DIR/etcd \
         --initial-advertise-peer-urls=http://0.0.0.0:{peers} --listen-peer-urls=http://0.0.0.0:{peers} \
         --advertise-client-urls=http://0.0.0.0:{etcd_port} --listen-client-urls=http://0.0.0.0:{etcd_port} \
         --initial-cluster=node0=http://0.0.0.0:{peers}"
    );
    let server = format!(
        "--etcd-prefix=/registry --allow-privileged=true --endpoint-reconciler-type=none \
         --runtime-config=api/legacy=false,api/alpha=false --max-requests-inflight=0 \
         --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false \
         --etcd-servers=http://127.0.0.1:{etcd_port} --authorization-mode=Node,RBAC --bind-address=0.0.0.0 \
         --secure-port={port} --tls-cert-file=DIR/serving.crt --tls-private-key-file=DIR/serving.key \
         --client-ca-file=DIR/ca.crt --service-account-key-file=DIR/serving.key \
         --service-account-signing-key-file=DIR/serving.key \
         --service-account-issuer=https://kubernetes.default.svc.cluster.local \
         --proxy-client-key-file=DIR/serving.key --proxy-client-cert-file=DIR/serving.crt \
         --requestheader-client-ca-file=DIR/ca.crt --requestheader-allowed-names=kwok \
         --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
         --requestheader-extra-headers-prefix=X-Remote-Extra- --audit-policy-file=DIR/audit.yaml \
         --audit-log-path=DIR/audit.log --v=1"
    );
    let dir = plane.dir.to_str().unwrap().to_owned();
    let words = |line: &str| -> Vec<String> {
        line.split_whitespace()
            .map(|word| word.replace("DIR", &dir))
            .collect()
    };
    let _etcd = healthy(plane.start("etcd", &words(&etcd)), etcd_port).await;
    let url = format!("https://127.0.0.1:{port}");
    let server = plane.start("kube-apiserver", &words(&server));
    let mut server = ready(server, &url, "/readyz").await;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kwok", "cluster": {"server": url, "certificate-authority": plane.path("ca.crt")}}],
        "users": [{"name": "kwok", "user": {
            "client-certificate": plane.path("admin.crt"), "client-key": plane.path("admin.key"),
        }}],
        "contexts": [{"name": "kwok", "context": {"cluster": "kwok", "user": "kwok"}}],
        "current-context": "kwok",
    });
    fs::write(plane.dir.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", plane.path("kubeconfig"));
    let health = server.wait_for("kubectl get --raw /healthz", async || {
        let health = plane.output("kubectl", &[&kubeconfig, "get", "--raw", "/healthz"]);
        health.status.success().then(|| stdout(&health))
    });
    assert_eq!(health.await.trim(), "ok");
}

#[tokio::test]
async fn envtest_js_waits_with_a_client_certificate_and_signs_with_rsa() {
    let plane = Plane::new("envtest-js");
    let authority = Authority::new();
    let admin = authority.client("envtest-admin", "system:masters");
    authority
        .serving(&["localhost", "127.0.0.1"])
        .write(&plane.dir, "serving");
    fs::write(plane.dir.join("ca.crt"), authority.pem()).unwrap();
    let key = KeyPair::from_pem_and_sign_algo(RSA_PKCS8, &PKCS_RSA_SHA256).unwrap();
    fs::write(plane.dir.join("sa.pub"), key.public_key_pem()).unwrap();
    fs::write(plane.dir.join("sa.key"), RSA_PKCS8).unwrap();
    let port = free_port();
    let url = format!("https://127.0.0.1:{port}");
    let line = format!(
        "--advertise-address=127.0.0.1 --bind-address=127.0.0.1 --secure-port={port} --etcd-servers=http://127.0.0.1:1 \
         --cert-dir=DIR --tls-cert-file=DIR/serving.crt --tls-private-key-file=DIR/serving.key \
         --client-ca-file=DIR/ca.crt --service-account-issuer={url}/ --service-account-key-file=DIR/sa.pub \
         --service-account-signing-key-file=DIR/sa.key --authorization-mode=RBAC \
         --service-cluster-ip-range=10.0.0.0/24 --allow-privileged=true --disable-admission-plugins=ServiceAccount"
    );
    let dir = plane.dir.to_str().unwrap();
    let args: Vec<String> = line
        .split_whitespace()
        .map(|word| word.replace("DIR", dir))
        .collect();
    let mut server = plane.start("kube-apiserver", &args);
    let access = Access {
        authority: Some(authority.pem()),
        user: Some(&admin),
    };
    let admin = client(&url, access).await;
    server
        .wait_for("/readyz", async || get(&admin, "/readyz").await)
        .await;

    // A token of a service account is signed with the key and accepted.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let post = |path: &str, body: Value| {
        http::Request::post(path)
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap()
    };
    let account = post(accounts, json!({"metadata": {"name": "robot"}}));
    admin.request::<Value>(account).await.unwrap();
    let token = post(
        &format!("{accounts}/robot/token"),
        json!({"spec": {"expirationSeconds": 3600}}),
    );
    let token = admin.request::<Value>(token).await.unwrap();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.into());
    let robot = super::plane::connect(config);
    let review = create(&Api::<SelfSubjectReview>::all(robot), json!({})).await;
    let user = review.status.and_then(|status| status.user_info).unwrap();
    assert_eq!(
        user.username.as_deref(),
        Some("system:serviceaccount:default:robot")
    );
    assert!(server.stop(Signal::TERM).success());
}

#[tokio::test]
async fn dotnet_envtest_polls_discovery_and_checks_no_certificate() {
    let mut started = start("dotnet", &[]).await;
    for (program, flag, has_flag) in [
        ("etcd", "unsafe-no-fsync", true),
        ("kube-apiserver", "insecure-port", false),
    ] {
        let help = started.plane.output(program, &["--help"]);
        let text = stdout(&help) + &String::from_utf8(help.stderr).unwrap();
        let pattern = regex::Regex::new(&format!(r"(?m)^\s*--{flag}\b")).unwrap();
        assert_eq!(pattern.is_match(&text), has_flag, "{program} --help");
    }
    let access = Access {
        authority: None,
        user: Some(&started.user),
    };
    let unchecked = client(&started.url, access).await;
    assert_eq!(get(&unchecked, "/apis/example.com/v1").await, None);
    define_shops(&unchecked).await;
    let listed = started.server.wait_for("shops in discovery", async || {
        let resources = get(&unchecked, "/apis/example.com/v1").await?;
        resources.contains("\"shops\"").then_some(resources)
    });
    listed.await;
    for running in [started.server, started.etcd] {
        assert!(running.stop(Signal::TERM).success());
    }
}
