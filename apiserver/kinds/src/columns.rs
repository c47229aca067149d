//! Objects as the cells of a Table's row: what `kubectl get` prints.
//!
//! The cells of a kind are in its strategy; this module has what kinds share.

mod printable;
pub mod volume;
pub(crate) mod workload;

use std::borrow::Borrow;

use jiff::Timestamp;
use serde_json::Value;

use super::catalog::ResourceInfo;

pub use printable::{Printable, elapsed, first_three, human_duration, or_none, or_unset, scalar};

/// The cells of `object`, one for each of `info`'s columns, as of `now`.
///
/// A resource without rules of its own shows name and age; its other columns are null.
#[must_use]
pub fn cells(info: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    let printable = Printable { object, now };
    info.strategy().cells(printable).unwrap_or_else(|| {
        let cell = |name: &str| match name {
            "Name" => printable.name(),
            "Age" => printable.age(),
            "Created At" => printable.created(),
            _ => Value::Null,
        };
        let columns = info.columns.iter();
        columns.map(|column| cell(&column.name)).collect()
    })
}

/// Sorts the rows of resources with an order of their own.
pub fn sort(info: &ResourceInfo, objects: &mut [impl Borrow<Value>]) {
    if let Some(order) = info.strategy().row_order() {
        objects.sort_by(|a, b| order(a.borrow(), b.borrow()));
    }
}

#[cfg(test)]
mod printed;
#[cfg(test)]
mod tests;
