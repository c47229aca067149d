//! Signs approved requests to the signers of Kubernetes.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::requests::Requests;
use super::{Authority, CertificateOrder, FAILED, certificate, conditions, is_approved, rules};

/// The controller's name: its user agent.
pub const NAME: &str = "certificate-signer";
/// The validity of certificates, unless a shorter one is requested.
const DURATION_MAX: SignedDuration = SignedDuration::from_hours(365 * 24);
const DURATION_MIN: SignedDuration = SignedDuration::from_mins(10);

struct Controller(Requests);

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, authority: Authority) {
    let controller = Controller(Requests::new(ctx.for_component(NAME), authority));
    controller.0.run(&controller).await;
}

/// The validity of a certificate for a request of `seconds`.
fn duration(seconds: Option<i32>) -> SignedDuration {
    let asked = seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
    asked.map_or(DURATION_MAX, |asked| {
        asked.clamp(DURATION_MIN, DURATION_MAX)
    })
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(request) = self.0.requests.get("", &key.name) else {
            return Ok(None);
        };
        let has_failed =
            conditions(&request).any(|own| own.type_ == FAILED && own.status == "True");
        if certificate(&request).is_some() || !is_approved(&request) || has_failed {
            return Ok(None);
        }
        let usages = request.spec.usages.as_deref().unwrap_or_default();
        let asked = (self.0.authority.read)(&request.spec.request.0);
        let asked = asked.map_err(|error| {
            Error::Refused(format!("unable to parse csr {:?}: {error}", key.name))
        })?;
        let Some(checked) = rules::check(&request.spec.signer_name, &asked, usages) else {
            return Ok(None);
        };
        let mut next = (*request).clone();
        let status = next.status.get_or_insert_default();
        match checked {
            Err(message) => {
                let conditions = status.conditions.get_or_insert_default();
                conditions.push(CertificateSigningRequestCondition {
                    type_: FAILED.to_owned(),
                    status: "True".to_owned(),
                    reason: Some("SignerValidationFailure".to_owned()),
                    message: Some(message),
                    last_update_time: Some(Time((self.0.ctx.now)())),
                    ..CertificateSigningRequestCondition::default()
                });
            }
            Ok(()) => {
                let order = CertificateOrder {
                    request: &request.spec.request.0,
                    usages,
                    duration: duration(request.spec.expiration_seconds),
                };
                let signed = (self.0.authority.sign)(order);
                let signed = signed
                    .map_err(|error| Error::Refused(format!("error auto signing csr: {error}")))?;
                status.certificate = Some(ByteString(signed.into_bytes()));
            }
        }
        let api: Api<CertificateSigningRequest> = Api::all(self.0.ctx.client.clone());
        api.replace_status(&key.name, &PostParams::default(), &next)
            .await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_limits() {
        assert_eq!(duration(None), DURATION_MAX);
        assert_eq!(duration(Some(1)), DURATION_MIN);
        assert_eq!(duration(Some(3600)), SignedDuration::from_hours(1));
        assert_eq!(duration(Some(i32::MAX)), DURATION_MAX);
    }
}
