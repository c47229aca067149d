//! The match of rules, selectors and namespaces to a write.

use super::{Admission, Invocation};
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::selector::LabelSelector;
use crate::registry::core::event;
use crate::request::Operation;
use crate::status::ApiError;
use crate::storage::ObjectKey;

impl Admission<'_> {
    /// The form in which a policy is shown the write, if `constraints` match; none match all.
    ///
    /// # Errors
    /// `NotFound` for a namespace whose labels would have to be known.
    pub(in crate::admission) fn constrained(
        &self,
        constraints: &Value,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Option<Invocation>, ApiError> {
        let own = || Invocation {
            resource: self.resource.gvr().clone(),
            kind: self.request_attributes.kind.clone(),
        };
        if !constraints.is_object() {
            return Ok(Some(own()));
        }
        let in_namespace = self.matches_namespace(constraints, object);
        if matches!(in_namespace, Ok(false)) || !matches_object(constraints, object, old) {
            return Ok(None);
        }
        let rule = |field: &str| self.rule(&constraints[field], &constraints["matchPolicy"]);
        let matching = match constraints["resourceRules"].as_array() {
            _ if rule("excludeResourceRules").is_some() => None,
            Some(rules) if !rules.is_empty() => rule("resourceRules"),
            _ => Some(own()),
        };
        if matching.is_some() {
            in_namespace?;
        }
        Ok(matching)
    }

    /// The form in which a rule matches the write: that of the request, or another of the same
    /// objects where the policy is `Equivalent`.
    pub(in crate::admission) fn rule(
        &self,
        rules: &Value,
        match_policy: &Value,
    ) -> Option<Invocation> {
        let gvr = self.resource.gvr();
        let rules = || rules.as_array().into_iter().flatten();
        if rules().any(|rule| self.rule_matches(rule, gvr)) {
            return Some(Invocation {
                resource: gvr.clone(),
                kind: self.request_attributes.kind.clone(),
            });
        }
        if match_policy == "Exact" {
            return None;
        }
        // All forms have the same plural.
        let rules = || rules().filter(|rule| covers(rule, &gvr.resource));
        rules().next()?;
        let equivalents = self.equivalents();
        rules().find_map(|rule| {
            let mut equivalents = equivalents.iter();
            let found = equivalents.find(|own| self.rule_matches(rule, &own.resource));
            found.cloned()
        })
    }

    /// The other forms of the objects of the resource.
    fn equivalents(&self) -> Vec<Invocation> {
        let own = self.resource.gvr();
        let is_event = |gvr: &GroupVersionResource| {
            gvr.resource == "events" && matches!(gvr.group.as_str(), "" | event::GROUP)
        };
        let is_same = |gvr: &GroupVersionResource| {
            (gvr.group == own.group && gvr.resource == own.resource)
                || (is_event(gvr) && is_event(own))
        };
        let catalog = self.state.definitions.catalog();
        let groups = match is_event(own) {
            true => vec!["", event::GROUP],
            false => vec![own.group.as_str()],
        };
        let resources = groups
            .into_iter()
            .filter_map(|group| catalog.group(group))
            .flat_map(|group| &group.versions)
            .flat_map(|version| &version.resources);
        resources
            .filter(|info| info.gvr() != own && is_same(info.gvr()))
            .filter_map(|info| {
                let kind = match self.request_attributes.subresource {
                    "" => info.gvk(),
                    subresource => &info.subresource(subresource)?.gvk,
                };
                Some(Invocation {
                    resource: info.gvr().clone(),
                    kind: kind.clone(),
                })
            })
            .collect()
    }

    fn rule_matches(&self, rule: &Value, gvr: &GroupVersionResource) -> bool {
        let has =
            |field: &str, wanted: &str| names(rule, field).any(|own| own == "*" || own == wanted);
        // Only policies can name objects.
        let is_named = match names(rule, "resourceNames").next() {
            None => true,
            Some(_) => names(rule, "resourceNames").any(|own| own == self.name),
        };
        self.scope_matches(rule, gvr)
            && is_named
            && has("operations", self.operation.as_str())
            && has("apiGroups", &gvr.group)
            && has("apiVersions", &gvr.version)
            && resources(rule).any(|(resource, subresource)| {
                (resource == "*" || resource == gvr.resource)
                    && (subresource == "*" || subresource == self.request_attributes.subresource)
            })
    }

    /// A namespace itself is in no namespace, although its requests have one.
    fn scope_matches(&self, rule: &Value, gvr: &GroupVersionResource) -> bool {
        let is_namespace =
            gvr.group.is_empty() && gvr.version == "v1" && gvr.resource == "namespaces";
        let is_namespaced = !is_namespace && !self.namespace.is_empty();
        match rule["scope"].as_str() {
            None | Some("*") => true,
            Some("Namespaced") => is_namespaced,
            Some("Cluster") => !is_namespaced,
            Some(_) => false,
        }
    }

    pub(in crate::admission) fn matches_namespace(
        &self,
        entry: &Value,
        object: Option<&Value>,
    ) -> Result<bool, ApiError> {
        let gvr = self.resource.gvr();
        if self.namespace.is_empty() && gvr.resource != "namespaces" {
            return Ok(true);
        }
        let selector = selector(&entry["namespaceSelector"]);
        if selector.is_everything() {
            return Ok(true);
        }
        let writes_itself = gvr.resource == "namespaces"
            && self.request_attributes.subresource.is_empty()
            && self.operation != Operation::Delete;
        if let Some(object) = object.filter(|_| writes_itself) {
            return Ok(selector.matches(&object["metadata"]["labels"]));
        }
        let namespaces = self.state.catalog.resource("", "v1", "namespaces");
        let namespaces = namespaces.expect("namespaces are built in").gvr();
        let key = ObjectKey::new(None, &self.namespace);
        let found = self.state.storage.table(namespaces).get(&key);
        let found = found.ok_or_else(|| ApiError::NotFound {
            resource: namespaces.group_resource(),
            name: self.namespace.clone(),
        })?;
        Ok(selector.matches(&found.value()["metadata"]["labels"]))
    }
}

fn names<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let names = rule[field].as_array().into_iter().flatten();
    names.filter_map(Value::as_str)
}

/// The resources and subresources that a rule names.
fn resources(rule: &Value) -> impl Iterator<Item = (&str, &str)> {
    names(rule, "resources").map(|own| own.split_once('/').unwrap_or((own, "")))
}

fn covers(rule: &Value, plural: &str) -> bool {
    resources(rule).any(|(resource, _)| resource == "*" || resource == plural)
}

/// An object matches as it was or as it will be.
pub(in crate::admission) fn matches_object(
    entry: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> bool {
    let selector = selector(&entry["objectSelector"]);
    let matches = |object: &Value| selector.matches(&object["metadata"]["labels"]);
    selector.is_everything() || object.is_some_and(matches) || old.is_some_and(matches)
}

fn selector(selector: &Value) -> LabelSelector {
    let parsed = LabelSelector::from_object(selector);
    parsed.unwrap_or_else(|_| LabelSelector::nothing())
}
