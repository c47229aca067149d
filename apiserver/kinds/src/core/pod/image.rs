//! References to images, as the registries' own library reads them.

use std::sync::LazyLock;

use regex::Regex;

const NAME_BYTES_MAX: usize = 255;

/// Domain, path, tag and digest of a reference whose domain is written out.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let part = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let domain = format!(r"(?:{part}(?:\.{part})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let component = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let whole = format!(
        r"^({domain}/{component}(?:/{component})*)(?::([0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?:@({digest}))?$"
    );
    Regex::new(&whole).expect("it compiles")
});

/// Whether the image has no tag but `latest`, and no digest. Text that is not an image reference
/// counts as not matching.
pub(crate) fn pulls_always(image: &str) -> bool {
    let is_digest =
        image.len() == 64 && image.bytes().all(|own| b"0123456789abcdef".contains(&own));
    let (domain, rest) = match image.split_once('/') {
        Some((first, rest)) if names_host(first) => (first, rest.to_owned()),
        Some(_) => ("docker.io", image.to_owned()),
        None => ("docker.io", format!("library/{image}")),
    };
    let whole = format!("{domain}/{rest}");
    let Some(found) = REFERENCE.captures(&whole).filter(|_| !is_digest) else {
        return false;
    };
    let tag = found.get(2).map(|own| own.as_str());
    found[1].len() <= NAME_BYTES_MAX && tag.map_or(found.get(3).is_none(), |tag| tag == "latest")
}

/// Whether the first part of a reference is a registry and no directory of the default one.
fn names_host(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_fixed_tag_are_pulled_always() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let table = [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:1", false),
            ("Host/nginx", true),
            (&digest, false),
            ("", false),
            ("Nginx", false),
            (" nginx ", false),
        ];
        for (image, always) in table {
            assert_eq!(pulls_always(image), always, "{image}");
        }
    }
}
