//! Long JSON within a line, replaced by its length and a hash.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use sha2::{Digest, Sha256};

/// JSON of more characters is replaced.
const SHOWN_MAX: usize = 120;
/// The number of bytes of the hash that are shown.
const HASH_BYTES: usize = 4;

/// `text` with each long JSON object, or list of objects, in it as `<json, 1012 characters, sha256 1a2b3c4d>`. An object that is cut off
/// reaches to the end of the text.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{\"") {
        let is_listed = rest[..start].ends_with('[') && end(&rest[start - 1..]).is_some();
        let (before, from) = rest.split_at(start - usize::from(is_listed));
        let (object, after) = from.split_at(end(from).unwrap_or(from.len()));
        masked.push_str(before);
        let object = comparable(object);
        let characters = object.chars().count();
        if characters > SHOWN_MAX {
            let hash = &Sha256::digest(object.as_bytes())[..HASH_BYTES];
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            masked.push_str(&format!("<json, {characters} characters, sha256 {hash}>"));
        } else {
            masked.push_str(&object);
        }
        rest = after;
    }
    if masked.is_empty() {
        return Cow::Borrowed(text);
    }
    masked.push_str(rest);
    Cow::Owned(masked)
}

/// `object` without uids, and with the same name whatever random part the name that was generated for it has.
fn comparable(object: &str) -> Cow<'_, str> {
    static UID: LazyLock<Regex> = LazyLock::new(|| {
        let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
        Regex::new(&format!("\"{uid}\"|<uid:[0-9]+>")).expect("a regex")
    });
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""name":"([^"]+-)([a-z0-9]{5})","generateName":"([^"]+)""#).expect("a regex")
    });
    let object = UID.replace_all(object, "<uid>");
    match NAME.captures(&object) {
        Some(found) if found[1] == found[3] => Cow::Owned(object.replace(&found[2], "")),
        _ => object,
    }
}

/// The length of the JSON object or list that `text` begins with, unless it is cut off. It need not be JSON any more: a
/// masked uid has no quotes.
fn end(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_objects_are_replaced() {
        let short = r#"annotation a={"b": 1} added"#;
        assert_eq!(mask(short), short);
        assert_eq!(mask("no {object: here}"), "no {object: here}");
        let long = format!(r#"pod: {{"a": "{}"}} refused {{"b": 1}}"#, "x".repeat(200));
        let masked = mask(&long);
        assert!(
            masked.starts_with("pod: <json, 209 characters, sha256 "),
            "{masked}"
        );
        assert!(masked.ends_with(r#"> refused {"b": 1}"#), "{masked}");
        let list = mask(
            &long
                .replace("{\"a\"", "[{\"b\":1},{\"a\"")
                .replace("} r", "}] r"),
        )
        .into_owned();
        assert!(
            list.starts_with("pod: <json, 219 characters, sha256 "),
            "{list}"
        );
        let open = mask(&long.replace("{\"a\"", "[{\"a\"")).into_owned();
        assert!(
            open.starts_with("pod: [<json, 209 characters, sha256 "),
            "{open}"
        );
        let other = long.replacen('x', "y", 1);
        assert_ne!(mask(&other), masked, "the hash tells them apart");
    }

    #[test]
    fn uids_are_not_hashed() {
        let object = |uid: &str| format!(r#"{{"uid":{uid},"more":"{}"}}"#, "x".repeat(200));
        let uid = object("\"00000000-0000-0000-0000-000000000001\"");
        assert_eq!(mask(&uid), mask(&object("<uid:12>")));
        let more = |object: &str| format!("{object}, users unset");
        let masked = mask(&more(&object("<uid:12>"))).into_owned();
        assert!(masked.ends_with(">, users unset"), "{masked}");
        let braces = more(&object("<uid:12>").replace("xx", r#"}\"{"#));
        let masked = mask(&braces).into_owned();
        assert!(masked.ends_with(">, users unset"), "{masked}");
    }

    #[test]
    fn the_random_part_of_a_generated_name_is_not_hashed() {
        let pod = |name: &str| {
            let more = "x".repeat(200);
            format!(r#"{{"metadata":{{"name":"{name}","generateName":"a-","labels":"{more}"}}}}"#)
        };
        assert_eq!(mask(&pod("a-b2c3d")), mask(&pod("a-x5y6z")));
        assert_ne!(mask(&pod("a-b2c3d")), mask(&pod("b-b2c3d")));
    }

    #[test]
    fn an_object_that_is_cut_off_reaches_to_the_end() {
        let cut = format!(r#"pod: {{"a": "{}"#, "x".repeat(200));
        assert!(mask(&cut).starts_with("pod: <json, 207 characters, sha256 "));
    }
}
