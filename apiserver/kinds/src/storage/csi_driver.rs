//! CSIDrivers.

use std::collections::BTreeSet;

use crate::columns::{Printable, or_none};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, meta_mut};
use crate::meta::validation::validate_immutable;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::one_of;
use crate::{Context, Strategy};

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_UPDATE_SECONDS: i64 = 10;

#[derive(Debug)]
pub(crate) struct CsiDriver;

impl Strategy for CsiDriver {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn default(&self, driver: &mut Value) {
        let spec = child_mut(driver, "spec");
        default(spec, "attachRequired", true);
        for field in [
            "podInfoOnMount",
            "requiresRepublish",
            "seLinuxMount",
            "storageCapacity",
        ] {
            default(spec, field, false);
        }
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        let modes = spec.get("volumeLifecycleModes");
        if modes.is_none_or(is_empty) {
            spec.insert("volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn prepare_for_create(&self, driver: &mut Value, _context: Context<'_>) {
        drop_disabled(driver);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = &new["spec"];
        let stays = old.is_some_and(|old| old["spec"]["tokenRequests"] == spec["tokenRequests"]);
        if stays
            || is_empty(&spec["tokenRequests"])
            || !spec["serviceAccountTokenInSecrets"].is_null()
        {
            return Vec::new();
        }
        let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
        vec![warning.to_owned()]
    }

    /// Changes are counted, and creation is not.
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        drop_disabled(new);
        if new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta_mut(new).insert("generation", generation.into());
        }
    }

    fn validate(&self, driver: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_spec(&driver["spec"], &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_spec(&new["spec"], &mut errors);
        let path = FieldPath::new("spec");
        // The second name of a pair is the one upstream gives.
        for (field, shown) in [
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ] {
            let value = |driver: &Value| driver["spec"][field].clone();
            validate_immutable(&value(new), &value(old), &path.child(shown), &mut errors);
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let attach_required = view
            .get("/spec/attachRequired")
            .is_none_or(|value| *value == true);
        let token_requests = view.get("/spec/tokenRequests");
        let token_requests =
            token_requests.map(|_| view.joined("/spec/tokenRequests", "/audience"));
        Some(vec![
            view.name(),
            json!(attach_required),
            json!(view.bool("/spec/podInfoOnMount")),
            json!(view.bool("/spec/storageCapacity")),
            json!(token_requests.unwrap_or_else(|| "<unset>".to_owned())),
            json!(view.bool("/spec/requiresRepublish")),
            json!(or_none(view.strs("/spec/volumeLifecycleModes").join(","))),
            view.age(),
        ])
    }
}

/// Drops the field of a disabled feature gate. Its manager owns it nevertheless.
fn drop_disabled(driver: &mut Value) {
    child_mut(driver, "spec").remove("preventPodSchedulingIfMissing");
}

fn validate_spec(spec: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    let policy = path.child("fsGroupPolicy");
    one_of(&spec["fsGroupPolicy"], &policy, &policies, errors);
    let mut audiences = BTreeSet::new();
    for (index, request) in items(&spec["tokenRequests"]).enumerate() {
        let path = path.child("tokenRequests").index(index);
        if !audiences.insert(text(&request["audience"])) {
            errors.duplicate(&path.child("audience"), &request["audience"]);
            continue;
        }
        let seconds = &request["expirationSeconds"];
        if seconds.as_i64().is_some_and(|own| own < MIN_TOKEN_SECONDS) {
            let detail = "may not specify a duration less than 10 minutes";
            errors.invalid(&path.child("expirationSeconds"), seconds, detail);
        }
        if seconds.as_i64().is_some_and(|own| own > MAX_TOKEN_SECONDS) {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&path.child("expirationSeconds"), seconds, detail);
        }
    }
    let modes = path.child("volumeLifecycleModes");
    for mode in items(&spec["volumeLifecycleModes"]) {
        one_of(mode, &modes, &["Persistent", "Ephemeral"], errors);
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|own| own < MIN_UPDATE_SECONDS) {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&path, period, "must be greater than or equal to 10 seconds");
    }
    let secret = &spec["serviceAccountTokenInSecrets"];
    if !secret.is_null() && is_empty(&spec["tokenRequests"]) {
        let path = path.child("serviceAccountTokenInSecrets");
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&path, secret, detail);
    }
}
