//! Events as the server stores them.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;

use super::support::Cluster;
use super::{CONTROLLERS, replica_set};

#[tokio::test(start_paused = true)]
async fn similar_events_are_combined_in_one_object_whose_count_grows() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster.create::<ReplicaSet>(replica_set(20)).await;
    cluster.settle().await;
    let mut events = cluster.list::<Event>().await;
    events.retain(|event| event.reason.as_deref() == Some("SuccessfulCreate"));
    let counts: Vec<i32> = events.iter().map(|event| event.count.unwrap()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 1, 11]);
    let combined = events.last().unwrap();
    let message = combined.message.as_deref().unwrap();
    assert!(
        message.starts_with("(combined from similar events): Created pod: web-"),
        "{message}"
    );
    assert_eq!(combined.reporting_component.as_deref(), Some(""));
    let (name, suffix) = combined
        .name_any()
        .rsplit_once('.')
        .map(|(name, suffix)| (name.to_owned(), i128::from_str_radix(suffix, 16).unwrap()))
        .unwrap();
    assert_eq!(name, "web");
    let created = combined.creation_timestamp().unwrap().0;
    assert!(
        suffix - created.as_nanosecond() < 1_000_000_000,
        "nanoseconds of the time"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_writes_events_of_the_newer_group() {
    let cluster = Cluster::start(CONTROLLERS);
    cluster.create::<ReplicaSet>(replica_set(1)).await;
    cluster.settle().await;
    let events = cluster.list::<Event>().await;
    let scheduled = events
        .iter()
        .find(|event| event.reason.as_deref() == Some("Scheduled"));
    let scheduled = scheduled.unwrap();
    assert_eq!(scheduled.action.as_deref(), Some("Binding"));
    assert_eq!(
        scheduled.reporting_component.as_deref(),
        Some("default-scheduler")
    );
    let fields = scheduled.metadata.managed_fields.as_deref().unwrap();
    assert_eq!(fields[0].api_version.as_deref(), Some("events.k8s.io/v1"));
    assert_eq!(scheduled.source.clone().unwrap_or_default().component, None);
    cluster.stop().await;
}
