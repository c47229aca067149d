use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;
use crate::kruise::Gates;
use k8s_openapi::api::apps::v1::ControllerRevision;

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn revision(name: &str, template: Value) -> ControllerRevision {
    from_value(json!({"metadata": {"name": name}, "revision": 1,
        "data": crate::workload::history::legacy_template_data(&template)}))
    .unwrap()
}

fn template(images: &[&str], labels: Value) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(index, image)| json!({"name": format!("c{index}"), "image": image}))
        .collect();
    json!({"metadata": {"labels": labels}, "spec": {"containers": containers}})
}

fn spec_between(old: Value, new: Value) -> Option<UpdateSpec> {
    let (old, new) = (revision("s-a", old), revision("s-b", new));
    update_spec(Some(&old), &new, 0, Gates::default())
}

fn pod(spec: Value) -> Pod {
    let statuses: Vec<Value> = spec["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| {
            json!({"name": container["name"], "image": container["image"], "ready": true,
                "imageID": format!("id-{}", container["image"].as_str().unwrap()),
                "restartCount": 0})
        })
        .collect();
    from_value(json!({
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": spec, "status": {"containerStatuses": statuses},
    }))
    .unwrap()
}

/// Updates the status as the kubelet would: the containers run the images of the spec.
fn restart(pod: &mut Pod) {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let statuses = pod.status.as_mut().unwrap().container_statuses.as_mut();
    for (status, container) in statuses.unwrap().iter_mut().zip(containers) {
        status.image.clone_from(container.image.as_ref().unwrap());
        status.image_id = format!("id-{}", status.image);
    }
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = &pod.spec.as_ref().unwrap().containers;
    containers
        .iter()
        .map(|one| one.image.clone().unwrap())
        .collect()
}

#[test]
fn images_and_metadata_change_in_place_and_nothing_else() {
    let old = || template(&["a:1", "b:1"], json!({"app": "x"}));
    let images = spec_between(old(), template(&["a:1", "b:2"], json!({"app": "x"}))).unwrap();
    assert_eq!(
        images.container_images,
        [("c1".to_owned(), "b:2".to_owned())].into()
    );
    assert_eq!(images.revision, "s-b");
    let labels = spec_between(
        old(),
        template(&["a:1", "b:1"], json!({"app": "x", "v": "2"})),
    );
    let patch = labels.unwrap().metadata_patch.unwrap();
    assert_eq!(patch, json!({"metadata": {"labels": {"v": "2"}}}));

    assert_eq!(
        spec_between(old(), template(&["a:1"], json!({"app": "x"}))),
        None
    );
    assert_eq!(
        spec_between(old(), template(&["a:1", "b:1", "c:1"], json!({}))),
        None
    );
    let mut other = old();
    other["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    assert_eq!(spec_between(old(), other), None);
    let mut other = old();
    other["spec"]["initContainers"] = json!([{"name": "i", "image": "i:1"}]);
    let mut newer = other.clone();
    newer["spec"]["initContainers"][0]["image"] = json!("i:2");
    assert_eq!(spec_between(other, newer), None, "init containers have run");
    assert_eq!(
        update_spec(None, &revision("s-b", old()), 0, Gates::default()),
        None
    );
}

#[test]
fn an_update_records_what_it_changes_and_is_over_when_images_have_changed() {
    let mut pod = pod(json!({"containers": [{"name": "c0", "image": "a:1"}]}));
    let spec = spec_between(template(&["a:1"], json!({})), template(&["a:2"], json!({}))).unwrap();
    start(&mut pod, &spec, now());
    assert_eq!(images(&pod), ["a:2"]);
    assert_eq!(
        pod.annotations()[STATE_ANNOTATION],
        r#"{"revision":"s-b","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":{"c0":{"imageID":"id-a:1"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-01-01T00:00:00Z","containers":["c0"]}]}"#
    );
    assert_eq!(
        check_complete(&pod).unwrap_err(),
        "container c0 imageID not changed"
    );
    restart(&mut pod);
    assert_eq!(check_complete(&pod), Ok(()));
}

#[test]
fn another_name_of_the_same_image_is_enough() {
    let mut pod = pod(json!({"containers": [{"name": "c0", "image": "a:1"}]}));
    let spec = spec_between(template(&["a:1"], json!({})), template(&["a:2"], json!({}))).unwrap();
    start(&mut pod, &spec, now());
    let status = &mut pod
        .status
        .as_mut()
        .unwrap()
        .container_statuses
        .as_mut()
        .unwrap()[0];
    status.image = "a:2".to_owned();
    assert_eq!(
        check_complete(&pod),
        Ok(()),
        "the id stays, the name is the one wanted"
    );
}

#[test]
fn metadata_alone_is_done_at_once() {
    let mut pod = pod(json!({"containers": [{"name": "c0", "image": "a:1"}]}));
    let spec = spec_between(
        template(&["a:1"], json!({"app": "x"})),
        template(&["a:1"], json!({"v": "2"})),
    );
    start(&mut pod, &spec.unwrap(), now());
    let labels = pod.labels();
    assert_eq!(
        (labels.get("v").map(String::as_str), labels.get("app")),
        (Some("2"), None)
    );
    assert_eq!(check_complete(&pod), Ok(()));
    assert!(pod.annotations()[STATE_ANNOTATION].contains(r#""lastContainerStatuses":null"#));
}

#[test]
fn a_grace_period_holds_the_change_back() {
    let mut pod = pod(json!({"containers": [{"name": "c0", "image": "a:1"}]}));
    let mut spec = spec_between(
        template(&["a:1"], json!({})),
        template(&["a:2"], json!({"v": "2"})),
    )
    .unwrap();
    spec.grace_seconds = 10;
    start(&mut pod, &spec, now());
    assert_eq!(images(&pod), ["a:1"]);
    let pending = grace(&pod).unwrap().unwrap();
    assert_eq!(pending, spec);
    assert!(check_complete(&pod).unwrap_err().contains("grace period"));
    let state = update_state(&pod).unwrap().unwrap();
    finish_grace(&mut pod, &pending, state, now());
    assert_eq!(
        (images(&pod), is_in_grace(&pod)),
        (vec!["a:2".to_owned()], false)
    );
    assert_eq!(pod.labels().get("v").map(String::as_str), Some("2"));
}

#[test]
fn containers_of_higher_priority_go_first() {
    let env = |priority: &str| json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority}]);
    let mut pod = pod(json!({"containers": [
        {"name": "low", "image": "l:1", "env": env("1")},
        {"name": "high", "image": "h:1", "env": env("10")},
        {"name": "none", "image": "n:1"},
    ]}));
    let spec = UpdateSpec {
        container_images: ["low:l:2", "high:h:2", "none:n:2"]
            .iter()
            .filter_map(|one| one.split_once(':'))
            .map(|(name, image)| (name.to_owned(), image.to_owned()))
            .collect(),
        ..UpdateSpec::default()
    };
    start(&mut pod, &spec, now());
    assert_eq!(images(&pod), ["l:1", "h:2", "n:1"]);
    let state = update_state(&pod).unwrap().unwrap();
    let first = &state.container_batches_record[0].containers;
    assert_eq!(*first, ["high"]);
    assert!(check_complete(&pod).unwrap_err().contains("next batches"));
    assert!(are_containers_complete(&pod, &state).is_err());
    for expected in [["l:2", "h:2", "n:1"], ["l:2", "h:2", "n:2"]] {
        restart(&mut pod);
        let state = update_state(&pod).unwrap().unwrap();
        assert!(are_containers_complete(&pod, &state).is_ok() && is_ready_for_next(&pod, &state));
        start_next_batch(&mut pod, state, now());
        assert_eq!(images(&pod), expected);
    }
    let state = update_state(&pod).unwrap().unwrap();
    assert_eq!(state.container_batches_record.len(), 3);
    assert!(!state.has_next_batch() && state.pre_check_before_next.is_none());
}

#[test]
fn whoever_reads_the_same_key_is_updated_together() {
    let read = |priority: &str| {
        json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority},
            {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}}])
    };
    let template = |v: &str, image: &str| {
        json!({"metadata": {"labels": {"v": v}}, "spec": {"containers": [
            {"name": "low", "image": "l:1", "env": read("1")},
            {"name": "high", "image": image, "env": read("10")}]}})
    };
    let spec = spec_between(template("1", "h:1"), template("2", "h:2")).unwrap();
    assert!(spec.update_env_from_metadata);
    assert_eq!(
        spec.metadata_patch,
        Some(json!({})),
        "the key is not changed twice"
    );
    let mut pod = pod(template("1", "h:1")["spec"].clone());
    start(&mut pod, &spec, now());
    assert_eq!(pod.labels().get("v").map(String::as_str), Some("2"));
    let state = update_state(&pod).unwrap().unwrap();
    assert_eq!(
        state.container_batches_record[0].containers,
        ["high", "low"]
    );
    assert!(
        check_complete(&pod)
            .unwrap_err()
            .contains("runtime-container-meta not found")
    );
}
