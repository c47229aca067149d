//! Names within documents: the ids and tags of operations, and the nouns of their descriptions.

use crate::registry::catalog::Version;

/// `kind` with its indefinite article, which a plural has not.
pub(super) fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

/// Group and version within an operation id, such as `RbacAuthorizationV1`.
pub(super) fn api_name(version: &Version) -> String {
    let parts = short_group(&version.group_version.group);
    let name: String = parts.into_iter().map(capitalized).collect();
    name + &capitalized(&version.group_version.version)
}

/// The tag of a version's operations, such as `rbacAuthorization_v1`.
pub(super) fn tag(version: &Version) -> String {
    let group = group_tag(&version.group_version.group);
    format!("{group}_{}", version.group_version.version)
}

/// The tag of a group's operations, such as `rbacAuthorization`.
pub(super) fn group_tag(group: &str) -> String {
    let mut parts = short_group(group).into_iter();
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &capitalized(part))
}

/// The parts of a group's name without the domain that all of them share.
fn short_group(group: &str) -> Vec<&str> {
    match group.trim_end_matches(".k8s.io") {
        "" => vec!["core"],
        group => group.split('.').collect(),
    }
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
