use std::collections::BTreeSet;

use super::*;
use crate::meta::{GroupVersion, GroupVersionKind};

/// The schema of a built-in kind.
pub(super) fn kind(api_version: &str, kind: &str) -> &'static Arc<Object> {
    let GroupVersion { group, version } = GroupVersion::parse(api_version).unwrap();
    let kind = kind.to_owned();
    let gvk = GroupVersionKind {
        group,
        version,
        kind,
    };
    builtin(&gvk).unwrap_or_else(|| panic!("no built-in {gvk:?}"))
}

#[test]
fn every_type_compiles() {
    fn visit(schema: &Schema, seen: &mut BTreeSet<(String, String)>) {
        match schema {
            Schema::Array(array) => visit(&array.items, seen),
            Schema::Map(map) => visit(&map.values, seen),
            Schema::Object(object)
                if seen.insert((object.package.to_string(), object.name.to_string())) =>
            {
                let mut numbers = BTreeSet::new();
                for field in object.fields() {
                    let in_envelope = matches!(&*field.name, "kind" | "apiVersion");
                    let numbered = !field.proto.is_empty() && numbers.insert(&field.proto);
                    assert!(numbered || in_envelope, "{}.{}", object.name, field.name);
                    let has_keys = !field.list_map_keys.is_empty();
                    let is_list_map = field.list_type == Some(ListType::Map);
                    assert_eq!(has_keys, is_list_map, "{}.{}", object.name, field.name);
                    visit(&field.schema, seen);
                }
            }
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    for object in builtin::kinds() {
        visit(&Schema::Object(Arc::clone(object)), &mut seen);
    }
    assert_eq!(seen.len(), 505);
}

#[test]
fn kinds_are_found_by_group_and_version() {
    for (api_version, name) in [
        ("autoscaling/v1", "Scale"),
        ("v1", "Binding"),
        ("policy/v1", "Eviction"),
        ("v1", "Status"),
        ("apps/v1", "DeleteOptions"),
        ("authentication.k8s.io/v1", "TokenRequest"),
    ] {
        assert_eq!(kind(api_version, name).name, name);
    }
    let gvk = GroupVersionKind {
        group: "apps.kruise.io".to_owned(),
        version: "v1".to_owned(),
        kind: "StatefulSet".to_owned(),
    };
    assert!(builtin(&gvk).is_none());
}

#[test]
fn a_field_says_how_it_is_patched_and_applied() {
    let spec = &kind("v1", "Pod").field("spec").unwrap().schema;
    let Schema::Object(spec) = spec else {
        panic!("{spec:?}")
    };
    let volumes = spec.field("volumes").unwrap();
    let strategy = volumes.patch_strategy;
    assert!(strategy.merge && strategy.retain_keys && !strategy.replace);
    assert_eq!(volumes.patch_merge_key.as_deref(), Some("name"));
    assert_eq!(volumes.list_type, Some(ListType::Map));
    assert_eq!(volumes.list_map_keys, ["name"]);
    assert_eq!(spec.field("nodeSelector").unwrap().atomic, Some(true));
    let Schema::Array(containers) = &spec.field("containers").unwrap().schema else {
        panic!("containers are a list")
    };
    let Schema::Object(container) = &containers.items else {
        panic!("a container is a struct")
    };
    let ports = container.field("ports").unwrap();
    assert_eq!(ports.patch_merge_key.as_deref(), Some("containerPort"));
    assert_eq!(ports.list_map_keys, ["containerPort", "protocol"]);
}

#[test]
fn documents_of_the_metrics_apis_are_of_their_own_groups() {
    let written = super::builtin::written_type;
    let found = written("metrics.k8s.io/v1beta1", "PodMetricsList").unwrap();
    assert_eq!(found.name, "PodMetricsList");
    assert!(written("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList").is_some());
    assert!(written("foo.metrics.k8s.io/v1beta1", "PodMetricsList").is_none());
}
