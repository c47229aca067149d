//! Scale, the kind of the `scale` subresources.

use serde_json::{Value, json};

use crate::Strategy;
use crate::columns::Printable;

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
