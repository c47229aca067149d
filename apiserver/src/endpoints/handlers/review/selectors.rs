//! The selectors that narrow a question about a resource.

use super::texts;
use crate::auth::Selectors;
use crate::json::Value;
use crate::meta::selector::{FieldSelector, LabelSelector};

/// Returns the selectors of a question in the form of a query, and the faults of those that do not
/// count in full. Unreadable requirements are left out, because a requirement only narrows a question.
pub(super) fn read(spec: &Value) -> (Selectors<'static>, Vec<String>) {
    let asked = &spec["resourceAttributes"];
    let mut faults = Vec::new();
    let mut read = |name: &str, term: fn(&Value) -> Option<String>, parses: fn(&str) -> bool| {
        let (query, fault) = query(&asked[name], term, parses);
        faults.extend(
            fault.map(|how| format!("spec.resourceAttributes.{name} {how} due to parse error")),
        );
        query
    };
    let field = read("fieldSelector", field_term, |query| {
        FieldSelector::parse(query).is_ok()
    });
    let label = read("labelSelector", label_term, |query| {
        LabelSelector::parse(query).is_ok()
    });
    let selectors = Selectors {
        field: field.into(),
        label: label.into(),
    };
    (selectors, faults)
}

fn query(
    selector: &Value,
    term: fn(&Value) -> Option<String>,
    parses: fn(&str) -> bool,
) -> (String, Option<&'static str>) {
    match selector["rawSelector"].as_str().unwrap_or_default() {
        "" => {}
        raw if parses(raw) => return (raw.to_owned(), None),
        _ => return (String::new(), Some("ignored")),
    }
    let requirements = selector["requirements"].as_array();
    let requirements = requirements.map_or(&[][..], Vec::as_slice);
    let terms: Vec<String> = requirements.iter().filter_map(term).collect();
    let fault = match terms.len() {
        all if all == requirements.len() => None,
        0 => Some("ignored"),
        _ => Some("partially ignored"),
    };
    (terms.join(","), fault)
}

fn field_term(requirement: &Value) -> Option<String> {
    let operator = match requirement["operator"].as_str()? {
        "In" => "=",
        "NotIn" => "!=",
        _ => return None,
    };
    let [value] = requirement["values"].as_array()?.as_slice() else {
        return None;
    };
    let value = value.as_str()?.replace('\\', "\\\\");
    let value = value.replace(',', "\\,").replace('=', "\\=");
    Some(format!("{}{operator}{value}", requirement["key"].as_str()?))
}

fn label_term(requirement: &Value) -> Option<String> {
    let key = requirement["key"].as_str()?;
    let values = texts(&requirement["values"]).join(",");
    match requirement["operator"].as_str()? {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}
