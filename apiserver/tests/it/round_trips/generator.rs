//! Arbitrary values of a schema, from a seed.

use std::collections::BTreeMap;

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Map, SmolStr, Value, from_value, json};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::root;
use crate::support::requests::send;

/// The schemas of a group and version, by name, and which of them is that of the kind.
pub(crate) struct Schemas {
    all: BTreeMap<String, Value>,
    own: Value,
}

impl Schemas {
    /// The schemas of the group version of `object`, and the schema of its kind.
    pub(crate) async fn new(server: &ApiServer, object: &Value) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap();
        let path = format!("GET /openapi/v3{}", root(api_version));
        let mut document = send(server, &path, Value::Null).await.body;
        let all: BTreeMap<String, Value> =
            from_value(document["components"]["schemas"].take()).unwrap();
        let version = api_version.rsplit('/').next().unwrap();
        let group = api_version.split(['/', '.']).next().unwrap();
        let is_own = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|own| {
                own["kind"] == object["kind"]
                    && own["version"] == version
                    && (group == version || own["group"].as_str().unwrap().starts_with(group))
            })
        };
        let own = all.values().find(is_own);
        let own = own
            .unwrap_or_else(|| panic!("{object} has no schema"))
            .clone();
        Self { all, own }
    }

    /// The schema itself, where another one only names it.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"]
            .as_str()
            .or(schema["allOf"][0]["$ref"].as_str());
        match reference.and_then(|path| path.rsplit('/').next()) {
            Some(name) => &self.all[name],
            None => schema,
        }
    }
}

/// Values where a schema states only the type string.
const TEXTS: &[&str] = &[
    "", "a", "b", "web", "A_b", "a.io/b", "10.0.0.1", "/x", "1", "80%", "Never", "é", "a b",
];

/// Values that are valid nowhere.
const JUNK: &[&str] = &[
    "null",
    "true",
    "-1",
    "1.5",
    "1e30",
    "\"\"",
    "\"\\u0000\"",
    "[]",
    "[null]",
    "{}",
    "{\"a\":{\"b\":[1]}}",
    "9223372036854775807",
    "-9223372036854775808",
    "\"-5Ki\"",
    "\"$(X)\"",
    "[[[]]]",
    "4294967296",
    "\"2024-13-01T00:00:00Z\"",
    "[\"a\",\"a\"]",
    "[{},{}]",
];

/// A source of values.
pub(crate) struct Generator<'a> {
    schemas: &'a Schemas,
    rng: ChaCha8Rng,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(schemas: &'a Schemas, seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { schemas, rng }
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.rng.next_u64() as usize % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Sets a field somewhere in the object, which it need not have had.
    pub(crate) fn grow(&mut self, object: &mut Value) {
        let schemas = self.schemas;
        let fields = schemas.own["properties"].as_object().unwrap();
        let own = |name: &&SmolStr| {
            !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str())
        };
        let names: Vec<&SmolStr> = fields.keys().filter(own).collect();
        let Some(name) = (!names.is_empty()).then(|| self.one_of(&names)) else {
            return;
        };
        let fields = object.as_object_mut().unwrap();
        self.grow_field(fields, name, &schemas.own["properties"][name]);
    }

    /// Sets a field somewhere in the status of the object.
    pub(crate) fn grow_status(&mut self, object: &mut Value) {
        let schemas = self.schemas;
        let schema = &schemas.own["properties"]["status"];
        if schema.is_object() {
            let fields = object.as_object_mut().unwrap();
            self.grow_field(fields, "status", schema);
        }
    }

    fn grow_field(&mut self, fields: &mut Map, name: &str, schema: &'a Value) {
        match fields.get_mut(name) {
            // Rarely, another value replaces the present one.
            Some(value) if self.below(8) > 0 => self.grow_value(value, name, schema),
            _ => {
                let value = self.value(schema, name, 0);
                fields.insert(name.to_owned(), value);
            }
        }
    }

    fn grow_value(&mut self, value: &mut Value, name: &str, schema: &'a Value) {
        let schema = self.schemas.resolve(schema);
        match value {
            Value::Object(fields) if schema["properties"].is_object() => {
                let all = schema["properties"].as_object().unwrap();
                let names: Vec<&SmolStr> = all.keys().collect();
                let name = self.one_of(&names);
                self.grow_field(fields, name, &all[name]);
            }
            Value::Array(items) if !items.is_empty() && self.below(4) > 0 => {
                let at = self.below(items.len());
                self.grow_value(&mut items[at], name, &schema["items"]);
            }
            Value::Array(items) => {
                let item = self.value(&schema["items"], name, 0);
                items.push(item);
            }
            value => *value = self.value(schema, name, 0),
        }
    }

    /// Puts something into the object that is not meant to be there.
    pub(crate) fn spoil(&mut self, object: &mut Value) {
        let mut place = object;
        loop {
            let len = match &*place {
                Value::Object(fields) => fields.len(),
                Value::Array(items) => items.len(),
                _ => 0,
            };
            if len == 0 || self.below(5) == 0 {
                break;
            }
            let at = self.below(len);
            place = match place {
                Value::Object(fields) => {
                    // The kind and the name determine the target of the request.
                    let fixed = ["apiVersion", "kind", "metadata"];
                    let own = |field: &(&SmolStr, &mut Value)| !fixed.contains(&field.0.as_str());
                    let mut own: Vec<_> = fields.iter_mut().filter(own).collect();
                    if own.is_empty() {
                        return;
                    }
                    let len = own.len();
                    own.swap_remove(at % len).1
                }
                Value::Array(items) => &mut items[at],
                _ => break,
            };
        }
        // The object itself stays an object, else there is nothing to be named.
        if place.get("apiVersion").is_none() || place.get("kind").is_none() {
            *place = serde_json::from_str(self.one_of(JUNK)).unwrap();
        }
    }

    fn value(&mut self, schema: &'a Value, name: &str, depth: usize) -> Value {
        let schema = self.schemas.resolve(schema);
        if let Some(all) = schema["enum"].as_array() {
            let at = self.below(all.len());
            return all[at].clone();
        }
        match schema["type"].as_str() {
            Some("string") => self.text(schema["format"].as_str(), name),
            Some("integer") => match name.to_lowercase() {
                name if name.contains("port") => self.one_of(&[80, 443, 30_080, 0, 70_000]).into(),
                _ => self.one_of(&[0, 1, 2, 5, 30, 1000, -1]).into(),
            },
            Some("boolean") => (self.below(2) == 0).into(),
            Some("number") => 1.into(),
            Some("array") => {
                let len = 1 + self.below(2);
                let items = (0..len).map(|_| self.value(&schema["items"], name, depth + 1));
                items.collect()
            }
            Some("object") if schema["properties"].is_object() => self.object(schema, depth),
            Some("object") => {
                let values = &schema["additionalProperties"];
                let key = self.one_of(&["a", "b.io/c", "cpu", "memory", "pods", "storage"]);
                match values.is_object() {
                    true => json!({ key: self.value(values, name, depth + 1) }),
                    false => json!({}),
                }
            }
            // Either an integer or a string, which a quantity may be as well.
            _ if schema["oneOf"].is_array() => self.one_of(&["1", "10%", "1Gi", "500m"]).into(),
            _ => json!({}),
        }
    }

    fn object(&mut self, schema: &'a Value, depth: usize) -> Value {
        let required = schema["required"].as_array();
        let is_required = |name: &SmolStr| {
            let mut required = required.into_iter().flatten();
            required.any(|own| *own == **name)
        };
        let all = schema["properties"].as_object().unwrap();
        let mut fields = Map::new();
        for (name, schema) in all {
            if (is_required(name) && depth < 12) || (depth < 6 && self.below(depth + 3) == 0) {
                fields.insert(name.clone(), self.value(schema, name, depth + 1));
            }
        }
        Value::Object(fields)
    }

    fn text(&mut self, format: Option<&str>, name: &str) -> Value {
        if format == Some("date-time") {
            return "2024-05-06T07:08:09Z".into();
        }
        if format == Some("byte") {
            return "aGFsbG8=".into();
        }
        let lower = name.to_lowercase();
        if self.below(8) == 0 {
            return self.one_of(TEXTS).into();
        }
        match lower.as_str() {
            name if name.ends_with("path") => self.one_of(&["/a", "/b/c", "d"]).into(),
            name if name.ends_with("ip") || name.ends_with("ips") => {
                self.one_of(&["10.0.0.7", "10.2.3.4", "fd00::1"]).into()
            }
            "key" | "topologykey" | "labelselectorpath" => self.one_of(&["a", "b.io/c"]).into(),
            "operator" => self.one_of(&["In", "Exists", "DoesNotExist"]).into(),
            "apiversion" => "v1".into(),
            "expression" => self.one_of(&["true", "object.metadata.name == 'x'"]).into(),
            name if name.ends_with("name") || name == "namespace" || name == "kind" => {
                self.one_of(&["a", "b", "web"]).into()
            }
            _ => self.one_of(TEXTS).into(),
        }
    }
}
