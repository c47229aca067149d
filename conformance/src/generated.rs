//! Names that the server has generated, replaced by names that show the order of creation.
//!
//! Their random part differs from server to server, which no golden should depend on. The digits
//! put in its place do not occur in generated names, so nothing real is ever hidden.

use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

/// The length of the random part of a name.
const SUFFIX_CHARS: usize = 5;

/// The generated names of one run, each with its replacement.
#[derive(Debug, Default)]
pub(crate) struct GeneratedNames {
    names: Vec<(String, String)>,
}

impl GeneratedNames {
    /// Takes the names from every creation so far.
    pub(crate) fn of(journal: &[JournalEntry]) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        let created = journal
            .iter()
            .filter(|entry| entry.event == EventType::Added);
        for entry in created {
            let metadata = &entry.object["metadata"];
            let (Some(name), Some(prefix)) =
                (metadata["name"].as_str(), metadata["generateName"].as_str())
            else {
                continue;
            };
            let suffix = name.strip_prefix(prefix).unwrap_or_default();
            if suffix.len() != SUFFIX_CHARS || names.iter().any(|(known, _)| known == name) {
                continue;
            }
            let before = names.iter().filter(|(_, replacement)| {
                replacement.len() == name.len() && replacement.starts_with(prefix)
            });
            let replacement = format!("{prefix}{:0SUFFIX_CHARS$}", before.count() + 1);
            names.push((name.to_owned(), replacement));
        }
        Self { names }
    }

    /// `text` with each generated name replaced.
    pub(crate) fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (name, replacement) in &self.names {
            masked = masked.replace(name, replacement);
        }
        masked
    }

    /// Returns the generated name that has this replacement.
    pub(crate) fn name_of(&self, replacement: &str) -> Option<&str> {
        let found = self.names.iter().find(|(_, known)| known == replacement);
        found.map(|(name, _)| name.as_str())
    }

    /// Masks the cells of a table, whose rows are then in the order of the masked names.
    pub(crate) fn mask_table(&self, table: &mut Value) {
        let Some(rows) = table["rows"].as_array_mut() else {
            return;
        };
        let mut is_masked = false;
        for row in rows.iter_mut() {
            for cell in row["cells"].as_array_mut().into_iter().flatten() {
                if let Some(text) = cell.as_str() {
                    let masked = self.mask(text);
                    is_masked |= masked != text;
                    *cell = Value::String(masked.into());
                }
            }
        }
        if is_masked {
            rows.sort_by_key(|row| {
                let namespace = row["object"]["metadata"]["namespace"].as_str();
                (
                    namespace.unwrap_or_default().to_owned(),
                    row["cells"][0].as_str().unwrap_or_default().to_owned(),
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn rows_are_sorted_by_what_is_shown() {
        let pair = |name: &str, shown: &str| (name.to_owned(), shown.to_owned());
        let names = GeneratedNames {
            names: vec![pair("a-zzzzz", "a-00001"), pair("a-bbbbb", "a-00002")],
        };
        let row = |name: &str| json!({"cells": [name]});
        let mut table = json!({"rows": [row("a-bbbbb"), row("a-zzzzz")]});
        names.mask_table(&mut table);
        assert_eq!(table, json!({"rows": [row("a-00001"), row("a-00002")]}));
        assert_eq!(names.mask("Created pod: a-bbbbb"), "Created pod: a-00002");
    }
}
