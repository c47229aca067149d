//! Where a webhook is called.

use super::text;
use crate::cel;
use crate::json::Value;
use crate::meta::validation::dns1123_subdomain;
use crate::status::{FieldErrors, FieldPath};

const FORM: &str = "; desired format: https://host[/path]";

/// The faults of a client's configuration: a URL or a service.
pub fn validate(client: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match (client["url"].as_str(), client["service"].is_object()) {
        (Some(url), false) => validate_url(url, &path.child("url"), errors),
        (None, true) => validate_service(&client["service"], &path.child("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_url(url: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(fault) = cel::reference_fault(url) {
        let detail = format!("url must be a valid URL: {fault}{FORM}");
        return errors.required(path, &detail);
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if !scheme.is_empty() && !scheme.contains('/') => (scheme, rest),
        _ => ("", rest),
    };
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if !scheme.eq_ignore_ascii_case("https") {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.invalid(path, &scheme.to_lowercase().into(), &detail);
    }
    if host.is_empty() {
        errors.invalid(path, &host.into(), &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        let detail = "user information is not permitted in the URL";
        errors.invalid(path, &user.into(), detail);
    }
    if !fragment.is_empty() {
        errors.invalid(
            path,
            &fragment.into(),
            "fragments are not permitted in the URL",
        );
    }
    if !query.is_empty() {
        let detail = "query parameters are not permitted in the URL";
        errors.invalid(path, &query.into(), detail);
    }
}

fn validate_service(service: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    // Upstream's caller mixes the two up, so a fault names the other one.
    if text(service, "namespace").is_empty() {
        errors.required(&path.child("name"), "");
    }
    if text(service, "name").is_empty() {
        errors.required(&path.child("namespace"), "");
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("port"), &port.into(), detail);
    }
    let url_path = text(service, "path");
    let path = path.child("path");
    if matches!(url_path, "" | "/") {
        return;
    }
    if url_path == "//" {
        errors.invalid(&path, &url_path.into(), "segment[0] may not be empty");
        return;
    }
    if !url_path.starts_with('/') {
        errors.invalid(&path, &url_path.into(), "must start with a '/'");
    }
    let mut letters = url_path.chars();
    letters.next();
    let steps = letters.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.invalid(&path, &url_path.into(), &detail);
            continue;
        }
        for fault in dns1123_subdomain(step) {
            errors.invalid(
                &path,
                &url_path.into(),
                &format!("segment[{index}]: {fault}"),
            );
        }
    }
}
