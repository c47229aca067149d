//! Values within the limits of a schema.

use kubeproof_machinery::json::{Map, Value, json};

use super::pattern::matching;

/// The value of a text without a limit.
const TEXT: &str = "example";
/// The most items or characters that are made because a schema asks for them.
const LENGTH_MAX: u64 = 64;

/// The type of the values of a schema.
pub(super) fn type_of(schema: &Value) -> &str {
    match schema["x-kubernetes-int-or-string"] == true {
        true => "integer",
        false => schema["type"].as_str().unwrap_or("object"),
    }
}

/// Returns a value of the schema with nothing but what is required: the default, or the first value that
/// [`candidates`] returns.
pub(super) fn example(schema: &Value) -> Value {
    let default = &schema["default"];
    if !default.is_null() && type_of(schema) != "object" {
        return default.clone();
    }
    match type_of(schema) {
        "object" => object(schema),
        "array" => {
            let items = schema["minItems"].as_u64().unwrap_or(0).min(LENGTH_MAX);
            (0..items).map(|_| example(&schema["items"])).collect()
        }
        _ => candidates(schema, &Value::Null)
            .into_iter()
            .next()
            .unwrap_or_default(),
    }
}

/// An object with the required properties.
fn object(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let mut object = Map::new();
    for name in required.filter_map(Value::as_str) {
        object.insert(name.to_owned(), example(&schema["properties"][name]));
    }
    let asked = schema["minProperties"]
        .as_u64()
        .unwrap_or(0)
        .min(LENGTH_MAX);
    let mut others = schema["properties"].as_object().into_iter().flatten();
    while (object.len() as u64) < asked {
        match others.next() {
            Some((name, schema)) => drop(
                object
                    .entry(name.clone())
                    .or_insert_with(|| example(schema)),
            ),
            None => {
                let name = format!("{TEXT}-{}", object.len());
                object.insert(name, example(&schema["additionalProperties"]));
            }
        }
    }
    Value::Object(object)
}

/// Returns values that the schema may allow and that differ from `now`, the likeliest first.
pub(super) fn candidates(schema: &Value, now: &Value) -> Vec<Value> {
    let mut values: Vec<Value> = match (schema["enum"].as_array(), type_of(schema)) {
        (Some(values), _) => from_the_next(values, now),
        (None, "boolean") => vec![json!(now != &Value::Bool(true))],
        (None, "integer") => numbers(schema, now)
            .into_iter()
            .map(|number| json!(number))
            .collect(),
        (None, "number") => {
            let whole = numbers(schema, &json!(now.as_f64().map_or(0, |now| now as i64)));
            whole
                .into_iter()
                .map(|number| json!(number as f64))
                .collect()
        }
        (None, "string") => texts(schema, now.as_str())
            .into_iter()
            .map(Value::from)
            .collect(),
        (None, "array") => arrays(schema, now),
        (None, _) => Vec::new(),
    };
    // Text stands for an amount that has a unit.
    if schema["x-kubernetes-int-or-string"] == true
        && let Some(text) = now.as_str()
    {
        values = texts(schema, Some(text))
            .into_iter()
            .map(Value::from)
            .chain(values)
            .collect();
    }
    values.retain(|value| value != now);
    values
}

/// The values after `now` in their order, and then those before it.
fn from_the_next(values: &[Value], now: &Value) -> Vec<Value> {
    let next = values
        .iter()
        .position(|value| value == now)
        .map_or(0, |index| index + 1);
    let (before, after) = values.split_at(next.min(values.len()));
    after.iter().chain(before).cloned().collect()
}

/// Whole numbers within the limits: the next greater ones first.
fn numbers(schema: &Value, now: &Value) -> Vec<i64> {
    let limit = |name: &str, exclusive: &str, inward: f64| {
        let limit = schema[name].as_f64()?;
        Some(match schema[exclusive] == true {
            true => limit + inward,
            false => limit,
        })
    };
    let least =
        limit("minimum", "exclusiveMinimum", 1.0).map_or(i64::MIN, |least| least.ceil() as i64);
    let most =
        limit("maximum", "exclusiveMaximum", -1.0).map_or(i64::MAX, |most| most.floor() as i64);
    let step = schema["multipleOf"]
        .as_f64()
        .map_or(1, |step| (step as i64).max(1));
    let around = match now.as_i64() {
        Some(now) => vec![
            now.saturating_add(step),
            now.saturating_sub(step),
            least,
            most,
        ],
        None => vec![step.max(least), least, most, 0],
    };
    let mut numbers = Vec::new();
    for number in around {
        // The least number of all may be below the last multiple.
        let Some(number) = number.checked_sub(number.rem_euclid(step)) else {
            continue;
        };
        if (least..=most).contains(&number) && !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// Texts: the present one with another number in it or a letter more, then texts of the format or pattern.
fn texts(schema: &Value, now: Option<&str>) -> Vec<String> {
    let mut texts = Vec::new();
    if let Some(now) = now.filter(|now| !now.is_empty()) {
        texts.extend(with_other_number(now));
        texts.push(format!("{now}-2"));
        texts.push(format!("{now}x"));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        texts.extend(matching(pattern));
    }
    texts.extend(
        of_format(schema["format"].as_str().unwrap_or_default())
            .iter()
            .map(|own| (*own).to_owned()),
    );
    texts.push(TEXT.to_owned());
    texts.push(format!("{TEXT}-2"));
    let length = |name: &str| schema[name].as_u64();
    if let Some(least) = length("minLength").filter(|least| *least <= LENGTH_MAX) {
        texts.push("a".repeat(usize::try_from(least).unwrap_or(0)));
    }
    if length("maxLength").is_some_and(|most| most < TEXT.len() as u64) {
        texts.push("a".to_owned());
    }
    // What every amount, duration and address allows.
    texts.extend(["1", "1Gi", "1h", "10.0.0.1"].map(str::to_owned));
    texts
}

/// The text with the last number in it one greater.
fn with_other_number(text: &str) -> Option<String> {
    let end = text.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let before = text[..end].trim_end_matches(|letter: char| letter.is_ascii_digit());
    let start = before.len();
    let number: u64 = text[start..end].parse().ok()?;
    Some(format!("{}{}{}", &text[..start], number + 1, &text[end..]))
}

fn of_format(format: &str) -> &'static [&'static str] {
    match format {
        "date" => &["2026-01-01", "2026-01-02"],
        "date-time" => &["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
        "duration" => &["1h", "2h"],
        "ipv4" | "ip" => &["10.0.0.1", "10.0.0.2"],
        "ipv6" => &["fd00::1", "fd00::2"],
        "cidr" => &["10.0.0.0/24", "10.0.1.0/24"],
        "uri" => &["https://example.com/a", "https://example.com/b"],
        "email" => &["a@example.com", "b@example.com"],
        "hostname" => &["a.example.com", "b.example.com"],
        "uuid" => &[
            "00000000-0000-4000-8000-000000000001",
            "00000000-0000-4000-8000-000000000002",
        ],
        "byte" => &["YQ==", "Yg=="],
        _ => &[],
    }
}

/// The array with an item more, or with the last one less.
fn arrays(schema: &Value, now: &Value) -> Vec<Value> {
    let items = now.as_array().cloned().unwrap_or_default();
    let new = match type_of(&schema["items"]) {
        "object" => vec![example(&schema["items"])],
        _ => candidates(&schema["items"], items.last().unwrap_or(&Value::Null)),
    };
    let added = new
        .into_iter()
        .map(|item| items.iter().cloned().chain([item]).collect());
    let mut arrays: Vec<Value> = added.collect();
    if let Some((_, rest)) = items.split_last() {
        arrays.push(rest.to_vec().into());
    }
    arrays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(schema: &Value, now: &Value) -> Value {
        candidates(schema, now)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    #[test]
    fn values_are_changed_within_their_limits() {
        for (schema, now, next) in [
            (json!({"type": "integer", "maximum": 5}), json!(3), json!(4)),
            (json!({"type": "integer", "maximum": 5}), json!(5), json!(4)),
            (
                json!({"type": "integer", "minimum": 3}),
                json!(null),
                json!(3),
            ),
            (
                json!({"type": "integer", "multipleOf": 10}),
                json!(20),
                json!(30),
            ),
            (
                json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
                json!(4),
                json!(3),
            ),
            (json!({"type": "number"}), json!(1.5), json!(2.0)),
            (json!({"type": "boolean"}), json!(null), json!(true)),
            (json!({"type": "boolean"}), json!(true), json!(false)),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("a"),
                json!("b"),
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("b"),
                json!("a"),
            ),
            (
                json!({"type": "string", "enum": ["a"]}),
                json!("a"),
                json!(null),
            ),
            (json!({"type": "string"}), json!("10Gi"), json!("11Gi")),
            (
                json!({"type": "string"}),
                json!("nginx:1.25"),
                json!("nginx:1.26"),
            ),
            (json!({"type": "string"}), json!("web"), json!("web-2")),
            (
                json!({"type": "string", "pattern": "^v[0-9]$"}),
                json!(null),
                json!("v1"),
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!(["a"]),
                json!(["a", "a-2"]),
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!("25%"),
                json!("26%"),
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(1),
                json!(2),
            ),
        ] {
            assert_eq!(first(&schema, &now), next, "{schema} {now}");
        }
    }

    #[test]
    fn an_example_has_what_is_required_and_no_more() {
        let schema = json!({
            "type": "object",
            "required": ["a", "list", "deep"],
            "properties": {
                "a": {"type": "string", "default": "x"},
                "b": {"type": "string"},
                "list": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 4}},
                "deep": {"type": "object", "required": ["c"], "properties": {"c": {"type": "boolean"}}},
            },
        });
        assert_eq!(
            example(&schema),
            json!({"a": "x", "list": [4], "deep": {"c": true}})
        );
    }
}
