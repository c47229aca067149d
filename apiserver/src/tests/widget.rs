//! A made-up kind: its group, its facts, its types and its behavior.

use serde_json::{Value, json};

use crate::meta::object::{child_mut, default};
use crate::registry::columns::Printable;
use crate::registry::{ApiGroup, GroupSource, Strategy};
use crate::status::{FieldErrors, FieldPath};

/// The group of the kind.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "testing.kubeproof.dev",
    strategies: &[("widgets", &Widget)],
};

/// What `cargo xtask import` writes of groups that Kubernetes has.
pub(super) const SOURCE: GroupSource = GroupSource {
    resources: r#"{"group": "testing.kubeproof.dev", "versions": [
 {"version": "v1", "resources": [
  {"plural": "widgets", "singular": "widget", "kind": "Widget", "namespaced": true,
   "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
   "columns": [
    {"name": "Name", "format": "name"},
    {"name": "Size", "type": "integer", "description": "How large the widget is."},
    {"name": "Age"}]}]}]}"#,
    types: "%testing/v1 testing.kubeproof.dev
@Widget kind
kind e string
apiVersion e string
metadata e1 meta/v1.ObjectMeta
spec e2 WidgetSpec
@WidgetSpec
size pe1 int32
",
};

/// The strategy of `widgets`.
#[derive(Debug)]
struct Widget;

impl Strategy for Widget {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, widget: &mut Value) {
        default(child_mut(widget, "spec"), "size", 1);
    }

    fn validate(&self, widget: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let size = &widget["spec"]["size"];
        if !size.as_i64().is_some_and(|size| (1..=10).contains(&size)) {
            let path = FieldPath::new("spec.size");
            errors.invalid(&path, size, "must be between 1 and 10, inclusive");
        }
        errors
    }

    fn cells(&self, widget: Printable<'_>) -> Option<Vec<Value>> {
        let size = json!(widget.int("/spec/size"));
        Some(vec![widget.name(), size, widget.age()])
    }
}
