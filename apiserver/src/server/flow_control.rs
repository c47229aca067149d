//! Under which FlowSchema a request falls. No request ever waits here, but every answer names the
//! FlowSchema and its priority level, as API Priority and Fairness does (KEP-1040).

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::Value;

use crate::auth::{Attributes, User};
use crate::meta::GroupVersionResource;
use crate::meta::object::{meta, name};
use crate::storage::{Snapshot, Storage, StoredObject, Table};

/// The uids of a FlowSchema and of its PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) schema: HeaderValue,
    pub(super) level: HeaderValue,
}

/// The FlowSchemas in the order in which they are tried, made anew when they change.
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    tables: OnceLock<[Arc<Table>; 2]>,
    flows: Mutex<Option<Arc<Flows>>>,
}

#[derive(Debug)]
struct Flows {
    schemas: Snapshot,
    levels: Snapshot,
    sorted: Vec<(Arc<StoredObject>, Flow)>,
}

impl FlowControl {
    /// The first flow that takes the request; without FlowSchemas there is none.
    pub(super) fn classify(
        &self,
        storage: &Storage,
        user: &User,
        attributes: &Attributes,
    ) -> Option<Flow> {
        let flows = self.flows(storage);
        let takes = |rule: &Value| {
            list(rule, "subjects").any(|subject| is_subject(subject, user))
                && is_ruled(rule, attributes)
        };
        let mut sorted = flows.sorted.iter();
        sorted
            .find(|(schema, _)| list(&schema.value()["spec"], "rules").any(takes))
            .map(|(_, flow)| flow.clone())
    }

    fn flows(&self, storage: &Storage) -> Arc<Flows> {
        let [schemas, levels] = self.tables.get_or_init(|| {
            ["flowschemas", "prioritylevelconfigurations"].map(|resource| {
                storage.table(&GroupVersionResource {
                    group: "flowcontrol.apiserver.k8s.io".to_owned(),
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                })
            })
        });
        let (schemas, levels) = (schemas.snapshot(), levels.snapshot());
        let mut held = self.flows.lock();
        if let Some(flows) = held.as_ref()
            && flows.schemas.has_objects_of(&schemas)
            && flows.levels.has_objects_of(&levels)
        {
            return Arc::clone(flows);
        }
        let flows = Arc::new(Flows::new(schemas, levels));
        *held = Some(Arc::clone(&flows));
        flows
    }
}

impl Flows {
    fn new(schemas: Snapshot, levels: Snapshot) -> Self {
        let uid = |object: &StoredObject| HeaderValue::from_str(meta(&object.value(), "uid")).ok();
        let flow = |schema: &Arc<StoredObject>| {
            let value = schema.value();
            let wanted = value["spec"]["priorityLevelConfiguration"]["name"].as_str()?;
            let level = levels
                .range(None, None)
                .find(|level| name(&level.value()) == wanted)?;
            let flow = Flow {
                schema: uid(schema)?,
                level: uid(level)?,
            };
            Some((Arc::clone(schema), flow))
        };
        let mut sorted: Vec<_> = schemas.range(None, None).filter_map(flow).collect();
        // Stable: those of one precedence stay in the order of their names.
        sorted.sort_by_key(|(schema, _)| schema.value()["spec"]["matchingPrecedence"].as_i64());
        Self {
            schemas,
            levels,
            sorted,
        }
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    list(rule, field).any(|own| own == "*" || own == wanted)
}

fn is_subject(subject: &Value, user: &User) -> bool {
    let is = |named: &Value, own: &str| named == "*" || named == own;
    match subject["kind"].as_str() {
        Some("User") => is(&subject["user"]["name"], &user.name),
        Some("Group") => {
            let group = &subject["group"]["name"];
            user.groups.iter().any(|own| is(group, own))
        }
        Some("ServiceAccount") => user
            .name
            .strip_prefix("system:serviceaccount:")
            .and_then(|account| account.split_once(':'))
            .is_some_and(|(namespace, name)| {
                let account = &subject["serviceAccount"];
                account["namespace"] == namespace && is(&account["name"], name)
            }),
        _ => false,
    }
}

fn is_ruled(rule: &Value, attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Resource {
            verb,
            group,
            resource,
            subresource,
            namespace,
            ..
        } => {
            let resource = match subresource.as_str() {
                "" => resource.clone(),
                subresource => format!("{resource}/{subresource}"),
            };
            list(rule, "resourceRules").any(|rule| {
                let in_scope = match namespace.as_str() {
                    "" => rule["clusterScope"] == true,
                    namespace => has(rule, "namespaces", namespace),
                };
                in_scope
                    && has(rule, "verbs", verb)
                    && has(rule, "apiGroups", group)
                    && has(rule, "resources", &resource)
            })
        }
        Attributes::Path { verb, path } => list(rule, "nonResourceRules").any(|rule| {
            let covers = |pattern: &str| match pattern.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => pattern == path,
            };
            let mut urls = list(rule, "nonResourceURLs").filter_map(Value::as_str);
            has(rule, "verbs", verb) && urls.any(covers)
        }),
    }
}
