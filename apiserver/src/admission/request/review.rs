//! The write as AdmissionRequest describes it.

use super::{Admission, Invocation};
use crate::json::{Map, Value, json};
use crate::meta::{GroupVersionKind, GroupVersionResource};
use crate::request::Operation;

const OPTIONS_VERSION: &str = "meta.k8s.io/v1";

impl Admission<'_> {
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
        options.insert("kind", kind.into());
        options.insert("apiVersion", OPTIONS_VERSION.into());
        if body.is_none() {
            let dry_run: Vec<&str> = query.all("dryRun").collect();
            if !dry_run.is_empty() {
                options.insert("dryRun", dry_run.into());
            }
            if let (Operation::Delete, Ok(Some(seconds))) =
                (self.operation, query.integer("gracePeriodSeconds"))
            {
                options.insert("gracePeriodSeconds", seconds.into());
            }
            if self.operation == Operation::Delete && query.get("orphanDependents").is_some() {
                let orphan = query.flag("orphanDependents");
                options.insert("orphanDependents", orphan.into());
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
