//! A made-up kind: its group, its facts, its types and its behavior.

use crate::json::{Value, json};
use crate::meta::object::{child_mut, copy_field, default};
use crate::registry::columns::Printable;
use crate::registry::rest::{Part, SubresourceRest};
use crate::registry::{ApiGroup, Context, GroupSource, Strategy};
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
   "subresources": [
    {"name": "polish", "kind": "Widget", "verbs": ["get", "patch", "update"]},
    {"name": "status", "kind": "Widget", "verbs": ["get", "patch", "update"]}],
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
status e3 WidgetStatus
@WidgetSpec
size pe1 int32
polish e2 string
@WidgetStatus
shines e1 bool
",
};

/// The strategy of `widgets`.
#[derive(Debug)]
struct Widget;

/// The subresource `polish`, which alone can change the polish.
#[derive(Debug)]
struct Polish;

impl Part for Polish {
    fn take(&self, wanted: &Value, current: &Value) -> Value {
        let mut next = current.clone();
        copy_field(
            &mut next["metadata"],
            &wanted["metadata"],
            "resourceVersion",
        );
        copy_field(&mut next["spec"], &wanted["spec"], "polish");
        next
    }

    fn validate(&self, next: &Value, _current: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let polish = &next["spec"]["polish"];
        if polish != "wax" {
            errors.not_supported(&FieldPath::new("spec.polish"), polish, &["wax"]);
        }
        errors
    }
}

impl Strategy for Widget {
    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        match name {
            "polish" => Some(SubresourceRest::Part(&Polish)),
            "status" => Some(SubresourceRest::Status),
            _ => None,
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        copy_field(&mut new["spec"], &old["spec"], "polish");
    }

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
