//! Events of several objects on one line.

use std::sync::LazyLock;

use regex::Regex;

use super::{Line, lists};

/// Writes events that differ only in the last part of their objects' names on one line, at the place of the first.
pub(super) fn list(section: &mut Vec<Line>) {
    let mut kept: Vec<(Line, Option<Listed>)> = Vec::new();
    for line in section.drain(..) {
        let listed = Some(&line).filter(|line| !line.marked);
        let listed = listed.and_then(|line| Listed::of(&line.text));
        let known = listed.as_ref().and_then(|listed| {
            let same = |known: &&mut (Line, Option<Listed>)| {
                known.1.as_ref().is_some_and(|known| known.is_like(listed))
            };
            kept.iter_mut().find(same)
        });
        if let (Some((first, Some(known))), Some(listed)) = (known, &listed) {
            known.suffixes.extend(listed.suffixes.iter().cloned());
            let text = known.text();
            let before = lists::split(&first.text).into_iter();
            if lists::split(&text) == before.chain([line.text.clone()]).collect::<Vec<_>>() {
                first.text = text;
                continue;
            }
            known.suffixes.pop();
        }
        kept.push((line, listed));
    }
    section.extend(kept.into_iter().map(|(line, _)| line));
}

/// An event of one object or several.
struct Listed {
    /// The line with a NUL in place of the last part of the name, each time that it occurs.
    template: String,
    suffixes: Vec<String>,
}

impl Listed {
    fn of(line: &str) -> Option<Self> {
        // The count, the type and the reason come first.
        let message = line.trim_start().splitn(4, ' ').nth(3)?;
        let mut names = message
            .split(' ')
            .filter_map(|word| named(word).map(|(_, suffix)| suffix));
        let suffix = names.next()?.to_owned();
        let template = |word: &str| match named(word) {
            Some((before, known)) if known == suffix => {
                format!("{before}\0{}", &word[before.len() + known.len()..])
            }
            _ => word.to_owned(),
        };
        let head = &line[..line.len() - message.len()];
        let words: Vec<String> = message.split(' ').map(template).collect();
        Some(Self {
            template: format!("{head}{}", words.join(" ")),
            suffixes: vec![suffix],
        })
    }

    fn is_like(&self, other: &Self) -> bool {
        self.template == other.template
    }

    fn text(&self) -> String {
        let list = lists::joined("", &self.suffixes);
        self.template.replace('\0', &list)
    }
}

/// The name that `word` begins with, before and after its last hyphen, if that is a number or was generated.
fn named(word: &str) -> Option<(&str, &str)> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^((?:\S*/)?[a-z0-9.-]*[a-z0-9]-)(\d+)(?:[^a-z0-9.-]|$)").expect("a regex")
    });
    let found = NAME.captures(word)?;
    Some((found.get(1)?.as_str(), found.get(2)?.as_str()))
}
