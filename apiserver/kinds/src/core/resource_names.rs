//! Names of countable and limited resources: CPU, memory, objects, devices.

use crate::meta::validation::qualified_name;
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::{NOT_NEGATIVE, invalid_each};

use crate::json::Value;

const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
/// Resources that containers request.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Further resources that quotas count.
const OF_QUOTAS: [&str; 7] = [
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Resources counted in whole numbers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether a quota knows the resource without asking for a domain.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    OF_CONTAINERS.contains(&name)
        || OF_QUOTAS.contains(&name)
        || COUNTED.contains(&name)
        || name
            .strip_prefix(REQUESTS)
            .unwrap_or(name)
            .starts_with(HUGE_PAGES)
}

/// Whether Kubernetes knows the resource without a domain.
pub(crate) fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_for_quota(name)
}

/// Whether Kubernetes itself has given the name.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the resource is a device or the like, with a domain of its own.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether pods may be promised more of it than there is.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Whether one can have a part of it.
fn is_whole(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// A resource is named by Kubernetes or has a domain.
pub(crate) fn validate_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let faults = qualified_name(name);
    if faults.is_empty() && !name.contains('/') && !is_standard(name) {
        let detail = "must be a standard resource type or fully qualified";
        errors.invalid(path, &name.into(), detail);
    }
    invalid_each(faults, &name.into(), path, errors);
}

/// Validates a resource that a container requests.
pub(crate) fn validate_name_in_container(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    validate_name(name, path, errors);
    let standard = OF_CONTAINERS.contains(&name) || name.starts_with(HUGE_PAGES);
    if !name.contains('/') && !standard {
        let detail = "must be a standard resource for containers";
        errors.invalid(path, &name.into(), detail);
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.invalid(path, &name.into(), detail);
    }
}

/// A resource that a quota may count.
pub(crate) fn validate_name_in_quota(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    validate_name(name, path, errors);
    if !name.contains('/') && !is_standard_for_quota(name) {
        let detail = "must be a standard resource for quota";
        errors.invalid(path, &name.into(), detail);
    }
}

/// Validates an amount of `resource`: not negative, and whole for countable resources.
pub(crate) fn validate_amount(
    resource: &str,
    amount: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Ok(own) = Quantity::parse(text(amount)) else {
        return;
    };
    if own.is_negative() {
        errors.invalid(path, amount, NOT_NEGATIVE);
    }
    if is_whole(resource) && !own.is_whole() {
        errors.invalid(path, amount, "must be an integer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(of: fn(&str, &FieldPath, &mut FieldErrors), name: &str) -> Vec<String> {
        let mut errors = FieldErrors::new();
        of(name, &FieldPath::new("a"), &mut errors);
        let shown = |own: &str| {
            own.split_once(": ")
                .and_then(|own| own.1.split_once(": "))
                .map(|own| own.1.to_owned())
        };
        let causes = errors.causes().iter();
        causes.filter_map(|own| shown(&own.message)).collect()
    }

    #[test]
    fn names_are_kubernetes_own_or_have_a_domain() {
        const STANDARD: &str = "must be a standard resource type or fully qualified";
        for (name, want) in [
            ("cpu", vec![]),
            ("hugepages-2Mi", vec![]),
            ("a.io/gpu", vec![]),
            ("pods", vec!["must be a standard resource for containers"]),
            (
                "gpu",
                vec![STANDARD, "must be a standard resource for containers"],
            ),
            (
                "requests.a.io/gpu",
                vec!["doesn't follow extended resource name standard"],
            ),
            ("kubernetes.io/gpu", vec![]),
        ] {
            assert_eq!(faults(validate_name_in_container, name), want, "{name}");
        }
        for (name, want) in [
            ("requests.storage", vec![]),
            ("requests.hugepages-2Mi", vec![]),
            ("count/jobs.batch", vec![]),
            ("storage", vec!["must be a standard resource for quota"]),
            (
                "limits.storage",
                vec![STANDARD, "must be a standard resource for quota"],
            ),
            (
                "a/b/c",
                vec![
                    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                ],
            ),
        ] {
            assert_eq!(faults(validate_name_in_quota, name), want, "{name}");
        }
    }

    #[test]
    fn objects_and_devices_are_whole() {
        for (name, amount, want) in [
            ("pods", "1500m", 1),
            ("count/jobs.batch", "100m", 1),
            ("a.io/gpu", "1", 0),
            ("a.io/gpu", "500m", 1),
            ("requests.a.io/gpu", "500m", 0),
            ("cpu", "500m", 0),
            ("cpu", "-1", 1),
            ("pods", "-500m", 2),
        ] {
            let mut errors = FieldErrors::new();
            validate_amount(name, &amount.into(), &FieldPath::new("a"), &mut errors);
            assert_eq!(errors.causes().len(), want, "{amount} of {name}");
        }
    }
}
