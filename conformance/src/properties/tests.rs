//! Properties that scenarios and testbeds state.

use std::time::Duration;

use kubeproof_apiserver::{EventType, JournalEntry};

use super::{Declaration, Property, World};
use crate::explore::{self, Kind, Options};
use crate::runner::{self, RunOptions};
use crate::scenario::ScenarioFile;
use crate::suite;
use crate::testbed::Testbed;

const WEB: &str = include_str!("../../../fixtures/statefulset/web.yaml");

/// A scenario that scales three pods to one, with these properties.
fn scenario(properties: &str) -> Result<ScenarioFile, String> {
    let text = format!(
        "title: t\nsource: s\ngiven: {{nodes: 1, controllers: [statefulset], objects: [web.yaml]}}\n\
         steps: [{{scale: {{target: statefulset/web, replicas: 1}}}}]\nproperties:\n{properties}"
    );
    ScenarioFile::parse("a/b".to_owned(), text, |_| Ok(WEB.to_owned()))
}

/// Returns the violations of the run, without revisions.
fn violations_of(properties: &str) -> Vec<String> {
    let scenario = scenario(properties).unwrap().scenario;
    let run = runner::run_whole(&scenario, &RunOptions::default()).unwrap();
    run.transcript.as_ref().unwrap();
    let found = run.violations(&scenario.declared).into_iter();
    found
        .map(|one| format!("{}: {}", one.property, one.what))
        .collect()
}

#[test]
fn a_scenario_states_what_holds_from_its_first_step_on() {
    let held = "- {name: one is there, expression: size(objects.Pod) >= 1}";
    assert_eq!(
        violations_of(held),
        [""; 0],
        "there was none before what is given"
    );
    let broken = "
- name: two are there
  expression: size(objects.Pod) >= 2
  messageExpression: \"'there are ' + string(size(objects.Pod))\"
- name: nobody deletes
  expression: event.type != 'DELETED'
  message: something is gone";
    assert_eq!(
        violations_of(broken),
        [
            "nobody deletes: something is gone",
            "two are there: there are 1",
            "nobody deletes: something is gone",
        ]
    );
}

#[test]
fn a_run_fails_by_a_property_unless_its_scenario_says_so() {
    let broken = "- {name: three stay, expression: size(objects.Pod) == 3}\n";
    for (more, is_said) in [("", false), ("violates: {three stay: two go}", true)] {
        let scenario = scenario(&format!("{broken}{more}")).unwrap().scenario;
        let run = runner::run_whole(&scenario, &RunOptions::default()).unwrap();
        let why = suite::violates(&scenario, &run);
        assert_eq!(why.is_none(), is_said, "{why:?}");
        let message = "three stay: failed expression: size(objects.Pod) == 3 (revision ";
        assert!(why.is_none_or(|why| why.starts_with(message)));
    }
}

#[test]
fn a_scenario_names_no_property_that_it_does_not_violate() {
    let held = "- {name: one is there, expression: size(objects.Pod) >= 1}\n";
    for (more, expected) in [
        ("", None),
        (
            "violates: {one is there: none is}",
            Some("`violates` names \"one is there\", which the run does not violate"),
        ),
    ] {
        let scenario = scenario(&format!("{held}{more}")).unwrap().scenario;
        let run = runner::run_whole(&scenario, &RunOptions::default()).unwrap();
        assert_eq!(suite::unneeded(&scenario, &run).as_deref(), expected);
    }
}

#[test]
fn what_is_no_cel_is_an_error_of_the_scenario() {
    let error = scenario("- {name: x, expression: size(objects.Pods) == 3}").unwrap_err();
    assert_eq!(
        error,
        "properties[0].expression: Invalid value: \"size(objects.Pods) == 3\": compilation \
         failed: ERROR: <input>:1:13: undefined field 'Pods'\n | size(objects.Pods) == 3\n | \
         ............^"
    );
    let unknown = scenario("- {name: x, rule: 'true'}").unwrap_err();
    assert!(unknown.contains("rule"), "{unknown}");
}

#[test]
fn explore_finds_what_a_property_forbids() {
    let stated = "- name: no pod comes
  expression: event.resource != 'pods' || event.type != 'ADDED'";
    let text = scenario(stated).unwrap().text;
    let scales = "scale: {target: statefulset/web, replicas: 1}";
    let text = text.replace(scales, "delete: {target: pod/web-1}");
    let file = ScenarioFile::parse("a/b".to_owned(), text, |_| Ok(WEB.to_owned())).unwrap();
    let reference = explore::Reference::of(&file.scenario).unwrap();
    let options = Options {
        kinds: [Kind::CrashAfter].into(),
        ..Options::default()
    };
    let plans = reference.plans(&options);
    let found = explore::explore(&file.scenario, &reference, &plans[0]).unwrap();
    let message =
        "no pod comes: failed expression: event.resource != 'pods' || event.type != 'ADDED'";
    assert!(found.outcome.starts_with(message), "{}", found.outcome);
}

/// No pod is deleted.
struct Kept;

impl Property for Kept {
    fn name(&self) -> &str {
        "pods are kept"
    }

    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String> {
        let is_pod = entry.gvr.resource == "pods";
        let left = world.in_namespace("pods", "default").count();
        match is_pod && entry.event == EventType::Deleted {
            true => vec![format!("{left} are left")],
            false => Vec::new(),
        }
    }
}

#[test]
fn a_testbed_is_held_to_what_its_builder_states() {
    let bed = Testbed::builder()
        .nodes(1)
        .controllers(["statefulset"])
        .property(Declaration {
            name: "one is there".to_owned(),
            expression: "size(objects.Pod) > 0".to_owned(),
            ..Declaration::default()
        })
        .property_in_rust(|| Kept);
    let options = Options {
        kinds: [Kind::CrashBefore].into(),
        ..Options::default()
    };
    let script = async |testbed: &Testbed| {
        testbed.apply(WEB).await?;
        testbed.settle(Duration::from_secs(60)).await?;
        let gone = WEB.replace("replicas: 3", "replicas: 2");
        testbed.apply(&gone).await?;
        Ok(())
    };
    let error = explore::testbed(&bed, &options, script).unwrap_err();
    let error = error.to_string();
    let outcome: Vec<&str> = error.lines().collect();
    assert!(outcome[0].starts_with("one is there: failed expression: size(objects.Pod) > 0 "));
    assert!(outcome[1].starts_with("pods are kept: 2 are left (revision "));
    assert_eq!(outcome.len(), 2, "{outcome:?}");

    let report = explore::testbed(&bed.ignore_violations(), &options, script).unwrap();
    assert!(report.runs > 5 && report.diverged.len() == report.runs);
    let (plan, divergence) = &report.diverged[0];
    let outcome: Vec<&str> = divergence.outcome.lines().collect();
    assert_eq!(outcome.len(), 2, "{plan}: {outcome:?}");
    assert!(outcome[0].starts_with("one is there: failed expression: size(objects.Pod) > 0 "));
    assert!(outcome[1].starts_with("pods are kept: 2 are left (revision "));
}

#[test]
fn a_testbed_does_not_start_with_what_is_no_cel() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let bed = Testbed::builder().property(Declaration {
        name: "x".to_owned(),
        expression: "1".to_owned(),
        ..Declaration::default()
    });
    let error = runtime.block_on(bed.start()).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "properties[0].expression: Invalid value: \"1\": must evaluate to bool but got int"
    );
}
