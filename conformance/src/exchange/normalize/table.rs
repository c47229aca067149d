//! Tables: ages and addresses in cells, and columns without their documentation.

use std::sync::LazyLock;

use kubeproof_machinery::json::{Map, Value};
use regex::Regex;

use super::pattern;

static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A(?:[0-9]+[smhdy])+\z"));
static AGO: LazyLock<Regex> = LazyLock::new(|| pattern(r"\((?:[0-9]+[smhdy])+ ago\)"));

/// Columns whose cells are the time since something.
const AGES: [&str; 6] = [
    "Age",
    "AGE",
    "Last Seen",
    "First Seen",
    "Last Schedule",
    "Duration",
];

/// The table in `fields` with marks; `None` if the object is not a table.
pub(super) fn normalized(fields: &Map) -> Option<Map> {
    if fields.get("kind")? != "Table" {
        return None;
    }
    let rows = fields.get("rows")?.as_array()?;
    let columns = fields.get("columnDefinitions").and_then(Value::as_array);
    let columns = columns.map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap_or_default())
        .collect();
    let mut table = fields.clone();
    let undocumented = columns.iter().map(|column| {
        let mut column = column.clone();
        if let Some(column) = column.as_object_mut() {
            // A column's description is documentation, not behavior.
            column.remove("description");
        }
        column
    });
    table.insert("columnDefinitions", undocumented.collect());
    let rows = rows.iter().map(|row| normalized_row(row, &names));
    table.insert("rows", rows.collect());
    Some(table)
}

fn normalized_row(row: &Value, columns: &[&str]) -> Value {
    let cells = row["cells"].as_array();
    let cells = cells.map(Vec::as_slice).unwrap_or_default();
    let cells = cells.iter().enumerate().map(|(index, cell)| {
        // A row of IPAddresses ends in an age that no column names.
        normalized_cell(columns.get(index).copied().unwrap_or("Age"), cell)
    });
    let mut row = row.clone();
    if let Some(row) = row.as_object_mut() {
        row.insert("cells", cells.collect());
    }
    row
}

fn normalized_cell(column: &str, cell: &Value) -> Value {
    let Some(text) = cell.as_str() else {
        return cell.clone();
    };
    match column {
        column if AGES.contains(&column) && AGE.is_match(text) => "<age>".into(),
        "Cluster-IP" if super::is_service_address(text) => "<ip>".into(),
        "Restarts" => AGO.replace_all(text, "(<age> ago)").into_owned().into(),
        _ => cell.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn cells_are_marked_by_their_column() {
        let column = |name: &str| json!({"name": name, "description": "prose", "type": "string"});
        let table = json!({
            "kind": "Table",
            "columnDefinitions": [column("Name"), column("Restarts"), column("Cluster-IP"), column("Age")],
            "rows": [{"cells": ["3s", "2 (3m ago)", "10.0.0.3", "<unknown>", "1d2h"]}, {"cells": null}],
        });
        let normalized = normalized(table.as_object().unwrap()).unwrap();
        assert_eq!(
            normalized["rows"],
            json!([
                {"cells": ["3s", "2 (<age> ago)", "<ip>", "<unknown>", "<age>"]},
                {"cells": []},
            ])
        );
        assert_eq!(
            normalized["columnDefinitions"][0],
            json!({"name": "Name", "type": "string"})
        );
    }

    #[test]
    fn other_objects_are_no_tables() {
        let object = json!({"kind": "List", "rows": []});
        assert!(normalized(object.as_object().unwrap()).is_none());
    }
}
