//! The audit log of a server.

use clap::Args;
use kubeproof_apiserver::audit::{Audit, Options};

#[derive(Args)]
pub(super) struct AuditArgs {
    /// Record requests in the audit log by the audit.k8s.io/v1 Policy in this file.
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<String>,
    /// Append audit events to this file, which only its owner can read if it is new; - is standard output.
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<String>,
    /// The form of audit events: a line of JSON, or of text with some of the facts.
    #[arg(
        long,
        value_name = "json|legacy",
        default_value = "json",
        requires = "audit_log_path"
    )]
    audit_log_format: String,
}

impl AuditArgs {
    /// Reads the policy and opens the log.
    pub(super) fn build(&self) -> anyhow::Result<Option<Audit>> {
        let options = Options {
            policy_file: self.audit_policy_file.clone().unwrap_or_default(),
            log_path: self.audit_log_path.clone().unwrap_or_default(),
            log_format: self.audit_log_format.clone(),
            ..Options::default()
        };
        Ok(options.build()?)
    }
}
