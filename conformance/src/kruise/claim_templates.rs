//! Validates changes of claim templates whose claims follow them: only the size may change, and only where the
//! storage class allows expansion.
//!
//! Source: openkruise/kruise pkg/webhook/statefulset/validating (`ValidateVolumeClaimTemplateUpdate`).

use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::status::{FieldErrors, FieldPath};
use kubeproof_machinery::json::Value;

use super::Refusal;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Checks the change from `old` to `new`; storage classes are looked up through `client`.
pub(super) async fn check(new: &Value, old: &Value, client: &Client) -> Result<(), Refusal> {
    if new["spec"]["volumeClaimUpdateStrategy"]["type"] != "OnPodRollingUpdate" {
        return Ok(());
    }
    let templates = |object: &Value| -> Vec<Value> {
        let list = object["spec"]["volumeClaimTemplates"].as_array();
        list.cloned().unwrap_or_default()
    };
    let mut errors = FieldErrors::new();
    let (new, old) = (templates(new), templates(old));
    if new.len() != old.len() {
        let detail = "volumeClaimTemplate can not be added or deleted when OnRollingUpdate";
        let at = FieldPath::new("spec.volumeClaimTemplates");
        errors.invalid(&at, &Value::from(new), detail);
        return Refusal::of(&errors);
    }
    for template in &new {
        let name = template["metadata"]["name"].as_str().unwrap_or_default();
        let at = FieldPath::new(&format!("spec.volumeClaimTemplates[{name}]"));
        let same_name = |old: &&Value| old["metadata"]["name"] == template["metadata"]["name"];
        let Some(old) = old.iter().find(same_name) else {
            let detail = "volumeClaimTemplate name can not be modified";
            errors.forbidden(&at.child("name"), detail);
            break;
        };
        let size = |template: &Value| template["spec"]["resources"].clone();
        if differs_beside_size(old, template) {
            let detail = "volumeClaimTemplate can not be modified when OnRollingUpdate";
            errors.invalid(&at, template, detail);
            break;
        }
        if size(old) != size(template)
            && let Some((at, fault)) = class_fault(template, &at, client).await
        {
            match fault {
                Fault::Unknown(class) => errors.invalid(&at, &class.into(), "can not get sc"),
                Fault::Rigid(detail) => errors.forbidden(&at, &detail),
            }
            break;
        }
    }
    Refusal::of(&errors)
}

/// Whether class or modes differ; a class that only one of them names does not count.
fn differs_beside_size(old: &Value, new: &Value) -> bool {
    let class = |template: &Value| template["spec"]["storageClassName"].clone();
    let (before, after) = (class(old), class(new));
    let is_other_class = !before.is_null() && !after.is_null() && before != after;
    is_other_class || old["spec"]["accessModes"] != new["spec"]["accessModes"]
}

/// Why a class does not let volumes grow.
enum Fault {
    Unknown(String),
    Rigid(String),
}

async fn class_fault(
    template: &Value,
    at: &FieldPath,
    client: &Client,
) -> Option<(FieldPath, Fault)> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    let at = at.child("spec");
    let class = match template["spec"]["storageClassName"].as_str() {
        Some(name) => match classes.get(name).await {
            Ok(class) => class,
            Err(_) => {
                let fault = Fault::Unknown(name.to_owned());
                return Some((at.child("storageClassName"), fault));
            }
        },
        None => default_class(&classes).await?,
    };
    // A class that says nothing is left to the controller.
    if class.allow_volume_expansion != Some(false) {
        return None;
    }
    let name = class.name_any();
    let fault = Fault::Rigid(format!(
        "storage class {name} does not support volume expansion"
    ));
    let at = at.child("resources").child("requests").child("storage");
    Some((at, fault))
}

/// The newest of the default classes.
async fn default_class(classes: &Api<StorageClass>) -> Option<StorageClass> {
    let listed = classes.list(&ListParams::default()).await.ok()?.items;
    let is_default = |class: &StorageClass| {
        let annotation = class.annotations().get(DEFAULT_CLASS);
        annotation.is_some_and(|value| value == "true")
    };
    let defaults = listed.into_iter().filter(is_default);
    defaults.max_by_key(|class| class.creation_timestamp().map(|time| time.0))
}
