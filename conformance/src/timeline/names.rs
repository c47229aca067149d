//! Short names of revisions: A, B, C… in order of creation.

use kubeproof_apiserver::{EventType, JournalEntry};

/// The letters given so far. A revision keeps its letter for the whole transcript.
#[derive(Debug, Default)]
pub struct RevisionNames {
    names: Vec<String>,
}

impl RevisionNames {
    /// Gives the revision that `entry` creates its letter.
    pub fn learn(&mut self, entry: &JournalEntry) {
        if entry.gvr.resource != "controllerrevisions" || entry.event != EventType::Added {
            return;
        }
        let name = entry.object["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// The letter for a revision's name or for its hash alone; otherwise the text itself.
    #[must_use]
    pub fn short(&self, revision: &str) -> String {
        let same = |name: &String| {
            let hash = name.rsplit_once('-').map(|(_, hash)| hash);
            name == revision || hash == Some(revision)
        };
        match self.names.iter().position(same) {
            Some(index) => letter(index),
            None if revision.is_empty() => "-".to_owned(),
            None => revision.to_owned(),
        }
    }

    /// Letters and names, in order of creation.
    pub fn iter(&self) -> impl Iterator<Item = (String, &str)> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| (letter(index), name.as_str()))
    }
}

fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'A' + index).to_string(),
        _ => format!("R{}", index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_known_by_its_name_and_by_its_hash() {
        let names = RevisionNames {
            names: vec!["web-f4b769f5f".to_owned(), "web-5d8b".to_owned()],
        };
        assert_eq!(names.short("web-5d8b"), "B");
        assert_eq!(names.short("f4b769f5f"), "A");
        assert_eq!(names.short("web-unknown"), "web-unknown");
        assert_eq!(letter(25), "Z");
        assert_eq!(letter(26), "R27");
    }
}
