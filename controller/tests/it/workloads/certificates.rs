//! Certificate signing requests: approval, signing and cleanup.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::PostParams;
use kubeproof_apiserver::certificate_authority;
use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::support::Cluster;

/// A request of `system:node:node-1` in `system:nodes`.
const NODE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHuMIGWAgEAMDQxFTATBgNVBAoMDHN5c3RlbTpub2RlczEbMBkGA1UEAwwSc3lz
dGVtOm5vZGU6bm9kZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHJHpWhWN
+95MWuJTLOA87y8uax/Yhet3vbK+fUNNZoy+7VRp1yY+rmh5v4kIRFlK2DNeCbV3
SHRFiadoK5V5AKAAMAoGCCqGSM49BAMCA0cAMEQCIHb04SSZ0A0Y0jUPrmOFRbiq
EQpL2fVA92KKg7a6qXQKAiBlFD+WQTBGCFkiSxFhzLTRkgNmpeiag5C8eGWuIPmb
yQ==
-----END CERTIFICATE REQUEST-----
";
/// A request of `jane` in `one` and `two`.
const JANE: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIHnMIGNAgEAMCsxDDAKBgNVBAoMA29uZTEMMAoGA1UECgwDdHdvMQ0wCwYDVQQD
DARqYW5lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHJHpWhWN+95MWuJTLOA8
7y8uax/Yhet3vbK+fUNNZoy+7VRp1yY+rmh5v4kIRFlK2DNeCbV3SHRFiadoK5V5
AKAAMAoGCCqGSM49BAMCA0kAMEYCIQDBuA+bpn82TzV5d5UAcSQOIOwKBzu8KegN
jzPlr8h2JwIhAKvantb0qYIcS7l7b7X7mumTneZeueuYfPbff3OgYlim
-----END CERTIFICATE REQUEST-----
";
const CONTROLLERS: &[&str] = &["csrapproving", "csrcleaner", "csrsigning"];

struct Requests(Api<CertificateSigningRequest>);

impl Requests {
    async fn create(&self, name: &str, pem: &str, signer: &str, usages: &[&str]) {
        let pem = k8s_openapi::ByteString(pem.as_bytes().to_vec());
        let spec = json!({
            "request": pem, "signerName": format!("kubernetes.io/{signer}"), "usages": usages,
            "expirationSeconds": 3600,
        });
        let request = json!({ "metadata": { "name": name }, "spec": spec });
        let request = from_value(request).unwrap();
        self.0
            .create(&PostParams::default(), &request)
            .await
            .unwrap();
    }

    async fn approve(&self, name: &str) {
        let mut request = serde_json::to_value(self.0.get(name).await.unwrap()).unwrap();
        request["status"] = json!({ "conditions": [
            { "type": "Approved", "status": "True", "reason": "Seen", "message": "by me" },
        ] });
        let request: CertificateSigningRequest = from_value(request).unwrap();
        let params = PostParams::default();
        let approved = self
            .0
            .replace_subresource("approval", name, &params, &request);
        approved.await.unwrap();
    }

    /// Returns the reasons and messages of the conditions, and the certificate.
    async fn status(&self, name: &str) -> (Value, Option<String>) {
        let status = self.0.get(name).await.unwrap().status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let listed: Vec<Value> = conditions
            .iter()
            .map(|own| json!([own.type_, own.reason, own.message]))
            .collect();
        let certificate = status
            .certificate
            .map(|own| String::from_utf8(own.0).unwrap());
        (json!(listed), certificate)
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_of_kubelets_are_approved_and_all_that_are_approved_signed() {
    let cluster = Cluster::start(CONTROLLERS);
    let requests = Requests(Api::all(cluster.client()));
    let client = ["digital signature", "client auth"];
    let kubelet = "kube-apiserver-client-kubelet";
    requests.create("node", NODE, kubelet, &client).await;
    requests
        .create("jane", JANE, "kube-apiserver-client", &client)
        .await;
    let serving = ["digital signature", "server auth"];
    requests
        .create("serving", JANE, "kubelet-serving", &serving)
        .await;
    cluster.settle().await;
    let (conditions, certificate) = requests.status("node").await;
    let message = "Auto approving kubelet client certificate after SubjectAccessReview.";
    assert_eq!(conditions, json!([["Approved", "AutoApproved", message]]));
    let pem = certificate.unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    assert_eq!(requests.status("jane").await, (json!([]), None));

    requests.approve("jane").await;
    requests.approve("serving").await;
    cluster.settle().await;
    let (_, certificate) = requests.status("jane").await;
    let expiry = certificate_authority::expiry(certificate.unwrap().as_bytes()).unwrap();
    let left = expiry.as_second() - 1_767_225_600;
    assert!(
        (3600..4200).contains(&left),
        "an hour, as it was asked for: {left}"
    );
    let (conditions, certificate) = requests.status("serving").await;
    assert_eq!(certificate, None);
    assert_eq!(
        conditions[1],
        json!([
            "Failed",
            "SignerValidationFailure",
            "subject organization is not system:nodes"
        ])
    );

    tokio::time::sleep(Duration::from_hours(3)).await;
    let left = requests
        .0
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    assert_eq!(left.items.len(), 0, "{:?}", left.items);
    cluster.stop().await;
}
