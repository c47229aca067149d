//! Columns of Tables, as `resources.json` has them.

use serde::Deserialize;

use super::BUILTIN;
use crate::columns::Column;

/// Descriptions that columns share.
#[derive(Deserialize)]
pub(super) struct ColumnTexts {
    /// The documentation of `metadata.name`, for a column of names.
    #[serde(rename = "nameColumn")]
    name: String,
    /// The documentation of `metadata.creationTimestamp`, for a column of times.
    #[serde(rename = "timeColumn")]
    time: String,
}

impl Column {
    /// The column of objects' names.
    pub fn name() -> Self {
        Self {
            name: "Name".to_owned(),
            cell_type: string_type(),
            format: "name".to_owned(),
            description: BUILTIN.texts.name.clone(),
            priority: 0,
        }
    }

    /// A column that shows when objects were created.
    pub(crate) fn of_time(name: &str, cell_type: &str) -> Self {
        Self {
            name: name.to_owned(),
            cell_type: cell_type.to_owned(),
            format: String::new(),
            description: BUILTIN.texts.time.clone(),
            priority: 0,
        }
    }
}

/// A column in `resources.json`. Without a description it shows the name or the creation.
#[derive(Deserialize)]
pub(super) struct ColumnData {
    name: String,
    #[serde(rename = "type", default = "string_type")]
    cell_type: String,
    #[serde(default)]
    format: String,
    description: Option<String>,
    #[serde(default)]
    priority: i32,
}

impl ColumnData {
    /// The column, with its description or the one that it shares.
    pub(super) fn read(self, texts: &ColumnTexts) -> Column {
        let common = match self.format.as_str() {
            "name" => &texts.name,
            _ => &texts.time,
        };
        Column {
            name: self.name,
            cell_type: self.cell_type,
            format: self.format,
            description: self.description.unwrap_or_else(|| common.clone()),
            priority: self.priority,
        }
    }
}

fn string_type() -> String {
    "string".to_owned()
}
