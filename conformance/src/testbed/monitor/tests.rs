//! Scenarios with controllers under test.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::runner::{RunOptions, run_whole};
use crate::scenario::Scenario;
use crate::testbed::ControllerUnderTest;

/// Returns the violations of a controller that reads a ConfigMap every second.
fn violations_of(scenario: &str) -> Vec<String> {
    let scenario: Scenario = serde_saphyr::from_str(scenario).unwrap();
    let poller = ControllerUnderTest::new("poller", |client| async move {
        let maps = Api::<ConfigMap>::namespaced(client, "default");
        loop {
            let _ = maps.get_opt("a").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let options = RunOptions {
        under_test: vec![poller],
        ..RunOptions::default()
    };
    let run = run_whole(&scenario, &options).unwrap();
    run.transcript.as_ref().unwrap();
    run.request_violations
        .iter()
        .map(|one| one.what.clone())
        .collect()
}

#[test]
fn controllers_are_judged_from_the_first_step_on() {
    let scenario = "{title: t, source: s, given: {controllers: [], nodes: 0}, steps: STEPS}";
    let polls = "poller repeated `get configmaps default/a` 40 times in 39s while nothing changed; wait for a change, \
        or back off";
    assert_eq!(
        violations_of(&scenario.replace("STEPS", "[advance: 2m]")),
        [polls]
    );
    assert_eq!(
        violations_of(&scenario.replace("STEPS", "[advance: 30s]")),
        [""; 0]
    );
}
