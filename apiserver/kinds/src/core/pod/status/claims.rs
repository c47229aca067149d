//! Validation of the resource claims in a pod's status.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::invalid_each;

const MESSAGE_BYTES_MAX: usize = 1024;
const STATES: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];

/// Faults of which claims were made for the pod.
pub(super) fn validate_statuses(
    status: &Value,
    spec: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let at = path.child("resourceClaimStatuses");
    let mut names = BTreeSet::new();
    let claims = items(&spec["resourceClaims"]).map(|claim| text(&claim["name"]));
    let claims: BTreeSet<&str> = claims.collect();
    for (index, own) in items(&status["resourceClaimStatuses"]).enumerate() {
        let path = at.index(index);
        let name = &own["name"];
        if !claims.contains(text(name)) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.child("name"), name, detail);
        }
        if !names.insert(text(name)) {
            errors.duplicate(&path.child("name"), name);
        }
        let claim = &own["resourceClaimName"];
        if !claim.is_null() {
            let path = path.child("resourceClaimName");
            invalid_each(dns1123_subdomain(text(claim)), claim, &path, errors);
        }
    }
    let extended = &status["extendedResourceClaimStatus"];
    if extended.is_object() {
        let path = path.child("extendedResourceClaimStatus");
        validate_extended(extended, spec, &path, errors);
    }
}

/// Faults of the claim made for resources that containers request by name.
fn validate_extended(status: &Value, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mappings = path.child("requestMappings");
    if is_empty(&status["requestMappings"]) {
        errors.required(&mappings, "at least one request mapping is required");
    }
    let lists = ["containers", "initContainers"];
    let all = lists.iter().flat_map(|list| items(&spec[*list]));
    let containers = by_name(all);
    let mut seen = BTreeSet::new();
    for (index, own) in items(&status["requestMappings"]).enumerate() {
        let at = mappings.index(index);
        let resource = text(&own["resourceName"]);
        match containers.get(text(&own["containerName"])) {
            Some(container) if container["resources"]["requests"].get(resource).is_some() => {}
            Some(_) => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or \
                              spec.containers.resources.requests";
                errors.invalid(&at.child("resourceName"), &own["resourceName"], detail);
            }
            None => {
                let detail = "must match the name of an entry in spec.initContainers.name or \
                              spec.containers.name";
                errors.invalid(&at.child("containerName"), &own["containerName"], detail);
            }
        }
        // Upstream's path leaves out which mapping it is.
        let request = text(&own["requestName"]);
        invalid_each(
            dns1123_label(request),
            &request.into(),
            &path.child("requestName"),
            errors,
        );
        let fields = ["containerName", "resourceName", "requestName"];
        if !seen.insert(fields.map(|field| text(&own[field]))) {
            for field in fields {
                errors.duplicate(&at.child(field), &own[field]);
            }
        }
    }
    let (claim, at) = (
        &status["resourceClaimName"],
        path.child("resourceClaimName"),
    );
    match text(claim) {
        "" => errors.required(&at, ""),
        name => invalid_each(dns1123_subdomain(name), claim, &at, errors),
    }
}

/// Faults of the health of allocated resources; `list` names the containers' list in the spec.
pub(super) fn validate_health(
    statuses: &Value,
    containers: &Value,
    list: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let containers = by_name(items(containers));
    for (index, status) in items(statuses).enumerate() {
        let path = path.index(index).child("allocatedResourcesStatus");
        let allocated = &status["allocatedResourcesStatus"];
        if list.is_empty() {
            if !is_empty(allocated) {
                errors.forbidden(&path, "must not be specified in container status");
            }
            continue;
        }
        let container = containers.get(text(&status["name"])).copied();
        let claims = container.filter(|_| !is_empty(allocated)).map(claimed);
        for (index, own) in items(allocated).enumerate() {
            let path = path.index(index);
            if let (Some(container), Some(claims)) = (container, &claims) {
                let path = path.child("name");
                validate_known(&own["name"], container, claims, &path, errors);
            }
            validate_devices(&own["resources"], &path.child("resources"), errors);
        }
    }
}

/// Containers by name; of those with the same name the first.
fn by_name<'v>(containers: impl Iterator<Item = &'v Value>) -> BTreeMap<&'v str, &'v Value> {
    let mut named = BTreeMap::new();
    for container in containers {
        named.entry(text(&container["name"])).or_insert(container);
    }
    named
}

/// The claims of a container, `name` or `name/request`.
fn claimed(container: &Value) -> BTreeSet<String> {
    let claims = items(&container["resources"]["claims"]);
    claims
        .map(
            |claim| match (text(&claim["name"]), text(&claim["request"])) {
                (name, "") => name.to_owned(),
                (name, request) => format!("{name}/{request}"),
            },
        )
        .collect()
}

fn validate_known(
    name: &Value,
    container: &Value,
    claims: &BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let resources = &container["resources"];
    let (known, detail) = match text(name).strip_prefix("claim:") {
        Some(own) => {
            let detail = "must match one of the container's resource claims in a format \
                          'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (claims.contains(own), detail)
        }
        None => {
            let detail = "must match one of the container's resource requests";
            (resources["requests"].get(text(name)).is_some(), detail)
        }
    };
    if !known {
        errors.invalid(path, name, detail);
    }
}

fn validate_devices(devices: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, own) in items(devices).enumerate() {
        let path = path.index(index);
        let health = text(&own["health"]);
        if !STATES.contains(&health) {
            errors.not_supported(&path.child("health"), &health.into(), &STATES);
        }
        if let Some(message) = own["message"].as_str() {
            let path = path.child("message");
            if message.is_empty() {
                errors.required(&path, "must be non-empty if specified");
            } else if message.len() > MESSAGE_BYTES_MAX {
                errors.too_long(&path, MESSAGE_BYTES_MAX);
            }
        }
        let id = text(&own["resourceID"]);
        if !seen.insert(id) {
            errors.duplicate(&path.child("resourceID"), &id.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn faults(of: impl Fn(&FieldPath, &mut FieldErrors)) -> Vec<String> {
        let mut errors = FieldErrors::new();
        of(&FieldPath::new("status"), &mut errors);
        let causes = errors.causes().iter();
        causes.map(|cause| cause.field.clone()).collect()
    }

    #[test]
    fn claims_are_those_of_the_spec() {
        let spec = json!({"resourceClaims": [{"name": "a"}], "containers": [
            {"name": "c", "resources": {"requests": {"e.io/gpu": "1"}}},
        ]});
        let claimed = |statuses: Value| json!({ "resourceClaimStatuses": statuses });
        let mapped = |container: &str, resource: &str| {
            json!({"extendedResourceClaimStatus": {"resourceClaimName": "n", "requestMappings": [
                {"containerName": container, "resourceName": resource, "requestName": "r"},
            ]}})
        };
        let at = "status.extendedResourceClaimStatus.requestMappings[0]";
        let table = [
            (claimed(json!([{"name": "a"}])), vec![]),
            (
                claimed(json!([{"name": "a"}, {"name": "a"}, {"name": "b"}])),
                vec![
                    "status.resourceClaimStatuses[1].name".to_owned(),
                    "status.resourceClaimStatuses[2].name".to_owned(),
                ],
            ),
            (mapped("c", "e.io/gpu"), vec![]),
            (mapped("c", "cpu"), vec![format!("{at}.resourceName")]),
            (mapped("d", "cpu"), vec![format!("{at}.containerName")]),
        ];
        for (status, want) in table {
            let found = faults(|path, errors| validate_statuses(&status, &spec, path, errors));
            assert_eq!(found, want, "{status}");
        }
    }

    #[test]
    fn health_is_reported_for_what_is_claimed() {
        let containers = json!([{"name": "c", "resources": {"claims": [
            {"name": "a", "request": "r"},
        ]}}]);
        let statuses = |name: &str, health: &str| {
            json!([{"name": "c", "allocatedResourcesStatus": [
                {"name": name, "resources": [{"resourceID": "1", "health": health}]},
            ]}])
        };
        let own = "status[0].allocatedResourcesStatus";
        let table = [
            (statuses("claim:a/r", "Healthy"), "containers", vec![]),
            (
                statuses("claim:a", "Odd"),
                "containers",
                vec![
                    format!("{own}[0].name"),
                    format!("{own}[0].resources[0].health"),
                ],
            ),
            (statuses("claim:a/r", "Healthy"), "", vec![own.to_owned()]),
        ];
        for (statuses, list, want) in table {
            let found = faults(|path, errors| {
                validate_health(&statuses, &containers, list, path, errors);
            });
            assert_eq!(found, want, "{statuses}");
        }
    }
}
