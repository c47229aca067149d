//! Prints a server's `meta.k8s.io/v1` Table as kubectl does.

use kubeproof_machinery::json::{SmolStr, Value, json};

/// Columns of higher priority are shown only by `-o wide`.
const NARROW_PRIORITY_MAX: i64 = 0;

/// The lines of `table`, header first; none when it has no rows.
#[must_use]
pub fn render(table: &Value, wide: bool) -> Vec<String> {
    let columns: Vec<(usize, &Value)> = array(&table["columnDefinitions"])
        .enumerate()
        .filter(|(_, column)| {
            wide || column["priority"].as_i64().unwrap_or_default() <= NARROW_PRIORITY_MAX
        })
        .collect();
    let mut rows: Vec<Vec<String>> = array(&table["rows"])
        .map(|row| {
            columns
                .iter()
                .map(|(index, _)| cell(&row["cells"][index]))
                .collect()
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let header = columns
        .iter()
        .map(|(_, column)| column["name"].as_str().unwrap_or_default().to_uppercase())
        .collect();
    rows.insert(0, header);
    align(&rows)
}

/// Puts each row's namespace before its cells, as `kubectl get -A` does.
pub(crate) fn prepend_namespaces(table: &mut Value) {
    if let Some(columns) = table["columnDefinitions"].as_array_mut() {
        columns.insert(0, json!({"name": "Namespace", "priority": 0}));
    }
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        let namespace = row["object"]["metadata"]["namespace"].clone();
        if let Some(cells) = row["cells"].as_array_mut() {
            cells.insert(0, namespace);
        }
    }
}

/// A table of a list of objects, with a column for each of their fields: the type and the status of a condition first,
/// the message last.
pub(crate) fn of_objects(list: &Value) -> Vec<Vec<String>> {
    let mut columns: Vec<&SmolStr> = array(list)
        .filter_map(Value::as_object)
        .flat_map(|object| object.keys())
        .collect();
    let place = |column: &SmolStr| match column.as_str() {
        "type" => 0,
        "status" => 1,
        "reason" => 2,
        "message" => 4,
        _ => 3,
    };
    columns.sort_by_key(|column| (place(column), column.as_str()));
    columns.dedup();
    let rows = array(list).map(|object| {
        let cells = columns.iter().map(|column| cell(&object[column.as_str()]));
        cells.collect()
    });
    let header = columns.iter().map(|column| (*column).to_string()).collect();
    std::iter::once(header).chain(rows).collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

/// Pads each column to its widest cell, with three spaces between; no line ends in a space.
pub(crate) fn align(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}   "));
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_columns_are_left_out_unless_asked_for() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0},
                {"name": "Age", "priority": 0},
                {"name": "Images", "priority": 1},
            ],
            "rows": [{"cells": ["web", "10m", "nginx:1.25"]}, {"cells": ["longer", "2s", ""]}],
        });
        assert_eq!(
            render(&table, false),
            ["NAME     AGE", "web      10m", "longer   2s"]
        );
        assert_eq!(render(&table, true)[1], "web      10m   nginx:1.25");
    }

    #[test]
    fn no_rows_print_nothing() {
        let table = json!({"columnDefinitions": [{"name": "Name"}], "rows": []});
        assert!(render(&table, false).is_empty());
    }
}
