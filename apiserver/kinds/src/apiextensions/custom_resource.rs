//! Custom resources: one version of a definition, and the strategy of its objects.

mod columns;
mod conversion;
pub mod scale;
mod typed;
mod validation;
mod versions;

use std::borrow::Cow;
use std::sync::Arc;

use crate::columns::Printable;
use crate::json::Value;
use crate::meta::{GroupResource, GroupVersionKind};
use crate::schema::Object;
use crate::schema::structural::Structural;
use crate::status::FieldErrors;
use crate::{ResetFields, Strategy};

pub use columns::{PrinterColumn, printer_columns};
pub use conversion::Conversion;
pub use scale::ScalePaths;
pub use versions::Versions;

/// One version of a custom resource.
#[derive(Debug)]
pub struct CustomResource {
    /// Group, version and kind.
    pub gvk: GroupVersionKind,
    /// The kind of lists.
    pub list_kind: String,
    /// Whether the definition is being deleted.
    pub terminating: bool,
    /// Where the replicas are, if there is a `scale` subresource.
    pub scale: Option<ScalePaths>,
    /// The columns of tables, after the name.
    pub columns: Vec<PrinterColumn>,
    /// The schemas of this and the other versions.
    pub versions: Arc<Versions>,
}

impl CustomResource {
    /// The schema of the version.
    pub fn schema(&self) -> &Structural {
        self.versions.schema(&self.gvk.version).structural()
    }

    /// The schema as field management sees it.
    pub fn typed(&self) -> &Arc<Object> {
        self.versions.schema(&self.gvk.version).typed()
    }
}

impl Strategy for CustomResource {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn is_stored_version(&self, _version: &str) -> bool {
        false
    }

    fn convert_from_storage<'a>(&self, version: &str, stored: &'a Value) -> Cow<'a, Value> {
        self.versions.shown(version, stored)
    }

    fn convert_to_storage(&self, _version: &str, object: Value) -> Value {
        self.versions.stored(object)
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    fn storage_prefix(&self, resource: &GroupResource) -> String {
        format!("{}/{}", resource.group, resource.resource)
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        validation::finalizer_warnings(new, old)
    }

    fn validate(&self, object: &Value) -> FieldErrors {
        validation::create(self, object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::update(self, new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::status_update(self, new, old)
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let columns = self.columns.iter();
        let cells = columns.map(|column| column.cell(view.object, view.now));
        Some(
            std::iter::once(view.object["metadata"]["name"].clone())
                .chain(cells)
                .collect(),
        )
    }
}
