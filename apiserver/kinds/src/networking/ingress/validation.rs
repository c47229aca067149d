//! Validation of Ingresses.

use super::CLASS;
use crate::json::Value;
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, path_segment_name, wildcard_subdomain,
};
use crate::net::{PORT_RANGE, parse_ip, port_name_faults, validate_ip};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::invalid_each;

const NO_ADDRESS: &str = "must be a DNS name, not an IP address";
const SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const SUFFIXES: [&str; 2] = ["/..", "/."];

/// Faults that an update may keep because the replaced object already has them.
#[derive(Clone, Copy, Debug, Default)]
struct Tolerated {
    secret_names: bool,
    wildcard_rules: bool,
}

pub(super) fn validate_new(ingress: &Value) -> FieldErrors {
    let mut errors = validate(ingress, Tolerated::default());
    let annotation = &ingress["metadata"]["annotations"][CLASS];
    let class = &ingress["spec"]["ingressClassName"];
    if !annotation.is_null() && !class.is_null() && annotation != class {
        let path = FieldPath::new("annotations").child(CLASS);
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(&path, annotation, detail);
    }
    errors
}

pub(super) fn validate_changed(new: &Value, old: &Value) -> FieldErrors {
    let has_bad_secret = |own: &Value| {
        let name = text(&own["secretName"]);
        !name.is_empty() && !dns1123_subdomain(name).is_empty()
    };
    let has_bad_rule = |rule: &Value| {
        let mut errors = FieldErrors::new();
        validate_http(&rule["http"], &FieldPath::default(), &mut errors);
        text(&rule["host"]).contains('*') && !errors.is_empty()
    };
    let tolerated = Tolerated {
        secret_names: items(&old["spec"]["tls"]).any(has_bad_secret),
        wildcard_rules: items(&old["spec"]["rules"]).any(has_bad_rule),
    };
    validate(new, tolerated)
}

fn validate(ingress: &Value, tolerated: Tolerated) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (&ingress["spec"], FieldPath::new("spec"));
    let (rules, backend) = (&spec["rules"], &spec["defaultBackend"]);
    if is_empty(rules) && backend.is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&path, rules, detail);
    }
    if !backend.is_null() {
        validate_backend(backend, &path.child("defaultBackend"), &mut errors);
    }
    for (index, rule) in items(rules).enumerate() {
        let path = path.child("rules").index(index);
        validate_rule(rule, tolerated, &path, &mut errors);
    }
    for (index, own) in items(&spec["tls"]).enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in items(&own["hosts"]).enumerate() {
            let path = path.child("hosts").index(index);
            invalid_each(host_faults(text(host)), host, &path, &mut errors);
        }
        let secret = &own["secretName"];
        if !tolerated.secret_names && !text(secret).is_empty() {
            let path = path.child("secretName");
            invalid_each(dns1123_subdomain(text(secret)), secret, &path, &mut errors);
        }
    }
    let class = &spec["ingressClassName"];
    if !class.is_null() {
        let path = path.child("ingressClassName");
        invalid_each(dns1123_subdomain(text(class)), class, &path, &mut errors);
    }
    errors
}

fn host_faults(host: &str) -> Vec<String> {
    match host.contains('*') {
        true => wildcard_subdomain(host),
        false => dns1123_subdomain(host),
    }
}

fn validate_rule(rule: &Value, tolerated: Tolerated, path: &FieldPath, errors: &mut FieldErrors) {
    let host = text(&rule["host"]);
    if !host.is_empty() {
        let path = path.child("host");
        if parse_ip(host).is_some() {
            errors.invalid(&path, &rule["host"], NO_ADDRESS);
        }
        invalid_each(host_faults(host), &rule["host"], &path, errors);
    }
    if !(host.contains('*') && tolerated.wildcard_rules) {
        validate_http(&rule["http"], path, errors);
    }
}

fn validate_http(http: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if http.is_null() {
        return;
    }
    let path = path.child("http").child("paths");
    if is_empty(&http["paths"]) {
        errors.required(&path, "");
    }
    for (index, own) in items(&http["paths"]).enumerate() {
        validate_path(own, &path.index(index), errors);
    }
}

fn validate_path(own: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if own["pathType"].is_null() {
        return errors.required(&path.child("pathType"), "pathType must be specified");
    }
    let (stated, at) = (text(&own["path"]), path.child("path"));
    let shown = stated.into();
    let kind = text(&own["pathType"]);
    let is_absolute = stated.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !is_absolute {
                errors.invalid(&at, &shown, "must be an absolute path");
            }
            for sequence in SEQUENCES.into_iter().filter(|own| stated.contains(own)) {
                errors.invalid(&at, &shown, &format!("must not contain '{sequence}'"));
            }
            for suffix in SUFFIXES.into_iter().filter(|own| stated.ends_with(own)) {
                errors.invalid(&at, &shown, &format!("cannot end with '{suffix}'"));
            }
        }
        "ImplementationSpecific" if !stated.is_empty() && !is_absolute => {
            errors.invalid(&at, &shown, "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        _ => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), &kind.into(), &known);
        }
    }
    validate_backend(&own["backend"], &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (resource, service) = (&backend["resource"], &backend["service"]);
    match (resource.is_null(), service.is_null()) {
        (false, false) => {
            let detail = "cannot set both resource and service backends";
            errors.invalid(path, &"".into(), detail);
        }
        (true, true) => {
            let detail = "resource or service backend is required";
            errors.invalid(path, &"".into(), detail);
        }
        (false, true) => validate_reference(resource, &path.child("resource"), errors),
        (true, false) => validate_service(service, path, errors),
    }
}

fn validate_service(service: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, at) = (&service["name"], path.child("service").child("name"));
    match text(name) {
        "" => errors.required(&at, ""),
        own => invalid_each(dns1123_label(own), name, &at, errors),
    }
    let (port, at) = (&service["port"], path.child("service").child("port"));
    let number = port["number"].as_i64().unwrap_or(0);
    match (text(&port["name"]), number) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", 1..=65535) => {}
        ("", _) => errors.invalid(&at.child("number"), &port["number"], PORT_RANGE),
        (own, 0) => {
            for fault in port_name_faults(own) {
                errors.invalid(&at.child("name"), &port["name"], fault);
            }
        }
        _ => errors.invalid(path, &"".into(), "cannot set both port name & port number"),
    }
}

/// The faults of a reference to an object of any kind in the same namespace.
pub(crate) fn validate_reference(reference: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let group = &reference["apiGroup"];
    if !group.is_null() {
        let path = path.child("apiGroup");
        invalid_each(dns1123_subdomain(text(group)), group, &path, errors);
    }
    for field in ["kind", "name"] {
        let (own, path) = (&reference[field], path.child(field));
        match text(own) {
            "" => errors.required(&path, ""),
            stated => invalid_each(path_segment_name(stated), own, &path, errors),
        }
    }
}

pub(super) fn validate_status(ingress: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status.loadBalancer.ingress");
    for (index, own) in items(&ingress["status"]["loadBalancer"]["ingress"]).enumerate() {
        let path = path.index(index);
        if !text(&own["ip"]).is_empty() {
            validate_ip(&own["ip"], &path.child("ip"), &mut errors);
        }
        let (host, at) = (&own["hostname"], path.child("hostname"));
        if !text(host).is_empty() {
            invalid_each(dns1123_subdomain(text(host)), host, &at, &mut errors);
            if parse_ip(text(host)).is_some() {
                errors.invalid(&at, host, NO_ADDRESS);
            }
        }
    }
    errors
}
