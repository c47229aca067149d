//! Names within documents: the ids and tags of operations, and the nouns of their descriptions.

use crate::meta::GroupVersion;

/// `kind` with its indefinite article, which a plural has not.
pub(super) fn with_article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

/// Group and version within an operation id, such as `RbacAuthorizationV1`.
pub(super) fn api_name(version: &GroupVersion) -> String {
    identifier(short_group(&version.group), true) + &identifier(&version.version, true)
}

/// The tag of a version's operations, such as `rbacAuthorization_v1`.
pub(super) fn tag(version: &GroupVersion) -> String {
    format!(
        "{}_{}",
        group_tag(&version.group),
        identifier(&version.version, false)
    )
}

/// The tag of a group's operations, such as `rbacAuthorization`.
pub(super) fn group_tag(group: &str) -> String {
    identifier(short_group(group), false)
}

/// A group's name without the domain that those of Kubernetes share.
fn short_group(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// Joins the words of a name, the second and later ones capitalized. All but letters, digits and
/// underscores part words, and so does a digit at the beginning.
fn identifier(name: &str, capitalizes_first: bool) -> String {
    let mut identifier = String::with_capacity(name.len());
    let mut capitalizes = capitalizes_first;
    for (at, letter) in name.char_indices() {
        if !(letter.is_alphabetic() || letter == '_' || at > 0 && letter.is_numeric()) {
            capitalizes = true;
        } else if std::mem::take(&mut capitalizes) {
            identifier.extend(letter.to_uppercase());
        } else {
            identifier.push(letter);
        }
    }
    identifier
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups_are_camel_cased_at_dots_and_hyphens() {
        let of = |group: &str, version: &str| GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        };
        assert_eq!(api_name(&of("cert-manager.io", "v1")), "CertManagerIoV1");
        assert_eq!(tag(&of("cert-manager.io", "v1")), "certManagerIo_v1");
        assert_eq!(
            api_name(&of("rbac.authorization.k8s.io", "v1")),
            "RbacAuthorizationV1"
        );
        assert_eq!(tag(&of("", "v1")), "core_v1");
        assert_eq!(group_tag("x.k8s.io.k8s.io"), "xK8sIo");
        assert_eq!(tag(&of("8s.io", "v1-a")), "SIo_v1A");
    }
}
