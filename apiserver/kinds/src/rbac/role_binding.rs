//! RoleBindings and ClusterRoleBindings.

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::validation::{NameRule, dns1123_subdomain, path_segment_name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, items, items_mut, object_in, text};
use crate::validation::{invalid_as, invalid_each, required};
use crate::{MetadataCheck, Strategy};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A RoleBinding, or a ClusterRoleBinding if it is not namespaced.
#[derive(Debug)]
pub(crate) struct RoleBinding {
    pub namespaced: bool,
}

impl Strategy for RoleBinding {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, binding: &mut Value) {
        let Some(fields) = binding.as_object_mut() else {
            return;
        };
        default_text(object_in(fields, "roleRef"), "apiGroup", GROUP);
        for subject in items_mut(fields, "subjects") {
            if matches!(
                subject.get("kind").and_then(Value::as_str),
                Some("User" | "Group")
            ) {
                default_text(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, binding: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("roleRef");
        let role = &binding["roleRef"];
        if role["apiGroup"] != GROUP {
            errors.not_supported(&path.child("apiGroup"), &role["apiGroup"], &[GROUP]);
        }
        let kinds: &[&str] = if self.namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        if !kinds.contains(&text(&role["kind"])) {
            errors.not_supported(&path.child("kind"), &role["kind"], kinds);
        }
        let path = path.child("name");
        let name = text(&role["name"]);
        required(&role["name"], &path, &mut errors);
        if !name.is_empty() {
            invalid_each(path_segment_name(name), &name.into(), &path, &mut errors);
        }
        let path = FieldPath::new("subjects");
        for (index, subject) in items(&binding["subjects"]).enumerate() {
            self.validate_subject(subject, &path.index(index), &mut errors);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let role = &new["roleRef"];
        if *role != old["roleRef"] {
            // Upstream prints its internal type here.
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                role["apiGroup"], role["kind"], role["name"]
            );
            let path = FieldPath::new("roleRef");
            invalid_as(&path, &shown, "cannot change roleRef", &mut errors);
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let subjects = |kind: &str| {
            let of_kind = view
                .items("/subjects")
                .filter(|subject| subject.str("/kind") == kind);
            let name = |subject: Printable<'_>| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", subject.str("/namespace"), subject.str("/name"))
                }
                _ => subject.str("/name").to_owned(),
            };
            json!(of_kind.map(name).collect::<Vec<_>>().join(", "))
        };
        Some(vec![
            view.name(),
            json!(format!(
                "{}/{}",
                view.str("/roleRef/kind"),
                view.str("/roleRef/name")
            )),
            view.age(),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ])
    }
}

impl RoleBinding {
    fn validate_subject(&self, subject: &Value, path: &FieldPath, errors: &mut FieldErrors) {
        let name = text(&subject["name"]);
        required(&subject["name"], &path.child("name"), errors);
        let group = text(&subject["apiGroup"]);
        match text(&subject["kind"]) {
            "ServiceAccount" => {
                if !name.is_empty() {
                    let path = path.child("name");
                    invalid_each(dns1123_subdomain(name), &name.into(), &path, errors);
                }
                if !group.is_empty() {
                    errors.not_supported(&path.child("apiGroup"), &group.into(), &[""]);
                }
                if !self.namespaced || subject["namespace"] == "" {
                    required(&subject["namespace"], &path.child("namespace"), errors);
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.not_supported(&path.child("apiGroup"), &group.into(), &[GROUP]);
                }
            }
            kind => {
                let kinds = ["ServiceAccount", "User", "Group"];
                errors.not_supported(&path.child("kind"), &kind.into(), &kinds);
            }
        }
    }
}
