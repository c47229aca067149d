//! What this test program does as a controller.

use std::time::{Duration, Instant};

use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use kubeproof_apiserver::{Clock, ServingCertificate, serve_requests};
use serde_json::json;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Longer than the pause after which a run goes on.
const PONDERING: Duration = Duration::from_secs(5);

/// The time until a failed request is sent again.
const RETRY: Duration = Duration::from_millis(200);

/// A client as a pod has it, with the mounted files in another place.
pub(super) fn in_cluster() -> Client {
    let variable = |name: &str| std::env::var(name).unwrap();
    let mounted = std::path::PathBuf::from(variable("KUBEPROOF_SERVICE_ACCOUNT"));
    let read = |name: &str| std::fs::read_to_string(mounted.join(name)).unwrap();
    let (host, port) = (
        variable("KUBERNETES_SERVICE_HOST"),
        variable("KUBERNETES_SERVICE_PORT"),
    );
    let mut config = Config::new(format!("https://{host}:{port}").parse().unwrap());
    let authority = CertificateDer::from_pem_slice(read("ca.crt").as_bytes()).unwrap();
    config.root_cert = Some(vec![authority.to_vec()]);
    config.default_namespace = read("namespace");
    config.auth_info = AuthInfo {
        token: Some(read("token").into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).unwrap()
}

/// Renews a lease, and a record of a leader as there were before leases.
pub(super) async fn renew(client: &Client) {
    let params = PatchParams::apply("elector").force();
    let now = format!("{:?}", Instant::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "copier"}, "spec": {"holderIdentity": now},
    });
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases
        .patch("copier", &params, &Patch::Apply(lease))
        .await
        .unwrap();
    let lock = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "copier", "annotations": {"control-plane.alpha.kubernetes.io/leader": now}},
    });
    let locks: Api<ConfigMap> = Api::default_namespaced(client.clone());
    locks
        .patch("copier", &params, &Patch::Apply(lock))
        .await
        .unwrap();
}

/// Keeps a StatefulSet whose image is that of the version, and notes the version elsewhere.
pub(super) async fn keep_set(client: &Client, role: &str) {
    let version = role.trim_start_matches("version-");
    let params = PatchParams::apply("keeper").force();
    let containers = json!([{"name": "web", "image": format!("nginx:1.{version}")}]);
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
        },
    });
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    sets.patch("web", &params, &Patch::Apply(set))
        .await
        .unwrap();
    let note = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"},
        "data": {"version": version},
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.patch("note", &params, &Patch::Apply(note))
        .await
        .unwrap();
    if version == "26" {
        let forbidden = json!({"metadata": {"labels": {"no label": "so"}}});
        let merge = PatchParams::default();
        // The server refuses it.
        let _ = maps.patch("note", &merge, &Patch::Merge(forbidden)).await;
    }
}

/// Serves a webhook that refuses objects named `bad`.
pub(super) async fn refuse_bad() -> impl Future<Output = ()> {
    let variable = |name: &str| std::env::var(name).unwrap();
    let certs = std::path::PathBuf::from(variable("KUBEPROOF_WEBHOOK_CERTS"));
    let read = |name: &str| std::fs::read(certs.join(name)).unwrap();
    let certificate = ServingCertificate::read(&read("tls.crt"), &read("tls.key")).unwrap();
    let port = variable("KUBEPROOF_WEBHOOK_PORT").parse().unwrap();
    let address = (std::net::Ipv4Addr::LOCALHOST, port);
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    async move {
        let answer = |request: http::Request<hyper::body::Incoming>| async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let asked = &review["request"];
            let answer = json!({
                "apiVersion": review["apiVersion"],
                "kind": "AdmissionReview",
                "response": {"uid": asked["uid"], "allowed": asked["name"] != "bad"},
            });
            http::Response::new(Full::new(bytes::Bytes::from(answer.to_string())))
        };
        let acceptor = Some(certificate.acceptor());
        let served = serve_requests(listener, acceptor, std::future::pending(), answer);
        served.await.unwrap();
    }
}

/// How copies are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    AtOnce,
    /// After [`PONDERING`], in which the program computes.
    Pondered,
    /// With the day on which they are made.
    Dated,
}

/// Copies each ConfigMap that asks for it when it is there.
pub(super) async fn copy_watched(api: &Api<ConfigMap>, how: Copying) {
    let wanted = watcher::Config::default().labels("copy=yes");
    let watched = watcher(api.clone(), wanted)
        .default_backoff()
        .applied_objects();
    let mut watched = std::pin::pin!(watched);
    while let Some(original) = watched.next().await {
        let Ok(original) = original else {
            continue;
        };
        let began = Instant::now();
        while how == Copying::Pondered && began.elapsed() < PONDERING {
            std::hint::spin_loop();
        }
        let mut copy = ConfigMap::default();
        copy.metadata.name = Some(format!("{}-copy", original.name_any()));
        copy.data.clone_from(&original.data);
        if how == Copying::Dated {
            let day = Clock::real().now().strftime("%F").to_string();
            copy.data
                .get_or_insert_default()
                .insert("day".to_owned(), day);
        }
        loop {
            match api.create(&PostParams::default(), &copy).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
        // Deletes what may be left of an earlier version, as many operators do; usually nothing is.
        let left = format!("{}-old", original.name_any());
        let _ = api.delete(&left, &DeleteParams::default()).await;
    }
}

/// Copies each ConfigMap that asks for it and then notes the copy; with `notes_first` it notes first, which is a bug.
pub(super) async fn copy_all(api: &Api<ConfigMap>, notes_first: bool) -> Result<(), kube::Error> {
    let wanted = ListParams::default().labels("copy=yes");
    for original in api.list(&wanted).await? {
        if original.annotations().contains_key("copied") {
            continue;
        }
        if notes_first {
            note(api, &original).await?;
        }
        let mut copy = ConfigMap::default();
        copy.metadata.name = Some(format!("{}-copy", original.name_any()));
        copy.data.clone_from(&original.data);
        match api.create(&PostParams::default(), &copy).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        if !notes_first {
            note(api, &original).await?;
        }
    }
    Ok(())
}

async fn note(api: &Api<ConfigMap>, original: &ConfigMap) -> Result<(), kube::Error> {
    let note = Patch::Merge(json!({"metadata": {"annotations": {"copied": "true"}}}));
    let (name, params) = (original.name_any(), PatchParams::default());
    api.patch(&name, &params, &note).await.map(drop)
}
