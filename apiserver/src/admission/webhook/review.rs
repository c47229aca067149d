//! AdmissionReview: the question.

use serde_json::{Map, Value, json};

use super::matching::Invocation;
use super::{Admission, GROUP_OF_REVIEWS};
use crate::meta::{GroupVersionKind, GroupVersionResource};
use crate::request::Operation;

const OPTIONS_VERSION: &str = "meta.k8s.io/v1";

impl Admission<'_> {
    /// The review that is posted to a webhook.
    pub(super) fn review(
        &self,
        uid: &str,
        version: &str,
        invocation: &Invocation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Value {
        let mut review = self.request(uid, invocation);
        review["apiVersion"] = format!("{GROUP_OF_REVIEWS}/{version}").into();
        review["request"]["object"] = self.in_form(object, invocation);
        review["request"]["oldObject"] = self.in_form(old, invocation);
        review
    }

    /// The review but for its version and the objects.
    pub(in crate::admission) fn request(&self, uid: &str, invocation: &Invocation) -> Value {
        let mut request = json!({
            "uid": uid,
            "kind": kind(&invocation.kind),
            "resource": resource(&invocation.resource),
            "requestKind": kind(self.request_attributes.kind),
            "requestResource": resource(self.resource.gvr()),
            "operation": self.operation.as_str(),
            "userInfo": self.request_attributes.user.to_user_info(),
            "dryRun": self.dry_run,
            "options": self.options(),
        });
        let subresource = self.request_attributes.subresource;
        for (field, text) in [
            ("subResource", subresource),
            ("requestSubResource", subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                request[field] = text.into();
            }
        }
        json!({ "kind": "AdmissionReview", "request": request })
    }

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

    /// The options of the request.
    fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => return Value::Null,
        };
        let query = self.request_attributes.query;
        let body = self
            .request_attributes
            .delete_options
            .and_then(Value::as_object);
        let mut options = match body {
            Some(body) => body.clone(),
            None => Map::new(),
        };
        options.insert("kind".to_owned(), kind.into());
        options.insert("apiVersion".to_owned(), OPTIONS_VERSION.into());
        if body.is_none() {
            let dry_run: Vec<&str> = query.all("dryRun").collect();
            if !dry_run.is_empty() {
                options.insert("dryRun".to_owned(), dry_run.into());
            }
            if let (Operation::Delete, Ok(Some(seconds))) =
                (self.operation, query.integer("gracePeriodSeconds"))
            {
                options.insert("gracePeriodSeconds".to_owned(), seconds.into());
            }
            if self.operation == Operation::Delete && query.get("orphanDependents").is_some() {
                let orphan = query.flag("orphanDependents");
                options.insert("orphanDependents".to_owned(), orphan.into());
            }
            let texts = match self.operation {
                Operation::Delete => ["propagationPolicy", ""],
                _ => ["fieldManager", "fieldValidation"],
            };
            for field in texts {
                if let Some(text) = query.get(field).filter(|text| !text.is_empty()) {
                    options.insert(field.to_owned(), text.into());
                }
            }
        }
        Value::Object(options)
    }
}

fn kind(gvk: &GroupVersionKind) -> Value {
    json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind })
}

fn resource(gvr: &GroupVersionResource) -> Value {
    json!({ "group": gvr.group, "version": gvr.version, "resource": gvr.resource })
}
