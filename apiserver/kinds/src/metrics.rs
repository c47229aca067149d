//! The groups of the metrics APIs, which a cluster has from servers of their own: metrics-server and adapters.

use std::sync::{Arc, LazyLock};

use crate::catalog::{Catalog, ResourceInfo};
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::rest::ReadRest;
use crate::schema::quantity::Quantity;
use crate::{ApiGroup, Strategy};

/// The group of what nodes and pods use.
pub const RESOURCE: &str = "metrics.k8s.io";
/// The group of metrics of objects.
pub const CUSTOM: &str = "custom.metrics.k8s.io";
/// The group of metrics of things outside of the cluster.
pub const EXTERNAL: &str = "external.metrics.k8s.io";

/// The versions, one of each group.
pub const VERSIONS: [(&str, &str); 3] = [
    (RESOURCE, "v1beta1"),
    (CUSTOM, "v1beta2"),
    (EXTERNAL, "v1beta1"),
];

const RESOURCE_GROUP: ApiGroup = ApiGroup {
    name: RESOURCE,
    strategies: &[("nodes", &NodeMetrics), ("pods", &PodMetrics)],
};

/// Names and columns as in kubernetes-sigs/metrics-server, `pkg/api`.
const RESOURCE_DATA: &str = r#"{"group": "metrics.k8s.io", "versions": [
 {"version": "v1beta1", "resources": [
  {"plural": "nodes", "singular": "node", "kind": "NodeMetrics", "verbs": ["get", "list"],
   "columns": [
    {"name": "Name", "format": "name", "description": "Name of the resource"},
    {"name": "cpu", "format": "quantity"}, {"name": "memory", "format": "quantity"},
    {"name": "Window", "format": "duration"}]},
  {"plural": "pods", "singular": "", "kind": "PodMetrics", "namespaced": true, "verbs": ["get", "list"],
   "columns": [
    {"name": "Name", "format": "name", "description": "Name of the resource"},
    {"name": "cpu", "format": "quantity"}, {"name": "memory", "format": "quantity"},
    {"name": "Window", "format": "duration"}]}]}]}"#;

static CATALOG: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
    let mut catalog = Catalog::builtin().with_group(&RESOURCE_GROUP, RESOURCE_DATA);
    for (name, version) in VERSIONS.into_iter().skip(1) {
        let group = ApiGroup {
            name,
            strategies: &[],
        };
        let data = json!({"group": name, "versions": [{"version": version, "resources": []}]});
        catalog = catalog.with_group(&group, &data.to_string());
    }
    Arc::new(catalog)
});

static CUSTOM_VALUE: LazyLock<Arc<ResourceInfo>> =
    LazyLock::new(|| Arc::new(listed(CUSTOM, String::new(), true)));
static EXTERNAL_VALUE: LazyLock<Arc<ResourceInfo>> =
    LazyLock::new(|| Arc::new(listed(EXTERNAL, String::new(), true)));

/// The built-in resources and those of the metrics APIs.
#[must_use]
pub fn catalog() -> &'static Arc<Catalog> {
    &CATALOG
}

/// The resource that answers for all metrics of a group of values that are put.
pub(crate) fn values_of(group: &str, version: &str) -> Option<Arc<ResourceInfo>> {
    if !VERSIONS.contains(&(group, version)) {
        return None;
    }
    match group {
        CUSTOM => Some(Arc::clone(&CUSTOM_VALUE)),
        EXTERNAL => Some(Arc::clone(&EXTERNAL_VALUE)),
        _ => None,
    }
}

/// A metric as discovery lists it, such as `pods/requests` of the custom metrics.
#[must_use]
pub fn listed(group: &'static str, name: String, namespaced: bool) -> ResourceInfo {
    let (kind, strategy): (&str, &'static dyn Strategy) = match group {
        CUSTOM => ("MetricValueList", &CustomMetrics),
        _ => ("ExternalMetricValueList", &ExternalMetrics),
    };
    let versions = VERSIONS.iter().find(|(own, _)| *own == group);
    let gvk = GroupVersionKind {
        group: group.to_owned(),
        version: versions.map_or("", |own| own.1).to_owned(),
        kind: kind.to_owned(),
    };
    ResourceInfo::of_metric(gvk, name, namespaced, strategy)
}

/// The strategy of `nodes` of the metrics API.
#[derive(Debug)]
struct NodeMetrics;

impl Strategy for NodeMetrics {
    fn read_rest(&self) -> ReadRest {
        ReadRest::NodeMetrics
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let usage = |resource: &str| json!(view.str(&format!("/usage/{resource}")));
        let window = json!(view.str("/window"));
        Some(vec![view.name(), usage("cpu"), usage("memory"), window])
    }
}

/// The strategy of `pods` of the metrics API.
#[derive(Debug)]
struct PodMetrics;

impl Strategy for PodMetrics {
    fn read_rest(&self) -> ReadRest {
        ReadRest::PodMetrics
    }

    fn is_stored(&self) -> bool {
        false
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let total = |resource: &str| {
            let containers = view.items("/containers");
            let usages = containers
                .filter_map(|own| Quantity::parse(own.str(&format!("/usage/{resource}"))).ok());
            let total = usages.reduce(|total, more| total.add(&more));
            json!(total.map_or_else(|| "0".to_owned(), |total| total.to_string()))
        };
        let window = json!(view.str("/window"));
        Some(vec![view.name(), total("cpu"), total("memory"), window])
    }
}

/// The strategy of every metric of `custom.metrics.k8s.io`.
#[derive(Debug)]
struct CustomMetrics;

impl Strategy for CustomMetrics {
    fn read_rest(&self) -> ReadRest {
        ReadRest::CustomMetrics
    }

    fn is_stored(&self) -> bool {
        false
    }
}

/// The strategy of every metric of `external.metrics.k8s.io`.
#[derive(Debug)]
struct ExternalMetrics;

impl Strategy for ExternalMetrics {
    fn read_rest(&self) -> ReadRest {
        ReadRest::ExternalMetrics
    }

    fn is_stored(&self) -> bool {
        false
    }
}
