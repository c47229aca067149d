//! Events of both groups, which are one kind in two spellings.

use serde_json::{Value, json};

use super::view::View;

pub(super) fn event(view: View<'_>) -> Vec<Value> {
    // Each field has a name in core/v1 and another in events.k8s.io/v1.
    let either = |core: &'static str, new: &'static str| {
        if view.get(core).is_some() { core } else { new }
    };
    let since = |pointer: &str| view.time(pointer).map(|_| view.since(pointer));
    let first = since(either("/firstTimestamp", "/deprecatedFirstTimestamp"))
        .unwrap_or_else(|| view.since("/eventTime"));
    let last = since(either("/lastTimestamp", "/deprecatedLastTimestamp"));
    let (last, count) = match view.get("/series") {
        Some(_) => (
            view.since("/series/lastObservedTime"),
            view.int("/series/count"),
        ),
        None => (
            last.unwrap_or_else(|| first.clone()),
            view.int(either("/count", "/deprecatedCount")).max(1),
        ),
    };
    let regarding = either("/involvedObject", "/regarding");
    let about = |field: &str| view.str(&format!("{regarding}/{field}"));
    let kind = about("kind").to_lowercase();
    let object = match about("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(last),
        json!(view.str("/type")),
        json!(view.str("/reason")),
        json!(object),
        json!(about("fieldPath")),
        json!(source(view)),
        json!(view.str(either("/message", "/note")).trim()),
        json!(first),
        json!(count),
        view.name(),
    ]
}

/// Returns the source of an event. Each part comes from `source`, or from the reporting fields if
/// `source` lacks it.
fn source(view: View<'_>) -> String {
    let first = |pointers: &[&str]| {
        let mut texts = pointers.iter().map(|pointer| view.str(pointer));
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    };
    // In core/v1 the field is `reportingComponent`; in events.k8s.io/v1 it is
    // `reportingController`.
    let component = first(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let instance = first(&[
        "/source/host",
        "/deprecatedSource/host",
        "/reportingInstance",
    ]);
    match instance {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
