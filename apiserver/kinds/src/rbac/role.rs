//! Roles and ClusterRoles.

use crate::json::Value;
use crate::meta::validation::{NameRule, validate_label_selector};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items};
use crate::{MetadataCheck, Strategy};

/// A Role, or a ClusterRole if it is not namespaced.
#[derive(Debug)]
pub struct Role {
    /// Whether the kind is Role.
    pub namespaced: bool,
}

impl Strategy for Role {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validate(&self, role: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("rules");
        for (index, rule) in items(&role["rules"]).enumerate() {
            validate_rule(rule, self.namespaced, &path.index(index), &mut errors);
        }
        let aggregation = &role["aggregationRule"];
        if self.namespaced || aggregation.is_null() {
            return errors;
        }
        let path = FieldPath::new("aggregationRule.clusterRoleSelectors");
        let selectors = &aggregation["clusterRoleSelectors"];
        if is_empty(selectors) {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(&path, detail);
        }
        for (index, selector) in items(selectors).enumerate() {
            let path = path.index(index);
            validate_label_selector(selector, false, &path, &mut errors);
            if crate::meta::selector::LabelSelector::from_object(selector).is_err() {
                errors.invalid(&path, &Value::Null, "invalid label selector.");
            }
        }
        errors
    }
}

fn validate_rule(rule: &Value, namespaced: bool, path: &FieldPath, errors: &mut FieldErrors) {
    if is_empty(&rule["verbs"]) {
        let detail = "verbs must contain at least one value";
        errors.required(&path.child("verbs"), detail);
    }
    let urls = &rule["nonResourceURLs"];
    if !is_empty(urls) {
        let path = path.child("nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.invalid(&path, urls, detail);
        }
        let resources = ["apiGroups", "resources", "resourceNames"];
        if resources.iter().any(|field| !is_empty(&rule[*field])) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&path, urls, detail);
        }
        return;
    }
    if is_empty(&rule["apiGroups"]) {
        let detail = "resource rules must supply at least one api group";
        errors.required(&path.child("apiGroups"), detail);
    }
    if is_empty(&rule["resources"]) {
        let detail = "resource rules must supply at least one resource";
        errors.required(&path.child("resources"), detail);
    }
}
