//! A write as admission webhooks and policies see it.

mod matching;
mod review;

use parking_lot::Mutex;

use crate::admission::State;
use crate::auth::RequestAttributes;
use crate::json::Value;
use crate::meta::{GroupVersionKind, GroupVersionResource};
use crate::nesting;
use crate::registry::Strategy;
use crate::registry::catalog::ResourceInfo;
use crate::request::Operation;
use crate::schema::{self, FieldValidation};
use crate::status::ApiError;
pub(super) use matching::matches_object;

/// The group of the configurations of webhooks and policies.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// A write that webhooks and policies may change or refuse.
pub(crate) struct Admission<'a> {
    pub(crate) state: &'a State,
    pub(crate) resource: &'a ResourceInfo,
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) request_attributes: RequestAttributes<'a>,
    pub(crate) operation: Operation,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) dry_run: bool,
    pub(crate) warnings: Option<&'a Mutex<Vec<String>>>,
}

/// In which form a webhook or policy is shown a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Invocation {
    pub(in crate::admission) resource: GroupVersionResource,
    pub(in crate::admission) kind: GroupVersionKind,
}

impl Admission<'_> {
    /// An object in the version that the webhook is shown.
    pub(in crate::admission) fn in_form(
        &self,
        object: Option<&Value>,
        invocation: &Invocation,
    ) -> Value {
        let Some(object) = object else {
            return Value::Null;
        };
        let gvr = &invocation.resource;
        // A subresource of its own kind looks the same below all versions of the resource.
        if gvr == self.resource.gvr() || self.request_attributes.kind == &invocation.kind {
            return object.clone();
        }
        let catalog = self.state.definitions.catalog();
        let form = catalog.resource(&gvr.group, &gvr.version, &gvr.resource);
        let stored = self.resource.stored(object.clone());
        form.map_or_else(|| stored.clone(), |form| form.shown(&stored).into_owned())
    }

    /// The object after the webhook, converted from the reviewed version to that of the request.
    pub(in crate::admission) fn out_of_form(&self, shown: Value, invocation: &Invocation) -> Value {
        let gvr = &invocation.resource;
        if gvr == self.resource.gvr() || self.request_attributes.kind == &invocation.kind {
            return shown;
        }
        let catalog = self.state.definitions.catalog();
        let form = catalog.resource(&gvr.group, &gvr.version, &gvr.resource);
        let stored = form.map_or_else(|| shown.clone(), |form| form.stored(shown.clone()));
        self.resource.shown(&stored).into_owned()
    }

    /// The patched object, decoded as `kind`.
    pub(in crate::admission) fn decoded(
        &self,
        patched: &str,
        kind: &GroupVersionKind,
    ) -> Result<Value, ApiError> {
        let refuse = |why: String| ApiError::Internal(why);
        if self.operation == Operation::Connect {
            return nesting::from_slice(patched.as_bytes())
                .map_err(|error| refuse(error.to_string()));
        }
        let custom = self.resource.custom.as_deref();
        if let (Some(custom), None) = (custom, schema::builtin(kind)) {
            let mut value: Value = nesting::from_slice(patched.as_bytes())
                .map_err(|error| refuse(error.to_string()))?;
            let schema = custom.versions.schema(&kind.version).structural();
            schema.prune(&mut value);
            schema.prune_nulls(&mut value);
            schema.fill_defaults(&mut value);
            return Ok(value);
        }
        let schema = schema::builtin(kind)
            .ok_or_else(|| refuse(format!("no kind {:?} is registered", kind.kind)))?;
        let decoded = schema::decode_json(schema, patched.as_bytes(), FieldValidation::Ignore);
        let mut value = decoded.map_err(|error| refuse(error.to_string()))?.value;
        value["kind"] = kind.kind.as_str().into();
        value["apiVersion"] = kind.api_version().into();
        Ok(value)
    }
}
