//! Faults of the security contexts of pods and containers, and of fields for other operating
//! systems.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::go_struct::shown;
use crate::json::Value;
use crate::meta::validation::dns1123_subdomain;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_as, invalid_each};

const USER_RANGE: &str = "must be between 0 and 2147483647, inclusive";
const APP_ARMOR_BYTES_MAX: usize = 4095;
const CREDENTIAL_SPEC_BYTES_MAX: usize = 64 * 1024;
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

/// Faults of a container's security context; `host_users` says whether the pod shares them.
pub(crate) fn validate_container_security(
    context: &Value,
    path: &FieldPath,
    host_users: bool,
    errors: &mut FieldErrors,
) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        validate_id(&context[field], &path.child(field), errors);
    }
    let mount = &context["procMount"];
    if !mount.is_null() {
        let path = path.child("procMount");
        if !["Default", "Unmasked"].contains(&text(mount)) {
            errors.not_supported(&path, mount, &["Default", "Unmasked"]);
        }
        if host_users && mount == "Unmasked" {
            errors.invalid(&path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp(
        &context["seccompProfile"],
        &path.child("seccompProfile"),
        errors,
    );
    if context["allowPrivilegeEscalation"] == false {
        let shown = || shown("SecurityContext", context);
        if context["privileged"] == true {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            invalid_as(path, &shown(), detail, errors);
        }
        for _ in items(&context["capabilities"]["add"]).filter(|own| *own == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            invalid_as(path, &shown(), detail, errors);
        }
    }
    validate_windows_options(
        &context["windowsOptions"],
        &path.child("windowsOptions"),
        errors,
    );
    validate_app_armor(
        &context["appArmorProfile"],
        &path.child("appArmorProfile"),
        errors,
    );
}

fn validate_id(id: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let range = 0..=i64::from(i32::MAX);
    if id.as_i64().is_some_and(|own| !range.contains(&own)) {
        errors.invalid(path, id, USER_RANGE);
    }
}

fn validate_seccomp(profile: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if profile.is_null() {
        return;
    }
    let kind = text(&profile["type"]);
    let kind_path = path.child("type");
    if kind.is_empty() {
        errors.required(&kind_path, "type is required when seccompProfile is set");
    } else if !PROFILES.contains(&kind) {
        errors.not_supported(&kind_path, &kind.into(), &PROFILES);
    }
    let file = &profile["localhostProfile"];
    let path = path.child("localhostProfile");
    match (kind == "Localhost", file.is_null()) {
        (true, true) => errors.required(&path, "must be set when seccomp type is Localhost"),
        (true, false) => super::volumes::validate_descending(file, &path, errors),
        (false, false) => {
            let shown = shown("SeccompProfile", profile);
            let detail = "can only be set when seccomp type is Localhost";
            invalid_as(&path, &shown, detail, errors);
        }
        (false, true) => {}
    }
}

/// Faults of an AppArmor profile; a missing profile has none.
pub(crate) fn validate_app_armor(profile: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if profile.is_null() {
        return;
    }
    let file = &profile["localhostProfile"];
    let file_path = path.child("localhostProfile");
    match text(&profile["type"]) {
        "Localhost" => {
            let name = text(file);
            if name.trim() != name {
                errors.invalid(&file_path, file, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&file_path, "must be set when AppArmor type is Localhost");
            }
            if name.len() > APP_ARMOR_BYTES_MAX {
                errors.too_long(&file_path, APP_ARMOR_BYTES_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if !file.is_null() {
                let detail = "can only be set when AppArmor type is Localhost";
                errors.invalid(&file_path, file, detail);
            }
        }
        "" => {
            let detail = "type is required when appArmorProfile is set";
            errors.required(&path.child("type"), detail);
        }
        other => errors.not_supported(&path.child("type"), &other.into(), &PROFILES),
    }
}

fn validate_windows_options(options: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        let path = path.child("gmsaCredentialSpecName");
        invalid_each(dns1123_subdomain(name), &name.into(), &path, errors);
    }
    if let Some(spec) = options["gmsaCredentialSpec"].as_str() {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            let detail = "gmsaCredentialSpec cannot be an empty string";
            errors.invalid(&path, &spec.into(), detail);
        } else if spec.len() > CREDENTIAL_SPEC_BYTES_MAX {
            let detail = "gmsaCredentialSpec size must be under 64 KiB";
            errors.invalid(&path, &spec.into(), detail);
        }
    }
    let Some(name) = options["runAsUserName"].as_str() else {
        return;
    };
    let detail = if name.is_empty() {
        "runAsUserName cannot be an empty string"
    } else if name.chars().any(char::is_control) {
        "runAsUserName cannot contain control characters"
    } else if name.matches('\\').count() > 1 {
        "runAsUserName cannot contain more than one backslash"
    } else {
        return;
    };
    errors.invalid(&path.child("runAsUserName"), &name.into(), detail);
}

/// Faults of a pod's security context, and of the fields of its spec that share the host.
pub(crate) fn validate_pod_security(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let context = &spec["securityContext"];
    let own = path.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&context[field], &own.child(field), errors);
    }
    let groups = own.child("supplementalGroups");
    for (index, group) in items(&context["supplementalGroups"]).enumerate() {
        validate_id(group, &groups.index(index), errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&own.child("shareProcessNamespace"), &true.into(), detail);
    }
    validate_sysctls(spec, &own.child("sysctls"), errors);
    let choice = |field: &str, supported: &[&str], errors: &mut FieldErrors| {
        let value = &context[field];
        if !value.is_null() && !supported.contains(&text(value)) {
            errors.not_supported(&own.child(field), value, supported);
        }
    };
    choice("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    validate_seccomp(
        &context["seccompProfile"],
        &own.child("seccompProfile"),
        errors,
    );
    validate_windows_options(
        &context["windowsOptions"],
        &own.child("windowsOptions"),
        errors,
    );
    validate_app_armor(
        &context["appArmorProfile"],
        &own.child("appArmorProfile"),
        errors,
    );
    choice("supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    choice("seLinuxChangePolicy", &["Recursive"], errors);
}

fn validate_sysctls(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(SYSCTL).expect("it compiles"));
    let mut seen = BTreeSet::new();
    let sysctls = &spec["securityContext"]["sysctls"];
    for (index, sysctl) in items(sysctls).enumerate() {
        let path = path.index(index).child("name");
        let name = text(&sysctl["name"]);
        if name.is_empty() {
            errors.required(&path, "");
        } else if name.len() > SYSCTL_BYTES_MAX || !NAME.is_match(name) {
            let detail =
                format!("must have at most {SYSCTL_BYTES_MAX} characters and match regex {SYSCTL}");
            errors.invalid(&path, &name.into(), &detail);
        } else if seen.contains(name) {
            errors.duplicate(&path, &name.into());
        }
        if let Some(shared) = namespace_of(name).filter(|own| spec[*own] == true) {
            let detail = format!("may not be specified when '{shared}' is true");
            errors.invalid(&path, &name.into(), &detail);
        }
        seen.insert(name);
    }
}

/// Returns the field of a pod that shares the namespace of a sysctl with the host.
fn namespace_of(sysctl: &str) -> Option<&'static str> {
    let first = sysctl.find(['.', '/']).map(|at| &sysctl[at..=at]);
    let dotted = match first {
        Some("/") => sysctl.replace('/', "."),
        _ => sysctl.to_owned(),
    };
    let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    if dotted == "kernel.sem" || ipc.iter().any(|own| dotted.starts_with(own)) {
        return Some("hostIPC");
    }
    dotted.starts_with("net.").then_some("hostNetwork")
}

fn containers<'a>(
    spec: &'a Value,
    path: &FieldPath,
) -> impl Iterator<Item = (FieldPath, &'a Value)> {
    let path = path.clone();
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(move |list| {
        let path = path.child(list);
        let own = items(&spec[list]).enumerate();
        own.map(move |(index, container)| (path.index(index), container))
    })
}

/// Containers that are processes of a Windows host: all of a pod's or none, on the host's network.
pub(crate) fn validate_host_process(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let pod = &spec["securityContext"]["windowsOptions"]["hostProcess"];
    let (mut all, mut any) = (true, false);
    for (path, container) in containers(spec, path) {
        let own = &container["securityContext"]["windowsOptions"]["hostProcess"];
        if let (Some(own), Some(pod)) = (own.as_bool(), pod.as_bool())
            && own != pod
        {
            let path = path.child("securityContext.windowsOptions.hostProcess");
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&path, &own.into(), &detail);
        }
        let is = own.as_bool().or(pod.as_bool()).unwrap_or(false);
        (all, any) = (all && is, any || is);
    }
    if !any {
        return;
    }
    if !all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, &"".into(), detail);
    }
    if spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), &false.into(), detail);
    }
}

/// A pod with users of its own shares nothing else with the host.
pub(crate) fn validate_host_users(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if spec["hostUsers"] != false {
        return;
    }
    // Upstream writes two of the paths with a capital.
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec[field] == true {
            errors.forbidden(&path.child(shown), "when `hostUsers` is false");
        }
    }
    for (path, container) in containers(spec, path) {
        if !is_empty(&container["volumeDevices"]) {
            errors.forbidden(&path.child("volumeDevices"), "when `hostUsers` is false");
        }
    }
}

/// Faults of fields that the pod's operating system does not support.
pub(crate) fn validate_os(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if spec["os"].is_null() {
        return;
    }
    let os = path.child("os");
    match text(&spec["os"]["name"]) {
        "" => errors.required(&os.child("name"), ""),
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            let own = std::iter::once((path.clone(), spec)).chain(containers(spec, path));
            for (path, own) in own {
                if !own["securityContext"]["windowsOptions"].is_null() {
                    let path = path.child("securityContext").child("windowsOptions");
                    errors.forbidden(&path, detail);
                }
            }
        }
        "windows" => validate_windows(spec, path, errors),
        other => errors.not_supported(&os, &other.into(), &["linux", "windows"]),
    }
}

fn validate_windows(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let of_pod = [
        "securityContext.appArmorProfile",
        "securityContext.seLinuxOptions",
        "hostUsers",
        "hostPID",
        "hostIPC",
        "securityContext.seccompProfile",
        "securityContext.fsGroup",
        "securityContext.fsGroupChangePolicy",
        "securityContext.sysctls",
        "shareProcessNamespace",
        "securityContext.runAsUser",
        "securityContext.runAsGroup",
        "securityContext.supplementalGroups",
        "securityContext.supplementalGroupsPolicy",
        "securityContext.seLinuxChangePolicy",
    ];
    for field in of_pod {
        let value = match field.strip_prefix("securityContext.") {
            Some(name) => &spec["securityContext"][name],
            None => &spec[field],
        };
        let host = ["hostPID", "hostIPC"].contains(&field);
        if !(value.is_null() || (host && *value == false)) {
            errors.forbidden(&path.child(field), NOT_ON_WINDOWS);
        }
    }
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    for (path, container) in containers(spec, path) {
        for field in of_container {
            if !container["securityContext"][field].is_null() {
                let path = path.child("securityContext").child(field);
                errors.forbidden(&path, NOT_ON_WINDOWS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn faults_of_a_container_name_their_fields() {
        let table = [
            (json!({"runAsUser": -1}), "c.runAsUser"),
            (json!({"procMount": "Unmasked"}), "c.procMount"),
            (json!({"seccompProfile": {}}), "c.seccompProfile.type"),
            (
                json!({"appArmorProfile": {"type": "X"}}),
                "c.appArmorProfile.type",
            ),
            (
                json!({"windowsOptions": {"runAsUserName": ""}}),
                "c.windowsOptions.runAsUserName",
            ),
            (
                json!({"privileged": true, "allowPrivilegeEscalation": false}),
                "c",
            ),
        ];
        for (context, want) in table {
            let mut errors = FieldErrors::new();
            validate_container_security(&context, &FieldPath::new("c"), true, &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, [want], "{context}");
        }
    }
}
