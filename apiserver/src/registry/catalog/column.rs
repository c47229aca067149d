//! Columns of Tables.

use serde::Deserialize;

/// A column of a Table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "ColumnData")]
pub(crate) struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type of the cells: `string`, `integer`, `boolean`, `date`, ...
    pub cell_type: String,
    /// OpenAPI format of the cells, or `""`; `name` marks the column of the object's name.
    pub format: String,
    /// Upstream's text, most often the documentation of the field shown.
    pub description: String,
    /// 0 is always shown, higher only in wide output.
    pub priority: i32,
}

/// The documentation of `metadata.name`.
const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The documentation of `metadata.creationTimestamp`.
const CREATION_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Column {
    /// The column of objects' names.
    pub(crate) fn name() -> Self {
        Self {
            name: "Name".to_owned(),
            cell_type: string_type(),
            format: "name".to_owned(),
            description: NAME_TEXT.to_owned(),
            priority: 0,
        }
    }

    /// A column that shows when objects were created.
    pub(crate) fn of_time(name: &str, cell_type: &str) -> Self {
        Self {
            name: name.to_owned(),
            cell_type: cell_type.to_owned(),
            format: String::new(),
            description: CREATION_TEXT.to_owned(),
            priority: 0,
        }
    }
}

/// A column in `resources.json`. Without a description it shows the name or the creation.
#[derive(Deserialize)]
struct ColumnData {
    name: String,
    #[serde(rename = "type", default = "string_type")]
    cell_type: String,
    #[serde(default)]
    format: String,
    description: Option<String>,
    #[serde(default)]
    priority: i32,
}

impl From<ColumnData> for Column {
    fn from(data: ColumnData) -> Self {
        let common = match data.format.as_str() {
            "name" => NAME_TEXT,
            _ => CREATION_TEXT,
        };
        Self {
            name: data.name,
            cell_type: data.cell_type,
            format: data.format,
            description: data.description.unwrap_or_else(|| common.to_owned()),
            priority: data.priority,
        }
    }
}

fn string_type() -> String {
    "string".to_owned()
}
