//! Nodes.

use serde_json::Value;

use super::Strategy;
use crate::meta::object::child_mut;

#[derive(Debug)]
pub(super) struct Node;

impl Strategy for Node {
    /// What a node can hold is also what it offers, unless it says less.
    fn default(&self, node: &mut Value) {
        let capacity = node["status"]["capacity"].clone();
        if capacity.is_object() && node["status"]["allocatable"].is_null() {
            child_mut(node, "status").insert("allocatable".to_owned(), capacity);
        }
    }
}
