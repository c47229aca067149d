//! Helpers that several modules share.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_apiserver::Clock;
use kubeproof_controller::Options;
use kubeproof_controller::apps::statefulset;
use kubeproof_controller::core::namespace;
use kubeproof_controller::kruise::Gates;
use kubeproof_node::{LEASE_RENEWAL, MissingImages, SameImages, SchedulerConfig, Timings};

/// One node and the scheduler, without controllers.
pub(crate) fn options(clock: &Clock) -> Options {
    let clock = clock.clone();
    Options {
        controllers: Vec::new(),
        nodes: 1,
        scheduler: true,
        scheduler_config: SchedulerConfig::default(),
        default_storage_class: false,
        load_balancers: None,
        timings: Timings::default(),
        same_images: SameImages::default(),
        missing_images: MissingImages::default(),
        lease_renewal: LEASE_RENEWAL,
        stages: Vec::new(),
        root_ca: "the certificate\n".to_owned(),
        credentials: None,
        statefulset: statefulset::Settings::default(),
        namespace: namespace::Settings::default(),
        kruise: Gates::default(),
        kruise_daemon: false,
        check_types: |_| Vec::new(),
        compile_selector: |_| Err(String::new()),
        count_usage: |_, _, _| BTreeMap::new(),
        now: Arc::new(move || clock.now()),
    }
}
