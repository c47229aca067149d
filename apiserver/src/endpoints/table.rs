//! `Table`: objects as rows of printed cells, for `kubectl get`.

use std::borrow::Borrow;

use jiff::Timestamp;

use super::partial::partial_object_metadata;
use crate::json::{Value, json};
use crate::meta::fields;
use crate::registry::catalog::ResourceInfo;
use crate::registry::columns::Column;
use crate::status::ApiError;

/// How much of its object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; empty means the default.
    ///
    /// # Errors
    /// `BadRequest` for any other word.
    pub(crate) fn parse(value: &str) -> Result<Self, ApiError> {
        match value {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(ApiError::BadRequest(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The options of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOptions<'a> {
    /// How much of its object a row carries.
    pub include_object: IncludeObject,
    /// What ages are relative to.
    pub now: Timestamp,
    /// Version of `meta.k8s.io`: `v1` or `v1beta1`.
    pub version: &'a str,
    /// False in the events of a watch after the first, which don't repeat the columns.
    pub column_definitions: bool,
}

impl TableOptions<'_> {
    /// A `meta.k8s.io/v1` table as of `now`, with columns and metadata.
    #[must_use]
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            include_object: IncludeObject::default(),
            now,
            version: "v1",
            column_definitions: true,
        }
    }
}

/// The table of the objects of a list, whose own metadata becomes the table's.
#[must_use]
pub(crate) fn table(
    info: &ResourceInfo,
    objects: impl IntoIterator<Item: Borrow<Value>>,
    list_metadata: &Value,
    options: TableOptions<'_>,
) -> Value {
    let mut objects: Vec<_> = objects.into_iter().collect();
    info.sort_rows(&mut objects);
    let rows = objects
        .iter()
        .map(|object| row(info, object.borrow(), options));
    let rows = match (objects.is_empty(), has_no_printer(info)) {
        (true, true) => Value::Null,
        _ => rows.collect(),
    };
    let definitions = match options.column_definitions {
        true => info.columns.iter().map(definition).collect(),
        // Upstream leaves the slice nil, which a client can distinguish from an empty one.
        false => Value::Null,
    };
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{}", options.version),
        "metadata": list_metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

/// The table of a single object, which has the object's `resourceVersion`.
#[must_use]
pub(crate) fn table_of_one(
    info: &ResourceInfo,
    object: &Value,
    options: TableOptions<'_>,
) -> Value {
    let metadata = match object.pointer("/metadata/resourceVersion") {
        Some(resource_version) => json!({"resourceVersion": resource_version}),
        None => json!({}),
    };
    table(info, [object], &metadata, options)
}

/// Whether a kind is printed by its metadata alone: upstream leaves the rows of an empty list
/// unset.
fn has_no_printer(info: &ResourceInfo) -> bool {
    let mut columns = info.columns.iter();
    info.custom.is_none() && columns.any(|column| column.name == "Created At")
}

fn row(info: &ResourceInfo, object: &Value, options: TableOptions<'_>) -> Value {
    let included = match options.include_object {
        IncludeObject::Metadata => partial_object_metadata(object, options.version),
        IncludeObject::Object => fields::unfolded(object).into_owned(),
        IncludeObject::None => Value::Null,
    };
    let mut row = json!({
        "cells": info.cells(object, options.now),
        "object": included,
    });
    let conditions = info.strategy().row_conditions(object);
    if !conditions.is_empty() {
        row["conditions"] = Value::Array(conditions);
    }
    row
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.cell_type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::catalog::Catalog;

    fn config_maps() -> &'static ResourceInfo {
        Catalog::builtin().resource("", "v1", "configmaps").unwrap()
    }

    fn config_map() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z",
                         "resourceVersion": "7"},
            "data": {"k": "v", "l": "w"},
        })
    }

    fn options() -> TableOptions<'static> {
        TableOptions::new("2024-01-01T00:02:30Z".parse().unwrap())
    }

    #[test]
    fn a_row_has_cells_and_the_metadata_of_its_object() {
        let table = table_of_one(config_maps(), &config_map(), options());
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
        let names: Vec<&Value> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|definition| &definition["name"])
            .collect();
        assert_eq!(names, ["Name", "Data", "Age"]);
        assert_eq!(table["columnDefinitions"][0]["format"], "name");
        assert_eq!(
            table["rows"],
            json!([{
                "cells": ["a", 2, "2m30s"],
                "object": partial_object_metadata(&config_map(), "v1"),
            }])
        );
    }

    #[test]
    fn include_object_chooses_what_a_row_carries() {
        let object_of = |word: &str| {
            let include_object = IncludeObject::parse(word).unwrap();
            let options = TableOptions {
                include_object,
                ..options()
            };
            table_of_one(config_maps(), &config_map(), options)["rows"][0]["object"].clone()
        };
        assert_eq!(object_of("None"), Value::Null);
        assert_eq!(object_of("Object"), config_map());
        assert_eq!(object_of(""), object_of("Metadata"));
        assert_eq!(
            IncludeObject::parse("Everything").unwrap_err().to_string(),
            "Unable to convert to Table as requested: includeObject: Invalid value: \
             \"Everything\": must be 'Metadata', 'Object', 'None', or empty"
        );
    }

    #[test]
    fn a_list_without_objects_has_no_rows_and_later_watch_events_no_columns() {
        let metadata = json!({"resourceVersion": "9", "continue": "x"});
        let options = TableOptions {
            column_definitions: false,
            ..options()
        };
        let table = table(config_maps(), Vec::<Value>::new(), &metadata, options);
        assert_eq!(table["metadata"], metadata);
        assert_eq!(table["rows"], json!([]));
        assert_eq!(table["columnDefinitions"], Value::Null);
    }

    #[test]
    fn a_list_without_objects_of_a_kind_without_a_printer_leaves_its_rows_unset() {
        let rows = |resource: &str| {
            let info = Catalog::builtin().resource("", "v1", resource).unwrap();
            table(info, Vec::<Value>::new(), &json!({}), options())["rows"].clone()
        };
        assert_eq!(rows("limitranges"), Value::Null);
        assert_eq!(rows("resourcequotas"), json!([]));
    }

    #[test]
    fn a_pod_that_ended_has_a_row_condition() {
        let pods = Catalog::builtin().resource("", "v1", "pods").unwrap();
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
        let table = table_of_one(pods, &pod, options());
        assert_eq!(table["rows"][0]["conditions"][0]["type"], "Completed");
    }

    #[test]
    fn a_scale_shows_wanted_and_actual_replicas() {
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "d", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "a=b"},
        });
        let table = table_of_one(ResourceInfo::scale(), &scale, options());
        assert_eq!(table["rows"][0]["cells"], json!(["d", 2, 0, "2m30s"]));
        assert_eq!(table["columnDefinitions"][1]["name"], "Desired");
    }
}
