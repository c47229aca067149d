//! Cells of custom resources, which their definitions find by JSONPath.

use jiff::Timestamp;

use crate::columns::{Column, Printable};
use crate::json::Value;
use crate::json_path::JsonPath;
use crate::schema::number::printed_float;

/// A printer column: how it is headed, and where its cells are found.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    /// The heading of the column.
    pub column: Column,
    path: JsonPath,
}

/// Returns the columns after the name, as a version of a definition declares them; `age`, which
/// shows the creation, if it declares no columns. The first path that cannot be parsed ends the list.
pub fn printer_columns(declared: &Value, age: Column) -> Vec<PrinterColumn> {
    let declared = declared.as_array().filter(|columns| !columns.is_empty());
    let Some(declared) = declared else {
        let path = JsonPath::parse(".metadata.creationTimestamp");
        let path = path.expect("the path is well-formed");
        return vec![PrinterColumn { column: age, path }];
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let column = |declared: &Value| {
        let path = text(&declared["jsonPath"]);
        let description = match text(&declared["description"]) {
            description if description.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            description => description,
        };
        let priority = declared["priority"].as_i64().unwrap_or(0);
        Some(PrinterColumn {
            path: JsonPath::parse(&path)?,
            column: Column {
                name: text(&declared["name"]),
                cell_type: text(&declared["type"]),
                format: text(&declared["format"]),
                description,
                priority: i32::try_from(priority).unwrap_or(0),
            },
        })
    };
    declared.iter().map_while(column).collect()
}

impl PrinterColumn {
    /// The cell of `object` as of `now`.
    pub(crate) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Ok(found) = self.path.find(object) else {
            return Value::Null;
        };
        let Some(value) = found.first().copied() else {
            return Value::Null;
        };
        #[expect(clippy::cast_possible_truncation, reason = "as upstream converts it")]
        let integer = || {
            value
                .as_i64()
                .or_else(|| value.as_f64().map(|float| float as i64))
        };
        match self.column.cell_type.as_str() {
            "string" => printed(value).into(),
            "integer" => integer().map_or(Value::Null, Value::from),
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "date" => match value.as_str() {
                Some("") => "<unknown>".into(),
                Some(text) if text.parse::<Timestamp>().is_err() => "<invalid>".into(),
                Some(_) => Printable { object: value, now }.since("").into(),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

/// A value as text: lists and objects as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Number(number) if number.is_f64() => {
            printed_float(number.as_f64().expect("it is a float"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn cells_are_of_the_type_of_their_column() {
        let object = json!({ "spec": {
            "i": 5, "f": 2.7, "s": "x", "b": false, "o": { "k": "v" }, "n": null,
            "t": "2024-01-01T00:00:00Z",
        } });
        let now: Timestamp = "2024-01-01T01:00:00Z".parse().unwrap();
        for (path, cell_type, want) in [
            (".spec.i", "string", json!("5")),
            (".spec.f", "integer", json!(2)),
            (".spec.f", "number", json!(2.7)),
            (".spec.s", "integer", json!(null)),
            (".spec.b", "string", json!("false")),
            (".spec.b", "boolean", json!(false)),
            (".spec.o", "string", json!("{\"k\":\"v\"}")),
            (".spec.n", "string", json!("<no value>")),
            (".spec.s", "date", json!("<invalid>")),
            (".spec.t", "date", json!("60m")),
            (".spec.none", "string", json!(null)),
            (".spec.s[0]", "string", json!(null)),
        ] {
            let columns = json!([{ "name": "C", "type": cell_type, "jsonPath": path }]);
            let cell =
                printer_columns(&columns, Column::of_time("Age", "date"))[0].cell(&object, now);
            assert_eq!(cell, want, "{path} as {cell_type}");
        }
    }

    #[test]
    fn a_broken_path_ends_the_columns() {
        let names = |columns: Value| -> Vec<String> {
            let columns = printer_columns(&columns, Column::of_time("Age", "date")).into_iter();
            columns.map(|column| column.column.name).collect()
        };
        let column =
            |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });
        assert_eq!(
            names(json!([
                column("A", ".a"),
                column("B", ".b["),
                column("C", ".c")
            ])),
            ["A"]
        );
        assert_eq!(names(json!(null)), ["Age"]);
    }
}
