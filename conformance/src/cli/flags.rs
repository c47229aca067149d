//! The command lines of the programs that kubeproof stands in for: kube-apiserver and etcd.

mod access;
pub(crate) mod etcd;
mod known;
pub(crate) mod kube_apiserver;
mod settings;
#[cfg(test)]
mod tests;
mod validation;

pub(crate) use settings::{
    admission_flags, audit_options, feature_gates, request_timeouts, runtime_config, service_ranges,
};

use super::pflag::Parsed;

/// The outcome of reading a valid command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Text for standard output; the program then ends with 0.
    Print(String),
    /// To serve with these values.
    Serve(Box<Parsed>),
}

/// A command line that a program refuses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Text for standard error.
    pub(crate) message: String,
    /// The exit code.
    pub(crate) code: u8,
}
