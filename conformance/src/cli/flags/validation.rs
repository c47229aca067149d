//! The checks of kube-apiserver's flags before it serves, in the order and the words of upstream.
//!
//! Source: Kubernetes `pkg/controlplane/apiserver/options/{options,validation}.go`, `cmd/kube-apiserver/app/options`,
//! `pkg/kubeapiserver/options`, apiserver `pkg/server/options`, component-base `compatibility`, `featuregate`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kubeproof_apiserver::AdmissionPlugins;
use kubeproof_apiserver::status::quoted;

use super::super::pflag::Parsed;
use super::access::{authentication, authorization, token_request};
use super::settings::{admission_flags, audit_options, feature_gates, runtime_config};

const HOUR: i64 = 3_600_000_000_000;
const SECONDS_MAX: i64 = 1 << 32;
const PORT_MAX: i64 = 65_535;
/// Addresses that the range of cluster IPs has at least.
const CLUSTER_IPS_MIN: u32 = 8;

/// Checks the values of flags.
///
/// # Errors
/// Upstream's message: one fault, or a list of all in brackets.
pub(super) fn validate(parsed: &Parsed) -> Result<(), String> {
    feature_gates(parsed).map_err(|fault| fault.to_string())?;
    logs(parsed)?;
    let ranges = cluster_ranges(parsed)?;
    signing(parsed)?;
    watch_cache_sizes(parsed)?;
    let mut faults = generic(parsed);
    faults.extend(etcd(parsed));
    faults.extend(priority_and_fairness(parsed));
    let port = parsed.number("secure-port");
    if !(1..=PORT_MAX).contains(&port) {
        faults.push(format!(
            "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ));
    }
    faults.extend(authentication(parsed));
    faults.extend(authorization(parsed));
    faults.extend(audit_options(parsed).faults());
    faults.extend(admission(parsed));
    faults.extend(runtime_config(parsed).err().unwrap_or_default());
    faults.extend(token_request(parsed));
    faults.extend(peers(parsed));
    faults.extend(leases(parsed));
    faults.extend(services(parsed, &ranges));
    let count = parsed.number("apiserver-count");
    if count <= 0 {
        faults.push(format!(
            "--apiserver-count should be a positive number, but value '{count}' provided"
        ));
    }
    let mut seen = BTreeSet::new();
    faults.retain(|fault| seen.insert(fault.clone()));
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

fn logs(parsed: &Parsed) -> Result<(), String> {
    match parsed.text("logging-format").unwrap_or("") {
        "text" | "json" => Ok(()),
        format => Err(format!(
            "format: Invalid value: {}: Unsupported log format",
            quoted(format)
        )),
    }
}

/// Returns the ranges of cluster IPs: one, or one of each family.
fn cluster_ranges(parsed: &Parsed) -> Result<Vec<IpAddr>, String> {
    let text = parsed
        .text("service-cluster-ip-range")
        .unwrap_or("10.0.0.0/24");
    let mut ranges = Vec::new();
    for (at, range) in text.split(',').enumerate().take(2) {
        let read = range.split_once('/').and_then(|(address, length)| {
            let address: IpAddr = address.parse().ok()?;
            let length: u32 = length.parse().ok()?;
            let bits = if address.is_ipv4() { 32_u32 } else { 128 };
            Some((address, bits.checked_sub(length)?))
        });
        let (address, free) = match (read, at) {
            (Some(read), _) => read,
            (None, 0) => return Err("service-cluster-ip-range[0] is not a valid cidr".to_owned()),
            (None, _) => return Err("service-cluster-ip-range[1] is not an ip net".to_owned()),
        };
        if at == 0 && free < CLUSTER_IPS_MIN.ilog2() {
            return Err(format!(
                "error determining service IP ranges for primary service cidr: the service cluster IP range must be at \
                 least {CLUSTER_IPS_MIN} IP addresses"
            ));
        }
        ranges.push(address);
    }
    Ok(ranges)
}

fn signing(parsed: &Parsed) -> Result<(), String> {
    let longest = parsed.nanoseconds("service-account-max-token-expiration");
    // A duration of Go is at most 292 years, which is above the upper bound.
    let is_long = longest / 1_000_000_000 > SECONDS_MAX;
    if longest != 0 && (longest < HOUR || is_long) {
        return Err(
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
                .to_owned(),
        );
    }
    let (key, endpoint) = (
        parsed.text("service-account-signing-key-file"),
        parsed.text("service-account-signing-endpoint"),
    );
    let issuers = parsed.all("service-account-issuer");
    if issuers.first().is_none_or(String::is_empty) {
        return Ok(());
    }
    match (key, endpoint) {
        (Some(_), Some(_)) => Err(
            "service-account-signing-key-file and service-account-signing-endpoint are \
             mutually exclusive and cannot be set at the same time"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

fn watch_cache_sizes(parsed: &Parsed) -> Result<(), String> {
    if !parsed.is_on("watch-cache") {
        return Ok(());
    }
    for size in parsed.all("watch-cache-sizes") {
        let tokens: Vec<&str> = size.split('#').collect();
        let [_, number] = tokens[..] else {
            return Err(format!("invalid value of watch cache size: {size}"));
        };
        match number.parse::<i64>() {
            Err(_) => return Err(format!("invalid size of watch cache size: {size}")),
            Ok(..0) => return Err(format!("watch cache size cannot be negative: {size}")),
            Ok(_) => {}
        }
    }
    Ok(())
}

fn generic(parsed: &Parsed) -> Vec<String> {
    let mut faults = Vec::new();
    let mut negative = |is_negative: bool, words: &str| {
        if is_negative {
            faults.push(words.to_owned());
        }
    };
    negative(
        parsed.nanoseconds("livez-grace-period") < 0,
        "--livez-grace-period can not be a negative value",
    );
    negative(
        parsed.number("max-requests-inflight") < 0,
        "--max-requests-inflight can not be negative value",
    );
    negative(
        parsed.number("max-mutating-requests-inflight") < 0,
        "--max-mutating-requests-inflight can not be negative value",
    );
    negative(
        parsed.nanoseconds("request-timeout") < 0,
        "--request-timeout can not be negative value",
    );
    negative(
        !(0.0..=0.02).contains(&parsed.float("goaway-chance")),
        "--goaway-chance can not be less than 0 or greater than 0.02",
    );
    negative(
        parsed.number("min-request-timeout") < 0,
        "--min-request-timeout can not be negative value",
    );
    negative(
        parsed.nanoseconds("storage-initialization-timeout") < 0,
        "--storage-initialization-timeout can not be negative value",
    );
    negative(
        parsed.nanoseconds("shutdown-delay-duration") < 0,
        "--shutdown-delay-duration can not be negative value",
    );
    negative(
        parsed.nanoseconds("shutdown-watch-termination-grace-period") < 0,
        "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
    );
    faults
}

fn etcd(parsed: &Parsed) -> Vec<String> {
    let mut faults = Vec::new();
    if parsed.all("etcd-servers").is_empty() {
        faults.push("--etcd-servers must be specified".to_owned());
    }
    if parsed
        .text("storage-backend")
        .is_some_and(|kind| kind != "etcd3")
    {
        faults.push(
            "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'".to_owned(),
        );
    }
    let is_override = |text: &String| {
        let Some((resource, servers)) = text.split_once('#') else {
            return false;
        };
        let is_resource = resource.matches('/').count() == 1;
        is_resource && !servers.contains('#') && servers.split(';').all(|server| !server.is_empty())
    };
    if !parsed.all("etcd-servers-overrides").iter().all(is_override) {
        faults.push(
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, \
             semicolon separated"
                .to_owned(),
        );
    }
    let is_reloaded = parsed.is_on("encryption-provider-config-automatic-reload");
    if is_reloaded && parsed.text("encryption-provider-config").is_none() {
        faults.push(
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config".to_owned(),
        );
    }
    let types = [
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ];
    let media = parsed.text("storage-media-type").unwrap_or("");
    if !media.is_empty() && !types.contains(&media) {
        faults.push(format!(
            "--storage-media-type {} invalid, allowed values: {}",
            quoted(media),
            types.join(", ")
        ));
    }
    faults
}

fn priority_and_fairness(parsed: &Parsed) -> Option<String> {
    if !parsed.is_on("enable-priority-and-fairness") {
        return None;
    }
    let config = parsed.map("runtime-config");
    let apis = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"];
    let (api, value) = apis.iter().find_map(|api| Some((api, config.get(*api)?)))?;
    (value == "false").then(|| {
        format!("--runtime-config={api}=false conflicts with --enable-priority-and-fairness=true")
    })
}

fn admission(parsed: &Parsed) -> Vec<String> {
    let read = AdmissionPlugins::from_flags(&admission_flags(parsed));
    read.err().unwrap_or_default()
}

fn peers(parsed: &Parsed) -> Vec<String> {
    let mut faults = Vec::new();
    let gates = parsed.map("feature-gates");
    let is_on = |gate: &str| gates.get(gate).is_some_and(|value| value == "true");
    if !is_on("UnknownVersionInteroperabilityProxy") && !is_on("AllAlpha") {
        for name in ["peer-ca-file", "peer-advertise-ip", "peer-advertise-port"] {
            if parsed.text(name).is_some() {
                faults.push(format!(
                    "--{name} requires UnknownVersionInteroperabilityProxy feature to be turned on"
                ));
            }
        }
    }
    let keys = parsed.all("service-account-key-file");
    let has_files = !keys.is_empty() || parsed.text("service-account-signing-key-file").is_some();
    if parsed.text("service-account-signing-endpoint").is_some() && has_files {
        faults.push(
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive)"
                .to_owned(),
        );
    }
    faults
}

fn leases(parsed: &Parsed) -> Vec<String> {
    let lease = parsed.nanoseconds("coordinated-leadership-lease-duration");
    let renew = parsed.nanoseconds("coordinated-leadership-renew-deadline");
    let retry = parsed.nanoseconds("coordinated-leadership-retry-period");
    let mut faults = Vec::new();
    if lease <= renew {
        faults.push(
            "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline"
                .to_owned(),
        );
    }
    if renew <= retry {
        faults.push(
            "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period"
                .to_owned(),
        );
    }
    faults
}

/// Checks the Service of the server and the ranges of all Services.
fn services(parsed: &Parsed, ranges: &[IpAddr]) -> Vec<String> {
    let mut faults = Vec::new();
    let text = parsed
        .text("service-cluster-ip-range")
        .unwrap_or("10.0.0.0/24");
    if text.split(',').count() > 2 {
        faults.push("--service-cluster-ip-range must not contain more than two entries".to_owned());
    }
    if let [first, second] = ranges
        && first.is_ipv4() == second.is_ipv4()
    {
        faults.push(
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family".to_owned(),
        );
    }
    let port = parsed.number("kubernetes-service-node-port");
    if !(0..=PORT_MAX).contains(&port) {
        faults.push(format!(
            "--kubernetes-service-node-port {port} must be between 0 and 65535, inclusive. If 0, the Kubernetes master \
             service will be of type ClusterIP"
        ));
    }
    let (low, high) = parsed.ports("service-node-port-range").unwrap_or((1, 0));
    if port > 0 && !(low..=high).contains(&port) {
        faults.push(format!(
            "kubernetes service node port range {low}-{high} doesn't contain {port}"
        ));
    }
    let address = parsed
        .text("advertise-address")
        .and_then(|text| text.parse::<IpAddr>().ok());
    if let (Some(address), Some(first)) = (address, ranges.first())
        && parsed.text("endpoint-reconciler-type") != Some("none")
        && address.is_ipv4() != first.is_ipv4()
    {
        faults.push(format!(
            "service IP family {} must match public address family {}",
            quoted(text.split(',').next().unwrap_or(text)),
            quoted(&address.to_string())
        ));
    }
    faults
}
