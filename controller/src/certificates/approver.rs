//! Approves kubelets' requests for client certificates if the requesting user is authorized.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use kube::Api;
use kube::api::PostParams;
use kubeproof_runtime::context::Context;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::worker::Reconcile;

use super::requests::Requests;
use super::{APPROVED, Authority, DENIED, RequestedCertificate, certificate, has_condition, rules};

/// The controller's name: its user agent.
pub const NAME: &str = "certificate-controller";

struct Controller(Requests);

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, authority: Authority) {
    let controller = Controller(Requests::new(ctx.for_component(NAME), authority));
    controller.0.run(&controller).await;
}

/// The permissions by which a request of a kubelet may be approved, each with the message then.
fn permissions(
    request: &CertificateSigningRequest,
    asked: &RequestedCertificate,
) -> Vec<(&'static str, &'static str)> {
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let is_meant = request.spec.signer_name == rules::KUBELET_CLIENT;
    if !is_meant || rules::check_kubelet_client(asked, usages).is_err() {
        return Vec::new();
    }
    let mut permissions = Vec::new();
    if request.spec.username.as_deref().unwrap_or_default() == asked.common_name {
        permissions.push((
            "selfnodeclient",
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ));
    }
    permissions.push((
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    ));
    permissions
}

impl Controller {
    async fn may(
        &self,
        request: &CertificateSigningRequest,
        subresource: &str,
    ) -> Result<bool, Error> {
        let text = |text: &str| Some(text.to_owned());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: request.spec.username.clone(),
                uid: request.spec.uid.clone(),
                groups: request.spec.groups.clone(),
                extra: request.spec.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    group: text("certificates.k8s.io"),
                    resource: text("certificatesigningrequests"),
                    subresource: text(subresource),
                    verb: text("create"),
                    version: text("*"),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.0.ctx.client.clone());
        let reviewed = api.create(&PostParams::default(), &review).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(request) = self.0.requests.get("", &key.name) else {
            return Ok(None);
        };
        let is_decided = has_condition(&request, APPROVED) || has_condition(&request, DENIED);
        if is_decided || certificate(&request).is_some() {
            return Ok(None);
        }
        let asked = (self.0.authority.read)(&request.spec.request.0);
        let asked = asked.map_err(|error| {
            Error::Refused(format!("unable to parse csr {:?}: {error}", key.name))
        })?;
        let permissions = permissions(&request, &asked);
        for (subresource, message) in &permissions {
            if !self.may(&request, subresource).await? {
                continue;
            }
            let mut approved = (*request).clone();
            let status = approved.status.get_or_insert_default();
            let conditions = status.conditions.get_or_insert_default();
            conditions.push(CertificateSigningRequestCondition {
                type_: APPROVED.to_owned(),
                status: "True".to_owned(),
                reason: Some("AutoApproved".to_owned()),
                message: Some((*message).to_owned()),
                ..CertificateSigningRequestCondition::default()
            });
            let api: Api<CertificateSigningRequest> = Api::all(self.0.ctx.client.clone());
            api.replace_subresource("approval", &key.name, &PostParams::default(), &approved)
                .await?;
            return Ok(None);
        }
        if permissions.is_empty() {
            return Ok(None);
        }
        let tried: Vec<&str> = permissions.iter().map(|(own, _)| *own).collect();
        // Tried again later: the permission may come.
        Err(Error::Refused(format!(
            "recognized csr {:?} as [{}] but subject access review was not approved",
            key.name,
            tried.join(" ")
        )))
    }
}
