//! Scale, the kind of the `scale` subresources.

use crate::Strategy;
use crate::columns::Printable;
use crate::json::{Value, json};

/// The strategy of Scales, for their rows in tables.
#[derive(Debug)]
pub struct Scale;

impl Strategy for Scale {
    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.int("/spec/replicas")),
            json!(view.int("/status/replicas")),
            view.age(),
        ])
    }
}
