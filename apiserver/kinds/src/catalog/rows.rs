//! The rows of a resource's objects in a Table.

use std::borrow::Borrow;

use jiff::Timestamp;

use super::ResourceInfo;
use crate::columns::Printable;
use crate::json::Value;

impl ResourceInfo {
    /// The cells of `object`, one for each of the resource's columns, as of `now`.
    ///
    /// A resource without rules of its own shows name and age; its other columns are null.
    #[must_use]
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let printable = Printable { object, now };
        self.strategy().cells(printable).unwrap_or_else(|| {
            let cell = |name: &str| match name {
                "Name" => printable.name(),
                "Age" => printable.age(),
                "Created At" => printable.created(),
                _ => Value::Null,
            };
            let columns = self.columns.iter();
            columns.map(|column| cell(&column.name)).collect()
        })
    }

    /// Sorts the rows of a resource with an order of its own.
    pub fn sort_rows(&self, objects: &mut [impl Borrow<Value>]) {
        if let Some(order) = self.strategy().row_order() {
            objects.sort_by(|a, b| order(a.borrow(), b.borrow()));
        }
    }
}
