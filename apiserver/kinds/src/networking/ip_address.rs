//! IPAddresses: which address is whose.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::validation::{FIELD_IMMUTABLE, NameRule, dns1123_subdomain, path_segment_name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::{invalid_as, invalid_each};
use crate::{MetadataCheck, Strategy};

#[derive(Debug)]
pub(crate) struct IpAddress;

impl Strategy for IpAddress {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::IpAddress
    }

    fn validate(&self, address: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec.parentRef");
        let parent = &address["spec"]["parentRef"];
        if !parent.is_object() {
            errors.required(&path, "");
            return errors;
        }
        let group = &parent["group"];
        if !text(group).is_empty() {
            let faults = dns1123_subdomain(text(group));
            invalid_each(faults, group, &path.child("group"), &mut errors);
        }
        for (field, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
            let (own, path) = (&parent[field], path.child(field));
            if !text(own).is_empty() {
                invalid_each(path_segment_name(text(own)), own, &path, &mut errors);
            } else if is_required {
                errors.required(&path, "");
            }
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let path = FieldPath::new("spec.parentRef");
        let [now, before] = [new, old].map(|address| &address["spec"]["parentRef"]);
        if now != before {
            let shown = match now.is_null() {
                true => "null".to_owned(),
                false => {
                    let text = |field: &str| Value::from(text(&now[field]));
                    format!(
                        "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
                        text("group"),
                        text("resource"),
                        text("namespace"),
                        text("name")
                    )
                }
            };
            invalid_as(&path, &shown, FIELD_IMMUTABLE, &mut errors);
        }
        errors
    }

    /// A cell more than there are columns: upstream's age, which has no column, and which kubectl drops.
    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let of = |parent: Printable<'_>| {
            let resource = match parent.str("/group") {
                "" => parent.str("/resource").to_owned(),
                group => format!("{}.{group}", parent.str("/resource")),
            };
            let namespace = match parent.str("/namespace") {
                "" => String::new(),
                namespace => format!("/{namespace}"),
            };
            format!(
                "{}{namespace}/{}",
                resource.to_lowercase(),
                parent.str("/name")
            )
        };
        let parent = view.at("/spec/parentRef");
        let parent = parent.map_or_else(|| "<none>".to_owned(), of);
        Some(vec![view.name(), json!(parent), view.age()])
    }
}
