//! Groups of kube-apiserver's flags as the settings of the server, which checks them.

use std::time::Duration;

use kubeproof_apiserver::{
    AdmissionFlags, FeatureGateError, FeatureGates, RequestTimeouts, RuntimeConfig, ServiceRanges,
    audit,
};

use super::super::pflag::Parsed;

/// Returns the flags that choose admission plugins.
pub(crate) fn admission_flags(parsed: &Parsed) -> AdmissionFlags {
    let given = |flag: &str| parsed.is_set(flag).then(|| parsed.all(flag));
    AdmissionFlags {
        enable: given("enable-admission-plugins"),
        disable: given("disable-admission-plugins"),
        admission_control: given("admission-control"),
    }
}

/// Returns the flags of the audit log.
pub(crate) fn audit_options(parsed: &Parsed) -> audit::Options {
    let text = |flag: &str| parsed.text(flag).unwrap_or_default().to_owned();
    audit::Options {
        policy_file: text("audit-policy-file"),
        log_path: text("audit-log-path"),
        log_format: text("audit-log-format"),
        log_mode: text("audit-log-mode"),
        log_version: text("audit-log-version"),
        log_maxage: parsed.number("audit-log-maxage"),
        log_maxbackup: parsed.number("audit-log-maxbackup"),
        log_maxsize: parsed.number("audit-log-maxsize"),
        log_compress: parsed.is_on("audit-log-compress"),
        log_truncate_enabled: parsed.is_on("audit-log-truncate-enabled"),
        log_truncate_max_event_size: parsed.number("audit-log-truncate-max-event-size"),
        log_truncate_max_batch_size: parsed.number("audit-log-truncate-max-batch-size"),
        log_batch_buffer_size: parsed.number("audit-log-batch-buffer-size"),
        log_batch_max_size: parsed.number("audit-log-batch-max-size"),
    }
}

/// Returns how long requests may take.
pub(crate) fn request_timeouts(parsed: &Parsed) -> RequestTimeouts {
    let least = u64::try_from(parsed.number("min-request-timeout")).unwrap_or(0);
    RequestTimeouts {
        request: parsed.duration("request-timeout"),
        min_watch: Duration::from_secs(least),
    }
}

/// Returns the feature gates.
///
/// # Errors
/// Unknown and locked gates, and values that are not switches.
pub(crate) fn feature_gates(parsed: &Parsed) -> Result<FeatureGates, FeatureGateError> {
    let values = parsed.all("feature-gates");
    FeatureGates::read(values.iter().map(String::as_str))
}

/// Returns the APIs that are switched on and off.
///
/// # Errors
/// Each fault, in upstream's words.
pub(crate) fn runtime_config(parsed: &Parsed) -> Result<RuntimeConfig, Vec<String>> {
    RuntimeConfig::read(&parsed.map("runtime-config"))
}

/// Returns the addresses and node ports of services, and whether the command line names a second network, which the
/// server does not have.
pub(crate) fn service_ranges(parsed: &Parsed) -> (ServiceRanges, bool) {
    let text = parsed.text("service-cluster-ip-range").unwrap_or_default();
    let mut networks = text.split(',');
    let first = networks.next().and_then(|cidr| {
        let (address, prefix) = cidr.split_once('/')?;
        let (address, prefix) = (address.parse().ok()?, prefix.parse().ok()?);
        ServiceRanges::DEFAULT.with_network(address, prefix)
    });
    let ranges = first.unwrap_or(ServiceRanges::DEFAULT);
    let ports = parsed.ports("service-node-port-range");
    let ranges = match ports {
        Some((low, high)) => ranges.with_node_ports(low..=high),
        None => ranges,
    };
    (ranges, networks.next().is_some())
}
