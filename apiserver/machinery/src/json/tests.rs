use serde::Deserialize;

use super::*;

/// Names that share their beginnings, or differ after them, or are not texts of ASCII.
const NAMES: [&str; 14] = [
    "",
    "\0",
    "a",
    "a\0",
    "a\0b",
    "ab",
    "containerID",
    "containerStatuses",
    "containers",
    "eightand",
    "eightandmore",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "ä",
];

/// Members of these names, added in this order.
fn members<'n>(names: impl IntoIterator<Item = &'n str>) -> Map {
    names.into_iter().map(|name| (name, name.into())).collect()
}

fn serde(value: &Value) -> serde_json::Value {
    value.clone().into()
}

#[test]
fn members_are_sorted_by_name_however_they_are_added() {
    let sorted = members(NAMES);
    assert!(sorted.keys().eq(NAMES));
    assert_eq!(members(NAMES.into_iter().rev()), sorted);
    let (odd, even): (Vec<_>, Vec<_>) = NAMES.into_iter().partition(|name| name.len() % 2 == 1);
    assert_eq!(members(even.into_iter().chain(odd)), sorted);
}

#[test]
fn members_are_found_among_few_and_among_many() {
    let many: Vec<String> = (0..40).map(|index| format!("name-{index}")).collect();
    let many = many.iter().map(String::as_str);
    for names in [NAMES.to_vec(), NAMES.into_iter().chain(many).collect()] {
        let mut map = members(names.iter().copied());
        for name in &names {
            assert_eq!(map.get(name).and_then(Value::as_str), Some(*name));
            assert!(!map.contains_key(&format!("{name}x")), "{name}");
        }
        assert_eq!(map.insert("a", 1.into()), Some("a".into()));
        assert_eq!(map.remove("a"), Some(1.into()));
        assert_eq!(map.remove("a"), None);
        assert_eq!(map.len(), names.len() - 1);
        assert!(
            names
                .iter()
                .all(|name| *name == "a" || map.contains_key(name))
        );
    }
}

#[test]
fn many_members_are_the_same_in_any_order() {
    let names: Vec<String> = (0..1000).map(|index| format!("name-{index:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sorted = members(names.iter().copied());
    let mut reversed = members(names.iter().rev().copied());
    assert_eq!(reversed, sorted);
    assert_eq!(sorted, reversed);
    assert!(reversed.keys().rev().eq(names.iter().rev().copied()));
    assert_eq!(reversed.iter().len(), 1000);
    assert_eq!(
        reversed.insert("name-500", 1.into()),
        Some("name-500".into())
    );
    assert_ne!(reversed, sorted);
    *reversed.get_mut("name-500").unwrap() = "name-500".into();
    assert_eq!(
        Value::from(reversed.clone()).to_string(),
        Value::from(sorted.clone()).to_string()
    );

    let mut other = sorted.clone();
    for map in [&mut reversed, &mut other] {
        assert_eq!(map.remove("name-000"), Some("name-000".into()));
        assert_eq!(map.remove("name-000"), None);
        *map.entry("name-001").or_insert(Value::Null) = 2.into();
        assert_eq!(map.entry("name-000").or_insert(3.into()), &3);
        match map.entry("name-002") {
            Entry::Occupied(entry) => assert_eq!(entry.remove(), "name-002"),
            Entry::Vacant(_) => unreachable!(),
        }
        map.retain(|name, _| name.ends_with(['0', '1', '2']));
        map.values_mut().for_each(|value| *value = value.take());
    }
    assert_eq!(reversed, other);
    assert_eq!(reversed.len(), 299);
    assert!(
        reversed
            .clone()
            .into_keys()
            .eq(other.into_iter().map(|(name, _)| name))
    );
    assert!(Vec::from_iter(reversed.into_values()).contains(&2.into()));
}

/// A node of a tree is moved and compared often.
#[test]
fn a_member_fits_into_a_cache_line() {
    assert_eq!((size_of::<Map>(), size_of::<Value>()), (24, 32));
}

#[test]
fn an_entry_is_a_members_place() {
    let mut map = members(["a", "c"]);
    *map.entry("b").or_insert(Value::Null) = 2.into();
    map.entry("a").or_insert_with(|| unreachable!());
    match map.entry("c") {
        Entry::Occupied(mut entry) => {
            assert_eq!(entry.insert(3.into()), "c");
            assert_eq!(entry.remove(), 3);
        }
        Entry::Vacant(_) => unreachable!(),
    }
    assert_eq!(Value::Object(map), json!({ "a": "a", "b": 2 }));
}

#[test]
fn texts_are_read_and_written_as_serde_json_does() {
    let text = r#"{"z":[1,-2,3.5,1e300,18446744073709551615,null,true,"é\n\"","a text of more than 23 bytes"],"a":{},"a":{"b":[]}}"#;
    let value: Value = text.parse().unwrap();
    let theirs: serde_json::Value = text.parse().unwrap();
    assert_eq!(value, Value::from(theirs.clone()));
    assert_eq!(serde(&value), theirs);
    assert_eq!(value.to_string(), theirs.to_string());
    assert_eq!(format!("{value:#}"), format!("{theirs:#}"));
    assert_eq!(format!("{value:?}"), format!("{theirs:?}"));
    assert_eq!(to_value(&value).unwrap(), value);
}

#[test]
fn types_are_read_out_of_values_as_out_of_texts() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Newtype(i64);

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Unit,
        Of(u8),
        With { name: String },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        number: Newtype,
        choices: Vec<Choice>,
        pair: (bool, f64),
        missing: Option<String>,
        null: Option<String>,
        some: Option<String>,
        any: Value,
    }

    let value = json!({
        "number": -1,
        "choices": ["Unit", { "Of": 2 }, { "With": { "name": "a" } }],
        "pair": [true, 0.5],
        "null": null,
        "some": "b",
        "any": { "c": [] },
    });
    let read = Document::deserialize(&value).unwrap();
    assert_eq!(read, serde_json::from_str(&value.to_string()).unwrap());
    assert_eq!(read, from_value(value.clone()).unwrap());
    for (path, wrong) in [
        ("/number", json!("x")),
        ("/choices/0", json!("Other")),
        ("/choices/0", json!(1)),
        ("/pair", json!([true, 0.5, 1])),
        ("/some", json!({})),
        ("/other", json!(0)),
    ] {
        let mut value = value.clone();
        match value.pointer_mut(path) {
            Some(place) => *place = wrong,
            None => value["other"] = wrong,
        }
        assert!(Document::deserialize(&value).is_err(), "{path}");
        assert!(from_value::<Document>(value).is_err(), "{path}");
    }
}

#[test]
fn values_are_found_by_index_and_by_pointer() {
    let mut value = json!({ "a/b": { "~": ["x", { "c": 1 }] } });
    assert_eq!(value["a/b"]["~"][1]["c"], 1);
    assert_eq!(value.pointer("/a~1b/~0/1/c"), Some(&1.into()));
    for nowhere in [
        "a",
        "/a~1b/~0/01",
        "/a~1b/~0/+1",
        "/a~1b/~0/2",
        "/a~1b/~0/0/x",
    ] {
        assert_eq!(value.pointer(nowhere), None, "{nowhere}");
    }
    assert_eq!(value.pointer(""), Some(&value));
    assert!(value["nothing"]["below"][3].is_null());
    *value.pointer_mut("/a~1b/~0/0").unwrap() = 2.into();
    value["new"]["below"] = "y".into();
    assert_eq!(
        value.take(),
        json!({ "a/b": { "~": [2, { "c": 1 }] }, "new": { "below": "y" } })
    );
    assert!(value.is_null());
}

#[test]
#[should_panic(expected = "1 has no member \"a\"")]
fn a_number_has_no_members() {
    json!(1)["a"] = 2.into();
}
