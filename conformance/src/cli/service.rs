//! Prepares a process that serves until a signal ends it: descriptors, log, panics.

use std::backtrace::Backtrace;
use std::io::Write as _;

use kubeproof_apiserver::REQUEST_LOG;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Logs errors of the server to standard error, and of the controllers from level `controllers` on; if `requests`,
/// each request; shows panics with their backtraces; raises the limit of open files to its maximum.
pub(super) fn prepare(controllers: LevelFilter, requests: bool) {
    let mut own = Targets::new()
        .with_target("kubeproof_apiserver", LevelFilter::WARN)
        .with_target("kubeproof_controller", controllers)
        .with_target("kubeproof_node", controllers)
        .with_target("kubeproof_runtime", controllers);
    if requests {
        own = own.with_target(REQUEST_LOG, LevelFilter::INFO);
    }
    // The reader of the log may be gone, which is no reason to panic.
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    tracing_subscriber::registry()
        .with(stderr.with_filter(own))
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::force_capture();
        let _ = writeln!(std::io::stderr(), "{panic}\n{backtrace}");
    }));
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    // Go programs do the same. A refusal leaves the limit as it was.
    let _ = setrlimit(Resource::Nofile, limit);
}
