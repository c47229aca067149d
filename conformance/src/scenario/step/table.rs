//! Tables as scenarios write them: the resource alone, or with options.

use schemars::JsonSchema;
use serde::Deserialize;

/// A table of a resource.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(from = "TableFields")]
pub struct TableStep {
    /// Any name of the resource.
    pub resource: String,
    /// Whether the columns of `-o wide` are shown.
    pub wide: bool,
    /// Whether the objects of all namespaces are shown.
    pub all_namespaces: bool,
    /// Which objects; all when absent.
    pub label_selector: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum TableFields {
    Resource(String),
    Full {
        resource: String,
        #[serde(default)]
        wide: bool,
        #[serde(default)]
        all_namespaces: bool,
        label_selector: Option<String>,
    },
}

impl From<TableFields> for TableStep {
    fn from(fields: TableFields) -> Self {
        match fields {
            TableFields::Resource(resource) => Self {
                resource,
                wide: false,
                all_namespaces: false,
                label_selector: None,
            },
            TableFields::Full {
                resource,
                wide,
                all_namespaces,
                label_selector,
            } => Self {
                resource,
                wide,
                all_namespaces,
                label_selector,
            },
        }
    }
}
