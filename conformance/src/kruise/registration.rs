//! Registers webhooks that listen elsewhere with an API server, and withdraws them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use kubeproof_machinery::json::json;

use super::definitions::{MUTATING, Place, VALIDATING};

/// The field manager of applied objects.
const MANAGER: &str = "kubeproof-webhooks";
/// The definitions whose objects the webhooks convert.
const DEFINITIONS: [&str; 2] = ["clonesets.apps.kruise.io", "statefulsets.apps.kruise.io"];

/// Registers the webhooks at `base`, a URL without a path, with the server of `client`; `authority_pem` has signed
/// their certificate. OpenKruise's definitions have to be there.
///
/// # Errors
/// The error of the server; earlier changes stay.
pub async fn register(client: &Client, base: &str, authority_pem: &str) -> kube::Result<()> {
    let place = Place::Url {
        base: base.to_owned(),
        authority: STANDARD.encode(authority_pem),
    };
    // First of all, so that nothing is asked for where the definitions are not there.
    convert_by(client, &json!({ "conversion": place.conversion() })).await?;
    let params = PatchParams::apply(MANAGER).force();
    for configuration in place.configurations() {
        let text = |field: &str| configuration[field].as_str().unwrap_or_default();
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", text("kind"));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let name = configuration["metadata"]["name"].as_str();
        let applied = Patch::Apply(&configuration);
        api.patch(name.unwrap_or_default(), &params, &applied)
            .await?;
    }
    Ok(())
}

/// Undoes [`register`]: objects are neither checked nor converted any more.
///
/// # Errors
/// The error of the server, except for objects that are already gone.
pub async fn withdraw(client: &Client) -> kube::Result<()> {
    let params = DeleteParams::default();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let gone = [
        mutating.delete(MUTATING, &params).await.map(drop),
        validating.delete(VALIDATING, &params).await.map(drop),
        convert_by(
            client,
            &json!({ "conversion": { "strategy": "None", "webhook": null } }),
        )
        .await,
    ];
    for outcome in gone {
        match outcome {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

async fn convert_by(client: &Client, spec: &kubeproof_machinery::json::Value) -> kube::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "spec": spec }));
    for name in DEFINITIONS {
        definitions
            .patch(name, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}
