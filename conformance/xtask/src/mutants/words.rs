//! Which scenarios are likely to notice a mutant because they are about the same things: by words in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::mutant::Mutant;
use super::scenarios::path_of;
use super::tree::read;

/// The weight of a word that only one scenario has.
const RAREST: usize = 1_000;
/// Shorter words say nothing.
const LENGTH_MIN: usize = 3;

/// The words of scenarios.
#[derive(Debug, Default)]
pub(crate) struct Words {
    by_scenario: BTreeMap<String, BTreeSet<String>>,
    /// How many scenarios have each word.
    frequency: BTreeMap<String, usize>,
}

impl Words {
    /// Reads the words of these scenarios.
    ///
    /// # Errors
    /// A scenario cannot be read.
    pub(crate) fn read<'a>(
        root: &Path,
        scenarios: impl Iterator<Item = &'a String>,
    ) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for name in scenarios {
            let text = read(&root.join(path_of(name)))?;
            all.add(name, &text);
        }
        Ok(all)
    }

    fn add(&mut self, name: &str, text: &str) {
        let mut words = words(text);
        words.extend(self::words(name));
        for word in &words {
            *self.frequency.entry(word.clone()).or_default() += 1;
        }
        self.by_scenario.insert(name.to_owned(), words);
    }

    /// How much a scenario is about the same things as a mutant: the sum of the words in common, of which rare ones
    /// count most.
    pub(crate) fn in_common(&self, scenario: &str, mutant: &Mutant) -> usize {
        let Some(words) = self.by_scenario.get(scenario) else {
            return 0;
        };
        let own = self::words(&format!("{} {}", mutant.function, mutant.change));
        let common = own.intersection(words);
        common.map(|word| RAREST / self.frequency[word]).sum()
    }
}

/// The words of a text in lower case, without the digits between them; `minReadySeconds` and `min_ready_seconds` are
/// three words each.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut was_upper = false;
    // The end of the text ends a word, too.
    for letter in text.chars().chain([' ']) {
        let is_upper = letter.is_ascii_uppercase();
        let begins = is_upper && !was_upper;
        if begins || !letter.is_ascii_alphabetic() {
            if word.len() >= LENGTH_MIN {
                words.insert(word.clone());
            }
            word.clear();
        }
        if letter.is_ascii_alphabetic() {
            word.push(letter.to_ascii_lowercase());
        }
        was_upper = is_upper;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn rare_words_in_common_count_most() {
        let found: Vec<String> = words("minReadySeconds: 5, set.min_ready(PVCs)")
            .into_iter()
            .collect();
        assert_eq!(found, ["min", "pvcs", "ready", "seconds", "set"]);
        let mut all = Words::default();
        all.add("a/scale", "a set is scaled, and its pods get ready");
        all.add("a/wait", "minReadySeconds: 5");
        let source = "impl Set { fn min_ready_seconds(&self) -> i32 { self.seconds } }";
        let mutant = &find::find("set.rs", source).unwrap()[0];
        assert!(all.in_common("a/wait", mutant) > all.in_common("a/scale", mutant));
        assert_eq!(all.in_common("a/none", mutant), 0);
    }
}
