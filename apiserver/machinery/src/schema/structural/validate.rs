//! Whether a value fulfils a schema, with upstream's faults in upstream's order.

mod fault;
mod old;
mod scalar;

use std::collections::BTreeSet;

use super::{AdditionalProperties, Structural};
use crate::cancellation;
use crate::json::{Map, SmolStr, Value};
use crate::meta::order::Ordered;
use crate::status::{FieldErrors, FieldPath, quoted};
use fault::{Fault, Faults, Kind};
use old::Old;

/// The faults of a value, and how many checks it passed: if alternatives fail, the faults of the
/// closest one are reported.
#[derive(Debug, Default)]
struct Outcome {
    faults: Faults,
    matches: usize,
}

impl Outcome {
    fn of(fault: Fault) -> Self {
        let mut outcome = Self::default();
        outcome.add(fault);
        outcome
    }

    fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    fn add(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    fn merge(&mut self, other: Self) {
        self.faults.merge(other.faults);
        self.matches += other.matches;
    }
}

impl Structural {
    /// The faults of `value`, whose place is `path`; empty for a whole object.
    #[must_use]
    pub fn validate(&self, path: &FieldPath, value: &Value) -> FieldErrors {
        fault::errors(path, validate(self, "", value, None).faults)
    }

    /// The faults of `value` that are new since `old`: unchanged values are not validated.
    #[must_use]
    pub fn validate_update(
        &self,
        path: &FieldPath,
        value: &Value,
        old: Option<&Value>,
    ) -> FieldErrors {
        let old = Old::root(self, old);
        fault::errors(path, ratcheted(self, "", value, old).faults)
    }
}

/// Checks a value that may have an old one: if they are equal, nothing is wrong.
fn ratcheted(schema: &Structural, path: &str, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = validate(schema, path, value, old);
    if !outcome.is_valid() && old.is_some_and(|old| old.is(value)) {
        outcome.faults = Faults::default();
    }
    outcome
}

fn validate(schema: &Structural, path: &str, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(scalar::types(schema, path, value));
        outcome.merge(enumeration(schema, path, value));
        return outcome;
    }
    let format = schema.supported_format();
    let mut check = |checked: Outcome| {
        outcome.merge(checked);
        outcome.matches += 1;
    };
    if !schema.value_type.is_empty() || schema.int_or_string || !format.is_empty() {
        check(scalar::types(schema, path, value));
    }
    check(junctors(schema, path, value, old));
    match value {
        Value::String(text) => {
            check(scalar::string(schema, path, text));
            if !format.is_empty() && super::format::is_supported("string", format) {
                check(scalar::format(format, path, text));
            }
        }
        Value::Number(number) => check(scalar::number(schema, path, number)),
        Value::Array(items) => check(list(schema, path, items, old)),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    check(enumeration(schema, path, value));
    if let Value::Object(fields) = value {
        check(object(schema, path, fields, old));
    }
    outcome.matches += 1;
    outcome
}

/// `anyOf`, `oneOf`, `allOf` and `not`.
fn junctors(schema: &Structural, path: &str, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let rules = &schema.value;
    if !rules.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut valid = None;
        for clause in &rules.any_of {
            let result = validate(clause, path, value, old);
            if result.is_valid() {
                valid = Some(result);
                break;
            }
            if best
                .as_ref()
                .is_none_or(|best| result.matches > best.matches)
            {
                best = Some(result);
            }
        }
        if valid.is_none() {
            let message = format!("{} must validate at least one schema (anyOf)", quoted(path));
            outcome.add(Fault::whole(message));
        }
        if let Some(result) = valid.or(best) {
            outcome.merge(result);
        }
    }
    if !rules.one_of.is_empty() {
        outcome.merge(one_of(&rules.one_of, path, value, old));
    }
    if !rules.all_of.is_empty() {
        let mut valid = 0;
        for clause in &rules.all_of {
            let result = validate(clause, path, value, old);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid != rules.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let message = format!(
                "{} must validate all the schemas (allOf){none}",
                quoted(path)
            );
            outcome.add(Fault::whole(message));
        }
    }
    if let Some(not) = &rules.not
        && validate(not, path, value, old).is_valid()
    {
        let message = format!("{} must not validate the schema (not)", quoted(path));
        outcome.add(Fault::whole(message));
    }
    outcome.matches += 1;
    outcome
}

fn one_of(clauses: &[Structural], path: &str, value: &Value, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut best: Option<Outcome> = None;
    let mut first = None;
    let mut valid = 0;
    for clause in clauses {
        let result = validate(clause, path, value, old);
        if result.is_valid() {
            valid += 1;
            best = None;
            first.get_or_insert(result);
        } else if valid == 0
            && best
                .as_ref()
                .is_none_or(|best| result.matches > best.matches)
        {
            best = Some(result);
        }
    }
    match (valid, first) {
        (1, Some(first)) => outcome.merge(first),
        (valid, _) => {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                valid => format!("Found {valid} valid alternatives"),
            };
            let message = format!(
                "{} must validate one and only one schema (oneOf). {found}",
                quoted(path)
            );
            outcome.add(Fault::whole(message));
            if let Some(best) = best {
                outcome.merge(best);
            }
        }
    }
    outcome
}

fn enumeration(schema: &Structural, path: &str, value: &Value) -> Outcome {
    let allowed = &schema.value.enumeration;
    let is_same = |allowed: &Value| match (allowed, value) {
        (Value::Number(allowed), Value::Number(number)) => {
            allowed == number || allowed.as_f64() == number.as_f64()
        }
        _ => allowed == value,
    };
    if allowed.is_empty() || (!value.is_null() && allowed.iter().any(is_same)) {
        return Outcome::default();
    }
    let kind = Kind::NotSupported {
        value: value.clone(),
        allowed: allowed.clone(),
    };
    let texts = allowed.iter().map(|allowed| match allowed {
        Value::String(text) => text.clone(),
        other => other.to_string().into(),
    });
    let why = format!("should be one of [{}]", texts.collect::<Vec<_>>().join(" "));
    Outcome::of(Fault::at(path, kind, &why))
}

fn list(schema: &Structural, path: &str, items: &[Value], old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(item_schema) = &schema.items {
        let old = old.and_then(Old::items);
        for (index, item) in items.iter().enumerate() {
            if cancellation::is_requested() {
                break;
            }
            let path = format!("{path}[{index}]");
            let old = old.as_ref().and_then(|old| old.item(item));
            outcome.merge(ratcheted(item_schema, &path, item, old));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.value.min_items.filter(|min| size < *min) {
        let why = format!("should have at least {min} items");
        outcome.add(Fault::at(path, Kind::Invalid(size.into()), &why));
    }
    if let Some(max) = schema.value.max_items.filter(|max| size > *max) {
        let why = format!("should have at most {max} items");
        outcome.add(Fault::at(path, Kind::TooMany { actual: size, max }, &why));
    }
    let mut seen = BTreeSet::new();
    let mut is_repeated = |item| !seen.insert(Ordered(item));
    if schema.value.unique_items && items.iter().any(&mut is_repeated) {
        let kind = Kind::Invalid("".into());
        outcome.add(Fault::at(path, kind, "shouldn't contain duplicates"));
    }
    outcome.matches += 1;
    outcome
}

fn object(schema: &Structural, path: &str, fields: &Map, old: Option<Old<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.value.min_properties.filter(|min| size < *min) {
        let why = format!("should have at least {min} properties");
        outcome.add(Fault::at(path, Kind::Invalid(size.into()), &why));
    }
    if let Some(max) = schema.value.max_properties.filter(|max| size > *max) {
        let why = format!("should have at most {max} properties");
        outcome.add(Fault::at(path, Kind::TooMany { actual: size, max }, &why));
    }
    let others = || {
        let is_other =
            |(name, _): &(&SmolStr, &Value)| !schema.properties.contains_key(name.as_str());
        fields.iter().filter(is_other)
    };
    match &schema.additional_properties {
        Some(AdditionalProperties::Allowed(false)) => {
            for (name, _) in others() {
                outcome.add(Fault::forbidden(path, name));
            }
        }
        Some(AdditionalProperties::Schema(schema)) => {
            for (name, value) in others() {
                let old = old.and_then(|old| old.field(name));
                outcome.merge(ratcheted(schema, &format!("{path}.{name}"), value, old));
            }
        }
        Some(AdditionalProperties::Allowed(true)) | None => {}
    }
    for (name, schema) in &schema.properties {
        let Some(value) = fields.get(name) else {
            continue;
        };
        // Type fields are the same before and after by conversion: nothing is forgiven there.
        let is_type = path.is_empty() && matches!(name.as_str(), "kind" | "apiVersion");
        let old = old.filter(|_| !is_type).and_then(|old| old.field(name));
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        outcome.merge(ratcheted(schema, &path, value, old));
    }
    for name in &schema.value.required {
        if !fields.contains_key(name) {
            let path = format!("{path}.{name}");
            outcome.add(Fault::at(&path, Kind::Required, "is required"));
        }
    }
    outcome
}

#[cfg(test)]
mod tests;
