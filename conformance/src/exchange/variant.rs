//! Random variants of cases. They ask what no case asks: two servers that agree on all cases may differ there.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_machinery::json::{Value, json};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::format::Case;

/// The most changes of a variant's bodies.
const CHANGES_MAX: usize = 3;
/// How much of a case's name the name of a variant has, which is part of a namespace's.
const NAME_CHARS_MAX: usize = 40;
/// Values whose text is longer are not put elsewhere.
const WORD_BYTES_MAX: usize = 2000;

/// Variants of cases, without end: in each, fields of some request bodies are removed, added or have other values.
///
/// The values are those that any case has in a field of the same name, and a few odd ones. Equal cases and seeds give
/// equal variants. `${id}` and `${ns}` are other names than those of the case.
#[derive(Debug)]
pub struct Variants<'c> {
    cases: Vec<&'c Case>,
    words: Words,
    odd: Vec<Value>,
    rng: ChaCha8Rng,
    seed: u64,
    count: u64,
}

/// The fields and values of the bodies of all cases.
#[derive(Debug, Default)]
struct Words {
    /// The values of each field, by its name.
    values: BTreeMap<String, Vec<Value>>,
    /// The names of the fields of objects, by the name of the field that holds the object or the list of objects.
    fields: BTreeMap<String, BTreeSet<String>>,
}

impl Words {
    fn learn(&mut self, value: &Value, holder: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item, holder)),
            Value::Object(members) => {
                for (name, value) in members {
                    let fields = self.fields.entry(holder.to_owned()).or_default();
                    fields.insert(name.to_string());
                    let values = self.values.entry(name.to_string()).or_default();
                    if !values.contains(value) && value.to_string().len() <= WORD_BYTES_MAX {
                        values.push(value.clone());
                    }
                    self.learn(value, name);
                }
            }
            _ => {}
        }
    }
}

impl<'c> Variants<'c> {
    /// The variants of those `cases` that have a request with a body of JSON.
    #[must_use]
    pub fn new(cases: impl IntoIterator<Item = &'c Case>, seed: u64) -> Self {
        let cases: Vec<_> = cases
            .into_iter()
            .filter(|case| bodies(case.source()).next().is_some())
            .collect();
        let mut words = Words::default();
        for case in &cases {
            for index in bodies(case.source()) {
                words.learn(&case.source()["steps"][index]["body"], "");
            }
        }
        Self {
            cases,
            words,
            odd: odd_values(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            seed,
            count: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        let drawn = self.rng.next_u64() % (bound.max(1) as u64);
        usize::try_from(drawn).expect("it is below a usize")
    }

    /// Changes one member of one object in `body`.
    fn change(&mut self, body: &mut Value) {
        let mut objects = Vec::new();
        find_objects(body, "", "", &mut objects);
        if objects.is_empty() {
            return;
        }
        let (pointer, holder) = objects.swap_remove(self.below(objects.len()));
        let Some(Value::Object(object)) = body.pointer_mut(&pointer) else {
            return;
        };
        // Another kind or name makes the request another one.
        let is_kept = |name: &str| {
            pointer.is_empty() && matches!(name, "apiVersion" | "kind" | "metadata")
                || pointer == "/metadata" && matches!(name, "name" | "namespace")
        };
        let own = object.keys().filter(|name| !is_kept(name));
        let own: Vec<String> = own.map(|name| name.to_string()).collect();
        let known = self.words.fields.get(&holder);
        let known = known.into_iter().flatten().filter(|name| !is_kept(name));
        let known: Vec<String> = known.cloned().collect();
        let among = |all: &[String], at: usize| all.get(at).cloned();
        let way = self.below(10);
        let name = match way {
            0..6 => among(&own, self.below(own.len())),
            _ => among(&known, self.below(known.len())),
        };
        let Some(name) = name else {
            return;
        };
        match way {
            0..2 => {
                object.remove(&name);
            }
            2 => {
                let odd = self.below(self.odd.len());
                object.insert(name.as_str(), self.odd[odd].clone());
            }
            3 if matches!(object.get(&name), Some(Value::Array(items)) if !items.is_empty()) => {
                let Some(Value::Array(items)) = object.get_mut(&name) else {
                    return;
                };
                let item = items[self.below(items.len())].clone();
                items.push(item);
            }
            _ => {
                let values = self.words.values.get(&name).map_or(0, Vec::len);
                let drawn = self.below(values);
                if let Some(value) = self.words.values.get(&name).and_then(|own| own.get(drawn)) {
                    object.insert(name.as_str(), value.clone());
                }
            }
        }
    }
}

impl Iterator for Variants<'_> {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        if self.cases.is_empty() {
            return None;
        }
        let drawn = self.below(self.cases.len());
        let case = self.cases[drawn];
        let mut source = case.source().clone();
        self.count += 1;
        let name: String = case.name.chars().take(NAME_CHARS_MAX).collect();
        let name = name.trim_end_matches('-');
        source["case"] = format!("{name}-v{}-{}", self.seed, self.count).into();
        let steps: Vec<usize> = bodies(case.source()).collect();
        for _ in 0..=self.below(CHANGES_MAX) {
            let step = steps[self.below(steps.len())];
            let mut body = source["steps"][step]["body"].take();
            self.change(&mut body);
            source["steps"][step]["body"] = body;
        }
        Some(Case::parse(source).expect("only bodies and the name are others"))
    }
}

/// The indexes of the steps with a body of JSON.
fn bodies(case: &Value) -> impl Iterator<Item = usize> {
    let steps = case["steps"].as_array().into_iter().flatten().enumerate();
    steps
        .filter(|(_, step)| step["body"].is_object() || step["body"].is_array())
        .map(|(index, _)| index)
}

/// The pointers to all objects in `value`, and the name of the field that holds each.
fn find_objects(value: &Value, pointer: &str, holder: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_objects(item, &format!("{pointer}/{index}"), holder, found);
            }
        }
        Value::Object(members) => {
            found.push((pointer.to_owned(), holder.to_owned()));
            for (name, value) in members {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                find_objects(value, &format!("{pointer}/{escaped}"), name, found);
            }
        }
        _ => {}
    }
}

/// Values that are seldom right.
fn odd_values() -> Vec<Value> {
    let mut values = vec![json!(null), json!(true), json!([]), json!({}), json!(1.5)];
    values.extend([0, 1, -1, 65_536, 2_147_483_648_i64].map(Value::from));
    let texts = [
        "",
        "A_b",
        "a/b",
        "-1",
        "80%",
        "1Gi",
        "10.0.0.300",
        "2020-01-01T00:00:00Z",
        "é\u{0}",
    ];
    values.extend(texts.map(Value::from));
    values.push("x".repeat(300).into());
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;

    fn cases() -> Vec<Case> {
        let lines = [
            r#"{"case": {"case": "a", "steps": [{"req": "GET /api"}, {"req": "POST /a", "body": {"kind": "A", "spec": {"x": 1, "list": [{"y": "b"}]}}}]}}"#,
            r#"{"case": {"case": "b", "steps": [{"req": "POST /a", "body": {"kind": "B", "spec": {"x": 2, "a/b~": {"y": "c"}}}}]}}"#,
            r#"{"case": {"case": "none", "steps": [{"req": "GET /a"}, {"req": "POST /a", "body": "text"}]}}"#,
        ];
        lines.map(|line| Exchange::parse(line).unwrap().case).into()
    }

    fn sources(seed: u64) -> Vec<Value> {
        let cases = cases();
        let variants = Variants::new(&cases, seed).take(500);
        variants.map(|case| case.source().clone()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_variants_and_another_gives_others() {
        assert_eq!(sources(1), sources(1));
        assert_ne!(sources(1), sources(2));
        let names: BTreeSet<String> = sources(1)
            .iter()
            .map(|own| own["case"].to_string())
            .collect();
        assert_eq!(names.len(), 500);
        let long = format!(
            r#"{{"case": {{"case": "{}", "steps": [{{"req": "POST /a", "body": {{}}}}]}}}}"#,
            "a-".repeat(40)
        );
        let long = Exchange::parse(&long).unwrap().case;
        let variant = Variants::new([&long], 1).next().unwrap();
        assert_eq!(variant.name, format!("{}a-v1-1", "a-".repeat(19)));
    }

    #[test]
    fn bodies_vary_in_all_ways_and_nothing_else_does() {
        let mut seen = BTreeSet::new();
        for source in sources(7) {
            let is_a = source["case"].as_str().unwrap().starts_with("a-v7-");
            let body = match is_a {
                true => {
                    assert_eq!(source["steps"][0], json!({ "req": "GET /api" }));
                    &source["steps"][1]["body"]
                }
                false => &source["steps"][0]["body"],
            };
            assert_eq!(body["kind"], if is_a { "A" } else { "B" });
            seen.insert((is_a, "removed", body["spec"]["x"].is_null()));
            seen.insert((
                is_a,
                "of another case",
                body["spec"]["x"] == if is_a { 2 } else { 1 },
            ));
            seen.insert((is_a, "added", !body["spec"]["a/b~"].is_null() && is_a));
            let items = body["spec"]["list"].as_array().map_or(0, Vec::len);
            seen.insert((is_a, "repeated", items > 1));
            seen.insert((
                is_a,
                "odd",
                !body["spec"]["x"].is_null()
                    && ![1, 2].map(Value::from).contains(&body["spec"]["x"]),
            ));
        }
        for way in ["removed", "of another case", "added", "repeated", "odd"] {
            assert!(seen.contains(&(true, way, true)), "{way}");
        }
    }

    #[test]
    fn without_a_body_there_is_no_variant() {
        let cases = cases();
        assert!(Variants::new(&cases[2..], 1).next().is_none());
    }
}
