//! Arbitrary objects of every kind, generated from the schemas that the server publishes, each
//! checked for what holds of all kinds: what is created is what is read, an update that changes
//! nothing writes nothing, in JSON and in protobuf, defaults are filled in once, and what is refused
//! is not stored.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generator;
mod protobuf;

use std::collections::BTreeSet;

use generator::{Generator, Schemas};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Map, Value};

use crate::support::requests::{Answer, send};

/// The smallest object of each kind.
const MINIMAL: &str = include_str!("round_trips/minimal.jsonl");

/// The first seed, and how many objects of a kind are tried. With `KUBEPROOF_SEED` in the
/// environment a run begins there and looks further.
fn extent() -> (u64, usize) {
    let given = std::env::var("KUBEPROOF_SEED").ok();
    given.map_or((1, 12), |seed| (seed.parse().unwrap(), 60))
}

fn minimal() -> impl Iterator<Item = Value> {
    MINIMAL
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
}

/// The path of the objects of a kind.
#[derive(Clone)]
struct Resource {
    collection: String,
    has_status: bool,
}

impl Resource {
    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }
}

fn root(api_version: &str) -> String {
    match api_version.contains('/') {
        true => format!("/apis/{api_version}"),
        false => format!("/api/{api_version}"),
    }
}

async fn resource(server: &ApiServer, object: &Value) -> Resource {
    let root = root(object["apiVersion"].as_str().unwrap());
    let list = send(server, &format!("GET {root}"), Value::Null).await.body;
    let resources = list["resources"].as_array().unwrap();
    let own = resources.iter().find(|resource| {
        resource["kind"] == object["kind"] && !resource["name"].as_str().unwrap().contains('/')
    });
    let own = own.unwrap_or_else(|| panic!("{} is not served", object["kind"]));
    let plural = own["name"].as_str().unwrap();
    let status = format!("{plural}/status");
    Resource {
        collection: match own["namespaced"] == true {
            true => format!("{root}/namespaces/default/{plural}"),
            false => format!("{root}/{plural}"),
        },
        has_status: resources.iter().any(|resource| resource["name"] == *status),
    }
}

/// A kind under test.
struct Subject {
    server: ApiServer,
    resource: Resource,
    /// Whether the name says what the object is, so that there can be but one.
    is_named: bool,
    count: usize,
}

impl Subject {
    async fn new(minimal: &Value) -> Self {
        let server = ApiServer::builder().build();
        let resource = resource(&server, minimal).await;
        Self {
            server,
            resource,
            is_named: minimal["metadata"]["name"].is_string(),
            count: 0,
        }
    }

    /// Gives the object a name that is free.
    fn name(&mut self, object: &mut Value) -> String {
        if self.is_named {
            self.server = ApiServer::builder().build();
        } else {
            self.count += 1;
            let name = match object["kind"] == "Event" {
                true => format!("x.{}", self.count),
                false => format!("x{}", self.count),
            };
            object["metadata"]["name"] = name.into();
        }
        object["metadata"]["name"].as_str().unwrap().to_owned()
    }

    async fn send(&self, verb: &str, path: &str, body: &Value) -> Answer {
        send(&self.server, &format!("{verb} {path}"), body.clone()).await
    }

    /// Creates the object and checks what came of it; whether it was accepted.
    async fn check(&mut self, mut object: Value) -> bool {
        let name = self.name(&mut object);
        let path = self.resource.object(&name);
        let created = self.send("POST", &self.resource.collection, &object).await;
        let mut warnings = created.warnings.iter();
        assert!(warnings.all(|warning| warning.starts_with("299 - \"")));
        if created.code != 201 {
            assert!(
                (400..500).contains(&created.code),
                "{object}\nis answered by {} {}",
                created.code,
                created.message(),
            );
            let found = self.send("GET", &path, &Value::Null).await;
            assert_eq!(found.code, 404, "{object}\nis refused and stored");
            return false;
        }
        let created = created.body;
        let read = self.send("GET", &path, &Value::Null).await.body;
        if has_status_of_the_server(&object) {
            assert_eq!(content(&created), content(&read), "is read otherwise");
        } else {
            assert_eq!(created, read, "{object}\nis read otherwise");
        }
        protobuf::check(&self.server, &self.resource.collection, &path, &read).await;
        self.check_update(&path, &read).await;
        self.check_defaults(&read).await;
        true
    }

    async fn check_update(&self, path: &str, created: &Value) {
        let updated = self.send("PUT", path, created).await;
        assert_eq!(updated.code, 200, "{created}\n{}", updated.body);
        assert_eq!(updated.body, *created, "an update changed something");
        if self.resource.has_status {
            let path = format!("{path}/status");
            let updated = self.send("PUT", &path, created).await;
            assert_eq!(updated.code, 200, "{created}\n{}", updated.body);
            assert_eq!(updated.body, *created, "an update changed the status");
        }
    }

    /// Writes a status and checks what came of it; whether it was accepted.
    async fn check_status(&self, path: &str, object: &Value, before: &Value) -> bool {
        let written = self.send("PUT", path, object).await;
        let read = self.send("GET", path, &Value::Null).await.body;
        if written.code != 200 {
            let (code, message) = (written.code, written.message());
            assert!((400..500).contains(&code), "{object}\n{code} {message}");
            assert_eq!(read, *before, "{object}\nis refused and stored");
            return false;
        }
        assert_eq!(written.body, read, "{object}\nis read otherwise");
        protobuf::unchanged(&self.server, path, &read).await;
        assert_eq!(read["spec"], before["spec"], "{object}\nchanged the spec");
        let again = self.send("PUT", path, &read).await;
        assert_eq!(again.code, 200, "{read}\n{}", again.body);
        assert_eq!(again.body, read, "an update changed the status");
        true
    }

    /// An object that has its defaults gets no others.
    async fn check_defaults(&mut self, created: &Value) {
        let mut again = content(created);
        again["metadata"] = kubeproof_apiserver::json::json!({});
        for field in ["labels", "annotations", "name"] {
            if !created["metadata"][field].is_null() {
                again["metadata"][field] = created["metadata"][field].clone();
            }
        }
        let _ = self.name(&mut again);
        // It may be of the sort of which there is but one.
        let path = self
            .resource
            .object(created["metadata"]["name"].as_str().unwrap());
        let now = kubeproof_apiserver::json::json!({ "gracePeriodSeconds": 0 });
        self.send("DELETE", &path, &now).await;
        let path = format!("{}?dryRun=All", self.resource.collection);
        let answer = self.send("POST", &path, &again).await;
        assert_eq!(answer.code, 201, "{again}\n{}", answer.body);
        assert_eq!(
            content(&answer.body),
            content(created),
            "defaults were filled in twice"
        );
    }
}

/// Whether the server itself writes the status after each write: it accepts the names of definitions,
/// looks for the priority levels of FlowSchemas, and for the services of APIServices.
fn has_status_of_the_server(object: &Value) -> bool {
    const KINDS: [&str; 3] = ["APIService", "CustomResourceDefinition", "FlowSchema"];
    KINDS.iter().any(|kind| object["kind"] == *kind)
}

/// The object without its metadata and status, and without what no two objects may share.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    let fields: &mut Map = content.as_object_mut().unwrap();
    fields.remove("metadata");
    fields.remove("status");
    if object["kind"] == "Service"
        && let Some(spec) = content["spec"].as_object_mut()
    {
        for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            if spec
                .get(field)
                .is_some_and(|own| !own.to_string().contains("None"))
            {
                spec.remove(field);
            }
        }
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    if object["kind"] == "Job" && object["spec"]["manualSelector"] != true {
        let spec = content["spec"].as_object_mut().unwrap();
        spec.remove("selector");
        let labels = spec["template"]["metadata"]["labels"].as_object_mut();
        labels
            .unwrap()
            .retain(|name, _| !name.ends_with("job-name") && !name.ends_with("controller-uid"));
    }
    content
}

/// Every kind that can be created, read and updated.
async fn kinds(server: &ApiServer) -> BTreeSet<(String, String)> {
    let groups = send(server, "GET /apis", Value::Null).await.body;
    let versions = groups["groups"].as_array().unwrap().iter();
    let versions = versions.flat_map(|group| group["versions"].as_array().unwrap());
    let mut names = vec!["v1".to_owned()];
    names.extend(versions.map(|own| own["groupVersion"].as_str().unwrap().to_owned()));
    let mut kinds = BTreeSet::new();
    for name in names {
        let list = send(server, &format!("GET {}", root(&name)), Value::Null)
            .await
            .body;
        for resource in list["resources"].as_array().unwrap() {
            let has = |verb: &str| resource["verbs"].as_array().unwrap().contains(&verb.into());
            let is_whole = !resource["name"].as_str().unwrap().contains('/');
            if is_whole && has("create") && has("update") && has("get") {
                let kind = resource["kind"].as_str().unwrap();
                kinds.insert((name.clone(), kind.to_owned()));
            }
        }
    }
    kinds
}

#[tokio::test]
async fn there_is_a_smallest_object_of_every_kind() {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let own: BTreeSet<_> = minimal()
        .map(|object| (text(&object["apiVersion"]), text(&object["kind"])))
        .collect();
    assert_eq!(own, kinds(&ApiServer::builder().build()).await);
    for object in minimal() {
        let mut subject = Subject::new(&object).await;
        assert!(subject.check(object.clone()).await, "{object} is refused");
    }
}

#[tokio::test]
async fn generated_objects_are_stored_as_they_are_or_not_at_all() {
    let (first, tries) = extent();
    let (mut tried, mut accepted) = (0, 0);
    for (seed, minimal) in (first..).zip(minimal()) {
        let mut subject = Subject::new(&minimal).await;
        let schemas = Schemas::new(&subject.server, &minimal).await;
        let mut generator = Generator::new(&schemas, seed);
        let mut object = minimal.clone();
        for at in 0..tries {
            let mut next = match at % 10 {
                0 => minimal.clone(),
                _ => object.clone(),
            };
            generator.grow(&mut next);
            tried += 1;
            if subject.check(next.clone()).await {
                accepted += 1;
                object = next;
            }
        }
    }
    // A generator whose objects are all refused would show nothing.
    assert!(accepted * 4 > tried, "{accepted} of {tried} were accepted");
}

#[tokio::test]
async fn spoilt_objects_are_refused_without_a_trace() {
    let (first, tries) = extent();
    for (seed, minimal) in (first + 1000..).zip(minimal()) {
        let mut subject = Subject::new(&minimal).await;
        let schemas = Schemas::new(&subject.server, &minimal).await;
        let mut generator = Generator::new(&schemas, seed);
        for _ in 0..tries {
            let mut object = minimal.clone();
            generator.grow(&mut object);
            generator.spoil(&mut object);
            subject.check(object).await;
        }
    }
}

#[tokio::test]
async fn generated_statuses_are_stored_once_or_not_at_all() {
    let (first, tries) = extent();
    let (mut tried, mut accepted) = (0, 0);
    for (seed, minimal) in (first + 2000..).zip(minimal()) {
        let mut subject = Subject::new(&minimal).await;
        if !subject.resource.has_status || has_status_of_the_server(&minimal) {
            continue;
        }
        let schemas = Schemas::new(&subject.server, &minimal).await;
        let mut generator = Generator::new(&schemas, seed);
        let mut object = minimal.clone();
        let name = subject.name(&mut object);
        let created = subject.send("POST", &subject.resource.collection, &object);
        assert_eq!(created.await.code, 201);
        let path = subject.resource.object(&name);
        let of_status = format!("{path}/status");
        for at in 0..tries {
            let mut next = subject.send("GET", &path, &Value::Null).await.body;
            let before = next.clone();
            generator.grow_status(&mut next);
            if at % 4 == 3 {
                generator.spoil(&mut next);
            }
            tried += 1;
            accepted += u32::from(subject.check_status(&of_status, &next, &before).await);
        }
    }
    assert!(accepted * 4 > tried, "{accepted} of {tried} were accepted");
}
