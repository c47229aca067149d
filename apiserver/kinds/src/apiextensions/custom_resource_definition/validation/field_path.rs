//! Paths to fields of a schema, such as `.spec.ports['http']`.

use crate::schema::structural::Structural;

/// The schema at a path, with the names on the way.
pub(super) struct Found<'s> {
    /// The names on the way.
    pub(super) names: Vec<String>,
    pub(super) schema: &'s Structural,
}

/// How a path may name its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// By dots alone.
    Dots,
    /// By dots, or quoted in brackets.
    DotsAndBrackets,
}

/// Follows a path in a schema.
///
/// # Errors
/// Why there is nothing at the path.
pub(super) fn resolve<'s>(
    path: &str,
    schema: &'s Structural,
    notation: Notation,
) -> Result<Found<'s>, String> {
    let mut found = Found {
        names: Vec::new(),
        schema,
    };
    let mut tokens = tokens(path).into_iter();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" if notation == Notation::Dots => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let name = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                found.step(&name.replace("\\'", "'").replace("\\\\", "\\"))?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found.step(tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let schema = self.schema;
        let next = if schema.properties.is_empty() {
            schema.map_values()
        } else {
            schema.properties.get(name)
        };
        self.schema = next.ok_or("does not refer to a valid field")?;
        self.names.push(name.to_owned());
        Ok(())
    }
}

/// The delimiters of a path, one by one, and the text between them; quotes hide delimiters.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let length = if rest.starts_with('\'') {
            let mut before = '\'';
            let closing = rest.char_indices().skip(1).find(|(_, letter)| {
                let closes = *letter == '\'' && before != '\\';
                before = *letter;
                closes
            });
            closing.map_or(rest.len(), |(at, _)| at + 1)
        } else {
            match rest.find(['.', '[', ']']) {
                Some(0) => 1,
                Some(at) => at,
                None => rest.len(),
            }
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn paths_lead_to_fields_or_their_defect_is_reported() {
        let schema = Structural::parse(&json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "a.b": { "type": "string" },
                "m": { "type": "object", "additionalProperties": { "type": "integer" } },
            } },
        } }));
        let resolve = |path: &str, notation| match resolve(path, &schema, notation) {
            Ok(found) => found.schema.value_type.clone(),
            Err(fault) => fault,
        };
        for (path, want) in [
            (".spec['a.b']", "string"),
            (".spec.m.any", "integer"),
            (".spec.z", "does not refer to a valid field"),
            ("spec", "expected [ or . but got: spec"),
            (".", "unexpected end of JSON path"),
            (".spec[0]", "expected single quoted string but got 0"),
        ] {
            assert_eq!(resolve(path, Notation::DotsAndBrackets), want, "{path}");
        }
        assert_eq!(
            resolve(".spec['a.b']", Notation::Dots),
            "array notation is not allowed"
        );
    }
}
