//! Faults of a container's environment, resources and probes.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::volumes::validate_no_backsteps;
use crate::core::resource_names::{
    is_overcommit_allowed, validate_amount, validate_name_in_container,
};
use crate::json::Value;
use crate::meta::validation::{config_map_key, dns1123_label, dns1123_subdomain, qualified_name};
use crate::net::{PORT_RANGE, port_name_faults};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::{invalid_each, not_negative};

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Further fields of a pod that upstream's conversion of field labels accepts, but environment
/// variables do not.
const CONVERTED_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const SEVERAL: &str = "may not have more than one field specified at a time";

fn validate_env_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !name.bytes().all(printable) {
        errors.invalid(path, &name.into(), ENV_NAME);
    }
}

/// Faults of the list `env`.
pub(crate) fn validate_env(env: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, variable) in items(env).enumerate() {
        let path = path.index(index);
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            validate_env_name(name, &path.child("name"), errors);
        }
        if !variable["valueFrom"].is_null() {
            validate_value_from(variable, &path.child("valueFrom"), errors);
        }
    }
}

fn validate_value_from(variable: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let from = &variable["valueFrom"];
    let mut sources = 0;
    if let Some(field) = from.get("fieldRef") {
        sources += 1;
        let path = path.child("fieldRef");
        validate_field_ref(field, &ENV_FIELDS, &path, errors);
    }
    if let Some(field) = from.get("resourceFieldRef") {
        sources += 1;
        validate_resource_field(field, &path.child("resourceFieldRef"), errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = from.get(field) else {
            continue;
        };
        sources += 1;
        let path = path.child(field);
        let name = text(&reference["name"]);
        let faults = dns1123_subdomain(name);
        invalid_each(faults, &name.into(), &path.child("name"), errors);
        let key = text(&reference["key"]);
        if key.is_empty() {
            errors.required(&path.child("key"), "");
        } else {
            let faults = config_map_key(key);
            invalid_each(faults, &key.into(), &path.child("key"), errors);
        }
    }
    if let Some(reference) = from.get("fileKeyRef") {
        sources += 1;
        validate_file_key(reference, &path.child("fileKeyRef"), errors);
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(&variable["value"]).is_empty() => {
            "may not be specified when `value` is not empty"
        }
        1 => return,
        _ => SEVERAL,
    };
    errors.invalid(path, &"".into(), detail);
}

/// A variable in a file of a volume.
fn validate_file_key(reference: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (key, at) = (text(&reference["key"]), path.child("key"));
    match key.is_empty() {
        true => errors.required(&at, ""),
        false => validate_env_name(key, &at, errors),
    }
    let (volume, at) = (text(&reference["volumeName"]), path.child("volumeName"));
    match volume.is_empty() {
        true => errors.required(&at, ""),
        false => invalid_each(dns1123_label(volume), &volume.into(), &at, errors),
    }
    let (file, at) = (&reference["path"], path.child("path"));
    match text(file).is_empty() {
        true => errors.required(&at, ""),
        false => validate_no_backsteps(file, &at, errors),
    }
}

/// A reference to a field of the pod, which must be among `supported`.
pub(crate) fn validate_field_ref(
    reference: &Value,
    supported: &[&str],
    own_path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if text(&reference["apiVersion"]).is_empty() {
        errors.required(&own_path.child("apiVersion"), "");
        return;
    }
    let field = text(&reference["fieldPath"]);
    let path = own_path.child("fieldPath");
    if field.is_empty() {
        errors.required(&path, "");
        return;
    }
    let version = text(&reference["apiVersion"]);
    let unconverted = |why: &str| format!("error converting fieldPath: {why}");
    if version != "v1" {
        let why = unconverted(&format!("unsupported pod version: {version}"));
        return errors.invalid(&path, &field.into(), &why);
    }
    let subscript = field
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"));
    match subscript {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            invalid_each(qualified_name(&key), &key.into(), own_path, errors);
        }
        Some(("metadata.labels", key)) => {
            invalid_each(qualified_name(key), &key.into(), own_path, errors);
        }
        Some(_) => {
            let why = unconverted(&format!("field label does not support subscript: {field}"));
            errors.invalid(&path, &field.into(), &why);
        }
        None if !CONVERTED_FIELDS.contains(&field) && !ENV_FIELDS.contains(&field) => {
            let why = unconverted(&format!("field label not supported: {field}"));
            errors.invalid(&path, &field.into(), &why);
        }
        None => {
            // An old name of it.
            let field = if field == "spec.host" {
                "spec.nodeName"
            } else {
                field
            };
            if !supported.contains(&field) {
                errors.not_supported(&path, &field.into(), supported);
            }
        }
    }
}

/// A reference to an amount of a container.
pub(crate) fn validate_resource_field(
    reference: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let resource = text(&reference["resource"]);
    let huge =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !huge && !RESOURCE_FIELDS.contains(&resource) {
        let path = path.child("resource");
        errors.not_supported(&path, &resource.into(), &RESOURCE_FIELDS);
    }
    let divisor = text(&reference["divisor"]);
    if matches!(divisor, "" | "0" | "1") {
        return;
    }
    const UNITS: [&str; 12] = [
        "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let what = match resource {
        "limits.cpu" | "requests.cpu" => {
            if divisor != "1m" {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(&path.child("divisor"), &resource.into(), detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    if !UNITS.contains(&divisor) {
        let units = UNITS.join(", ");
        let detail =
            format!("only divisor's values 1, {units} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), &resource.into(), &detail);
    }
}

/// Faults of the list `envFrom`.
pub(crate) fn validate_env_from(sources: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, source) in items(sources).enumerate() {
        let item = path.index(index);
        let prefix = text(&source["prefix"]);
        validate_env_name(prefix, &item.child("prefix"), errors);
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.get(field) {
                count += 1;
                let name = text(&reference["name"]);
                let path = item.child(field).child("name");
                if name.is_empty() {
                    errors.required(&path, "");
                    continue;
                }
                // The name may be the beginning of one.
                let faults = dns1123_subdomain(&without_trailing_dash(name));
                invalid_each(faults, &name.into(), &path, errors);
            }
        }
        // Upstream leaves the index out here.
        match count {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.invalid(path, &"".into(), detail);
            }
            1 => {}
            _ => errors.invalid(path, &"".into(), SEVERAL),
        }
    }
}

/// Replaces a dash at the end of a name by a letter.
fn without_trailing_dash(name: &str) -> Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(start) if !start.is_empty() => Cow::Owned(format!("{start}a")),
        _ => Cow::Borrowed(name),
    }
}

/// Faults of `resources`: names and amounts, and requests beyond their limits.
pub(crate) fn validate_resources(resources: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_amounts(resources, path, errors, validate_name_in_container);
}

/// Faults of `resources` like [`validate_resources`], where `validate_name` decides on the names.
pub(crate) fn validate_amounts(
    resources: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
    validate_name: impl Fn(&str, &FieldPath, &mut FieldErrors),
) {
    let limits = &resources["limits"];
    let requests = &resources["requests"];
    let mut compute = false;
    let mut huge = false;
    for (half, amounts) in [("limits", limits), ("requests", requests)] {
        let half_path = path.child(half);
        for (name, amount) in entries(amounts) {
            compute |= matches!(name.as_str(), "cpu" | "memory");
            huge |= name.starts_with("hugepages-");
            let item = half_path.key(name);
            validate_name(name, &item, errors);
            validate_amount(name, amount, &item, errors);
            if half == "requests" {
                validate_request(name, amount, limits, path, errors);
            }
            validate_huge_pages(name, amount, &item, errors);
        }
    }
    if huge && !compute {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Huge pages come whole.
fn validate_huge_pages(name: &str, amount: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(Ok(page)) = name.strip_prefix("hugepages-").map(Quantity::parse) else {
        return;
    };
    let own = Quantity::parse(text(amount))
        .ok()
        .and_then(|own| own.to_i64());
    let whole = match (own, page.to_i64()) {
        (Some(own), Some(page)) if page > 0 => own % page == 0,
        _ => false,
    };
    if !whole {
        let own = text(amount);
        let detail = format!("{own} is not positive integer multiple of {name}");
        errors.invalid(path, amount, &detail);
    }
}

fn validate_request(
    name: &str,
    amount: &Value,
    limits: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let limit = &limits[name];
    let overcommits = is_overcommit_allowed(name);
    if limit.is_null() {
        if !overcommits {
            let detail = "Limit must be set for non overcommitable resources";
            errors.required(&path.child("limits"), detail);
        }
        return;
    }
    let (Ok(own), Ok(most)) = (Quantity::parse(text(amount)), Quantity::parse(text(limit))) else {
        return;
    };
    let relation = match own.compare(&most) {
        Ordering::Equal => return,
        Ordering::Less if overcommits => return,
        _ if overcommits => "less than or equal",
        _ => "equal",
    };
    let detail = format!("must be {relation} to {name} limit of {}", text(limit));
    errors.invalid(&path.child("requests"), amount, &detail);
}

/// Faults of the three probes and the two hooks.
pub(crate) fn validate_probes(
    container: &Value,
    grace: Option<i64>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if !handler.is_null() {
            let path = path.child("lifecycle").child(hook);
            validate_handler(handler, grace, &path, errors);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if probe.is_null() {
            continue;
        }
        let path = path.child(field);
        validate_handler(probe, grace, &path, errors);
        let numbers = [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        not_negative(probe, &numbers, &path, errors);
        let grace = &probe["terminationGracePeriodSeconds"];
        let grace_path = path.child("terminationGracePeriodSeconds");
        if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
            errors.invalid(&grace_path, grace, "must be greater than 0");
        }
        if field == "readinessProbe" {
            if !grace.is_null() {
                errors.invalid(&grace_path, grace, "must not be set for readinessProbes");
            }
        } else if probe["successThreshold"] != 1 {
            let path = path.child("successThreshold");
            errors.invalid(&path, &probe["successThreshold"], "must be 1");
        }
    }
}

fn validate_handler(
    handler: &Value,
    grace: Option<i64>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut handlers = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get(kind) else {
            continue;
        };
        let path = path.child(kind);
        handlers += 1;
        if handlers > 1 {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        match kind {
            "exec" if is_empty(&action["command"]) => errors.required(&path.child("command"), ""),
            "httpGet" => {
                if text(&action["path"]).is_empty() {
                    errors.required(&path.child("path"), "");
                }
                validate_port(&action["port"], &path.child("port"), errors);
                let schemes = ["HTTP", "HTTPS"];
                let scheme = &action["scheme"];
                crate::validation::one_of(scheme, &path.child("scheme"), &schemes, errors);
                for header in items(&action["httpHeaders"]) {
                    validate_header(&header["name"], &path.child("httpHeaders"), errors);
                }
            }
            "sleep" => {
                let seconds = action["seconds"].as_i64().unwrap_or(0);
                if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    );
                    errors.invalid(&path, &seconds.into(), &detail);
                }
            }
            "tcpSocket" | "grpc" => validate_port(&action["port"], &path.child("port"), errors),
            _ => {}
        }
    }
    if handlers == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_header(name: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text(name).is_empty() || !text(name).bytes().all(allowed) {
        let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
        errors.invalid(path, name, detail);
    }
}

fn validate_port(port: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(name) = port.as_str() {
        for fault in port_name_faults(name) {
            errors.invalid(path, port, fault);
        }
    } else if !(1..=65535).contains(&port.as_i64().unwrap_or(0)) {
        errors.invalid(path, port, PORT_RANGE);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn requests_stay_within_limits() {
        let table = [
            (
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "900m"}}),
                0,
            ),
            (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), 1),
            (json!({"requests": {"example.com/x": "1"}}), 1),
            (json!({"requests": {"foo": "1"}}), 2),
        ];
        for (resources, want) in table {
            let mut errors = FieldErrors::new();
            validate_resources(&resources, &FieldPath::new("r"), &mut errors);
            assert_eq!(errors.causes().len(), want, "{resources}");
        }
    }
}
