//! The loop that asks the services behind APIServices whether they answer, and what they serve.
//!
//! Source: `pkg/controllers/status/remote` of kube-aggregator.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::time::Instant;

use super::ApiServer;
use crate::aggregator::discovery::stale;
use crate::aggregator::{Finding, check, find, judge};
use crate::api_services::Backend;
use crate::meta::GroupVersion;
use crate::storage::Table;

/// The time between two checks of a service that answers.
const PERIOD: Duration = Duration::from_secs(30);
/// The time after the first failed check; each further one takes twice as long, up to the period.
const RETRY_FIRST: Duration = Duration::from_millis(5);

/// The last check of a service.
struct Last {
    backend: Arc<Backend>,
    address: SocketAddr,
    failures: u32,
    next: Instant,
}

impl Last {
    fn is_of(&self, backend: &Backend, address: SocketAddr) -> bool {
        *self.backend == *backend && self.address == address
    }
}

impl ApiServer {
    /// Checks the services behind APIServices as long as it is polled: at once after a change, and every 30 seconds.
    /// Without such an APIService it waits for one, without a timer.
    ///
    /// Cancel safety: a dropped check has no effect.
    pub(super) async fn keep_api_services(&self) -> Infallible {
        let core = &self.core;
        let own = Arc::clone(core.api_services.table(&core.storage));
        let others = [
            core.storage.table_of("", "services"),
            core.storage.table_of("discovery.k8s.io", "endpointslices"),
        ];
        let mut checks: BTreeMap<GroupVersion, Last> = BTreeMap::new();
        loop {
            // Made before anything is read, so that no change is missed.
            let mut changes = vec![change(&own)];
            let registered = core.api_services.registered(&core.storage);
            if !registered.remote.is_empty() {
                changes.extend(others.iter().map(change));
            }
            checks.retain(|version, _| registered.remote.contains_key(version));
            core.api_services.retain(&registered);
            let backends = registered.remote.values();
            let backends = backends.map(|entry| Arc::clone(&entry.backend));
            self.check_each(backends.collect(), &mut checks).await;
            let next = checks.values().map(|last| last.next).min();
            let changed = select_all(changes).map(drop);
            match next {
                Some(next) => drop(tokio::time::timeout_at(next, changed).await),
                None => changed.await,
            }
        }
    }

    /// Checks the services whose time has come, or which have changed since their last check.
    async fn check_each(
        &self,
        backends: Vec<Arc<Backend>>,
        checks: &mut BTreeMap<GroupVersion, Last>,
    ) {
        let now = Instant::now();
        let mut due = Vec::new();
        for backend in backends {
            let version = &backend.group_version;
            let address = match find(&self.core, &backend) {
                Finding::At(address) => address,
                Finding::Judged(judgement) => {
                    checks.remove(version);
                    self.note_stale(version);
                    judge(&self.core, &backend.name(), &judgement);
                    continue;
                }
            };
            let last = checks.get(version);
            let last = last.filter(|last| last.is_of(&backend, address));
            if last.is_none_or(|last| last.next <= now) {
                let failures = last.map_or(0, |last| last.failures);
                due.push((backend, address, failures));
            }
        }
        let checked = join_all(due.into_iter().map(async |(backend, address, failures)| {
            let checked = check(&self.core, &backend, address).await;
            (backend, address, failures, checked)
        }));
        for (backend, address, failures, checked) in checked.await {
            let version = backend.group_version.clone();
            let failures = match checked.is_good() {
                true => 0,
                false => failures + 1,
            };
            let wait = match failures {
                0 => PERIOD,
                failures => (RETRY_FIRST * 2_u32.saturating_pow(failures - 1)).min(PERIOD),
            };
            match checked.said {
                Some(said) => self.core.api_services.discover(&version, said),
                None => self.note_stale(&version),
            }
            let last = Last {
                backend: Arc::clone(&backend),
                address,
                failures,
                next: Instant::now() + wait,
            };
            checks.insert(version, last);
            if let Some(judgement) = &checked.judgement {
                judge(&self.core, &backend.name(), judgement);
            }
        }
    }

    /// Marks the discovery document of a version as stale, if it was ever read.
    fn note_stale(&self, version: &GroupVersion) {
        let services = &self.core.api_services;
        if let Some(mut said) = services.discovered(version) {
            said.document = stale(&said.document);
            services.discover(version, said);
        }
    }
}

/// Completes after the next write to a table.
fn change(table: &Arc<Table>) -> BoxFuture<'static, ()> {
    table.changed().notified_owned().boxed()
}
