//! Deletes certificate signing requests that were decided, or left waiting, long ago.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::clock::later;
use kubeproof_runtime::context::Context;

use super::{APPROVED, Authority, DENIED, FAILED, certificate, conditions};

/// The controller's name: its user agent.
pub const NAME: &str = "csr-cleaner-controller";
/// The period of the cleanup.
const INTERVAL: Duration = Duration::from_hours(1);
/// The retention of requests that are issued, denied or failed, ...
const DONE: SignedDuration = SignedDuration::from_hours(1);
/// ... and those that wait for a decision or a signature.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, authority: Authority) {
    let ctx = ctx.for_component(NAME);
    let api: Api<CertificateSigningRequest> = Api::all(ctx.client.clone());
    loop {
        match api.list(&ListParams::default()).await {
            Err(error) => tracing::warn!(%error, "certificate signing requests not listed"),
            Ok(requests) => {
                for request in requests {
                    if is_due(&request, (ctx.now)(), authority.expiry) {
                        let name = request.name_any();
                        if let Err(error) = api.delete(&name, &DeleteParams::default()).await {
                            tracing::warn!(name, %error, "request not deleted");
                        }
                    }
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn is_due(
    request: &CertificateSigningRequest,
    now: Timestamp,
    expiry: fn(&[u8]) -> Option<Timestamp>,
) -> bool {
    let is_old = |time: Option<Timestamp>, limit| time.is_some_and(|time| later(time, limit) < now);
    if conditions(request).next().is_none() {
        let created = request.creation_timestamp().map(|time| time.0);
        return is_old(created, PENDING);
    }
    let certificate = certificate(request);
    let is_expired = certificate
        .and_then(expiry)
        .is_some_and(|expires| now > expires);
    conditions(request).any(|condition| {
        let since = condition.last_update_time.as_ref().map(|time| time.0);
        match condition.type_.as_str() {
            APPROVED if certificate.is_some() => is_expired || is_old(since, DONE),
            APPROVED => is_old(since, PENDING),
            DENIED | FAILED => is_old(since, DONE),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_are_kept_for_as_long_as_somebody_may_ask_for_them() {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        let ago = |hours: i64| {
            let time = later(now, -SignedDuration::from_hours(hours));
            later(time, -SignedDuration::from_secs(1)).to_string()
        };
        let due = |created: i64, conditions: Value, certificate: Value| {
            let request = json!({
                "metadata": { "creationTimestamp": ago(created) },
                "spec": { "request": "", "signerName": "a/b" },
                "status": { "conditions": conditions, "certificate": certificate },
            });
            let request: CertificateSigningRequest = from_value(request).unwrap();
            let expiry = |pem: &[u8]| {
                let ended = pem == b"old";
                ended.then_some(Timestamp::UNIX_EPOCH)
            };
            is_due(&request, now, expiry)
        };
        let since = |type_: &str, hours: i64| json!([{ "type": type_, "status": "True", "lastUpdateTime": ago(hours) }]);
        for (created, conditions, certificate, expected) in [
            (23, json!([]), Value::Null, false),
            (24, json!([]), Value::Null, true),
            (99, since(APPROVED, 0), json!("bmV3"), false),
            (99, since(APPROVED, 1), json!("bmV3"), true),
            (99, since(APPROVED, 0), json!("b2xk"), true),
            (99, since(APPROVED, 23), Value::Null, false),
            (99, since(APPROVED, 24), Value::Null, true),
            (99, since(DENIED, 0), Value::Null, false),
            (99, since(DENIED, 1), Value::Null, true),
            (99, since(FAILED, 1), Value::Null, true),
        ] {
            let case = format!("{created} {conditions} {certificate}");
            assert_eq!(due(created, conditions, certificate), expected, "{case}");
        }
    }
}
