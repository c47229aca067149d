//! Pods of one name, one after the other: `web-1`, `web-1²`, `web-1³`.

use std::collections::BTreeMap;

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

/// The digits of generations.
const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// The number of each pod among those of its name, by uid.
#[derive(Debug, Default)]
pub(super) struct Generations {
    by_uid: BTreeMap<String, usize>,
    /// The number of pods so far, by namespace and name.
    by_name: BTreeMap<(String, String), usize>,
}

fn text<'a>(metadata: &'a Value, field: &str) -> &'a str {
    metadata[field].as_str().unwrap_or_default()
}

impl Generations {
    /// Counts the pod that `entry` creates.
    pub(super) fn learn(&mut self, entry: &JournalEntry) {
        if entry.gvr.resource != "pods" || entry.event != EventType::Added {
            return;
        }
        let metadata = &entry.object["metadata"];
        let uid = text(metadata, "uid");
        if self.by_uid.contains_key(uid) {
            return;
        }
        let name = (text(metadata, "namespace"), text(metadata, "name"));
        let name = (name.0.to_owned(), name.1.to_owned());
        let count = self.by_name.entry(name).or_default();
        *count += 1;
        self.by_uid.insert(uid.to_owned(), *count);
    }

    /// The number of a pod; empty for the first of its name.
    pub(super) fn sign(&self, metadata: &Value) -> String {
        match self.by_uid.get(text(metadata, "uid")) {
            None | Some(0 | 1) => String::new(),
            Some(number) => superscript(*number),
        }
    }

    /// `what` was written in `entry`, with the number of the pod behind its name.
    pub(super) fn with_number(&self, entry: &JournalEntry, what: String) -> String {
        let metadata = &entry.object["metadata"];
        let object = format!("pod {}", text(metadata, "name"));
        let rest = what
            .strip_prefix(&object)
            .filter(|_| entry.gvr.resource == "pods");
        match rest {
            Some(rest) => format!("{object}{}{rest}", self.sign(metadata)),
            None => what,
        }
    }
}

fn superscript(number: usize) -> String {
    let digits = number.to_string().into_bytes().into_iter();
    digits
        .map(|digit| DIGITS[usize::from(digit - b'0')])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_superscript() {
        assert_eq!(superscript(2), "²");
        assert_eq!(superscript(10), "¹⁰");
    }
}
