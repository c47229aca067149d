//! References to images: parsing, known commands and programs, and errors of pulls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use super::missing_images::MissingImages;

/// The DNS label of registries that do not exist (RFC 2606).
const NOWHERE: &str = "invalid";

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::parse(include_str!("images.txt")));

/// The owners whose images of known names are the well-known ones.
const OWNERS: &[&str] = &[
    "library",
    "docker/library",
    "e2e-test-images",
    "google-containers",
    "google_containers",
];

/// The names of an image's programs.
pub(super) type Programs = BTreeSet<&'static str>;

/// The content of `images.txt`.
struct Known {
    commands: Vec<(&'static str, &'static str)>,
    programs: BTreeMap<&'static str, Programs>,
    same: Vec<Vec<&'static str>>,
}

impl Known {
    fn parse(text: &'static str) -> Self {
        let (mut commands, mut same) = (Vec::new(), Vec::new());
        let mut programs = BTreeMap::<_, Programs>::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [word, ..] if word.starts_with('#') => {}
                ["command", name, program] => commands.push((*name, *program)),
                ["programs", names, own @ ..] => {
                    for name in names.split(',') {
                        programs.entry(name).or_default().extend(own);
                    }
                }
                ["same", names @ ..] => same.push(names.to_vec()),
                _ => unreachable!("images.txt has a line of another kind: {line}"),
            }
        }
        Self {
            commands,
            programs,
            same,
        }
    }
}

/// Groups of references to one image, in addition to the names that the nodes know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SameImages(Arc<[BTreeSet<String>]>);

/// An error for text that is not a valid reference to an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("image name {name:?}: {fault}")]
pub struct BadImageName {
    name: String,
    fault: String,
}

impl SameImages {
    /// Treats the references of each group as one image. Groups with a common reference are merged.
    ///
    /// # Errors
    /// [`BadImageName`] for the first reference that is not valid.
    pub fn try_new(groups: &[Vec<String>]) -> Result<Self, BadImageName> {
        let mut known: Vec<BTreeSet<String>> = Vec::new();
        for group in groups {
            let names = group.iter().map(|name| match Image::parse(name) {
                Ok(image) => Ok(image.familiar()),
                Err(fault) => Err(BadImageName {
                    name: name.clone(),
                    fault,
                }),
            });
            let mut names: BTreeSet<String> = names.collect::<Result<_, _>>()?;
            let (apart, joined): (Vec<_>, Vec<_>) = known
                .into_iter()
                .partition(|other| other.is_disjoint(&names));
            names.extend(joined.into_iter().flatten());
            known = apart;
            known.push(names);
        }
        Ok(Self(known.into()))
    }
}

/// A parsed reference to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image<'a> {
    registry: &'a str,
    /// The repository's path in the registry.
    path: String,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Parses a reference as a kubelet does.
    ///
    /// # Errors
    /// Upstream's message for a reference that is not valid.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(format!(
                "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            ));
        }
        let (registry, rest) = match text.split_once('/') {
            Some(("index.docker.io", rest)) => ("docker.io", rest),
            Some((first, rest)) if is_registry(first) => (first, rest),
            _ => ("docker.io", text),
        };
        let remote = rest.split(':').next().unwrap_or_default();
        if remote.chars().any(char::is_uppercase) {
            return Err(format!(
                "invalid reference format: repository name ({remote}) must be lowercase"
            ));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if !(is_path(path) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)) {
            return Err("invalid reference format".to_owned());
        }
        let path = match registry {
            "docker.io" if !path.contains('/') => format!("library/{path}"),
            _ => path.to_owned(),
        };
        Ok(Self {
            registry,
            path,
            tag,
            digest,
        })
    }

    /// Returns the image's default command; `None` if it is not known.
    pub(super) fn command(&self) -> Option<&'static str> {
        let name = self.name();
        let mut commands = KNOWN.commands.iter();
        let known = commands.find(|(known, _)| *known == name);
        known.map(|(_, command)| *command)
    }

    /// Returns the image's programs if it is a known base image.
    pub(super) fn programs(&self) -> Option<&'static Programs> {
        let (owner, name) = self
            .path
            .rsplit_once('/')
            .unwrap_or(("library", &self.path));
        let known = KNOWN.programs.get(name);
        known.filter(|_| OWNERS.contains(&owner))
    }

    /// Returns the last component of the repository's path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn digest(&self) -> Option<&'a str> {
        self.digest
    }

    /// Returns the full name of the repository.
    pub(super) fn repository(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }

    /// Returns the canonical name of the image, which all its references share, including those of
    /// `same`.
    pub(super) fn canonical(&self, same: &SameImages) -> String {
        let name = self.familiar();
        let mut groups = same.0.iter();
        let group = groups.find(|group| group.contains(&name));
        group.and_then(BTreeSet::first).cloned().unwrap_or(name)
    }

    /// Returns the canonical name of the image without those of `SameImages`.
    fn familiar(&self) -> String {
        let path = match self.registry {
            "docker.io" => self.path.trim_start_matches("library/").to_owned(),
            _ => self.repository(),
        };
        let name = format!("{path}:{}", self.tag.unwrap_or("latest"));
        let same = KNOWN.same.iter().find(|names| names.contains(&&*name));
        let name = same.map_or(name.as_str(), |names| names[0]);
        name.trim_end_matches(":latest").to_owned()
    }

    /// Returns the full reference, as container runtimes write it.
    fn resolved(&self) -> String {
        let repository = self.repository();
        match (self.digest, self.tag) {
            (Some(digest), _) => format!("{repository}@{digest}"),
            (None, tag) => format!("{repository}:{}", tag.unwrap_or("latest")),
        }
    }

    /// Returns a container runtime's error for an image that is `missing`, or whose registry does not exist; `None` if
    /// the pull succeeds. `text` is the reference as the container has it.
    pub(super) fn pull_error(&self, text: &str, missing: &MissingImages) -> Option<String> {
        let resolved = self.resolved();
        if missing.has([text, &resolved]) {
            return Some(format!(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"{resolved}\": failed to resolve \
                 reference \"{resolved}\": {resolved}: not found"
            ));
        }
        let host = self.registry.split(':').next().unwrap_or_default();
        let mut labels = host.split('.');
        let (first, last) = (labels.next(), labels.next_back());
        if host == "docker.io" || first != Some(NOWHERE) && last != Some(NOWHERE) {
            return None;
        }
        let (registry, path) = (self.registry, &self.path);
        let manifest = self.digest.or(self.tag).unwrap_or("latest");
        Some(format!(
            "rpc error: code = Unknown desc = failed to pull and unpack image \"{resolved}\": failed to resolve \
             reference \"{resolved}\": failed to do request: Head \
             \"https://{registry}/v2/{path}/manifests/{manifest}\": dial tcp: lookup {host}: no such host"
        ))
    }
}

/// Returns the short name and the tag or digest of an image, as in a NodeImage.
///
/// # Errors
/// Upstream's message for a reference that is not valid.
pub fn familiar_name(reference: &str) -> Result<(String, String), String> {
    let image = Image::parse(reference)?;
    let name = match image.registry {
        "docker.io" => {
            let own = image.path.strip_prefix("library/");
            let own = own.filter(|own| !own.contains('/'));
            own.unwrap_or(&image.path).to_owned()
        }
        _ => image.repository(),
    };
    let tag = image.digest.or(image.tag).unwrap_or("latest");
    Ok((name, tag.to_owned()))
}

/// Returns the reference to a tag or digest of an image.
pub fn reference_to(name: &str, tag: &str) -> String {
    let separator = if is_digest(tag) { '@' } else { ':' };
    format!("{name}{separator}{tag}")
}

/// Returns the error of a pull of `reference` when the registries lack the images `missing`; `None` if it succeeds.
pub fn pull_error(reference: &str, missing: &MissingImages) -> Option<String> {
    match Image::parse(reference) {
        Ok(image) => image.pull_error(reference, missing),
        Err(fault) => Some(fault),
    }
}

/// Returns whether the first component of a reference is a registry.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

fn is_path(path: &str) -> bool {
    path.split('/').all(|part| {
        let ends = part.starts_with(is_alphanumeric) && part.ends_with(is_alphanumeric);
        let mut separators = part.split(is_alphanumeric);
        ends && separators.all(|own| {
            matches!(own, "" | "." | "_" | "__") || own.chars().all(|separator| separator == '-')
        })
    })
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_tag(tag: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.starts_with(word)
        && tag.len() <= 128
        && tag.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_images_run_their_shell_in_any_registry() {
        for (text, command) in [
            ("busybox", Some("sh")),
            ("docker.io/library/busybox:1.36", Some("sh")),
            (
                "registry.k8s.io/e2e-test-images/busybox:1.37.0-1",
                Some("sh"),
            ),
            ("localhost:5000/mine/alpine", Some("/bin/sh")),
            ("ubuntu:24.04", Some("/bin/bash")),
            ("nginx", None),
            ("busybox-extras", None),
        ] {
            assert_eq!(Image::parse(text).unwrap().command(), command, "{text}");
        }
    }

    #[test]
    fn programs_are_known_of_the_base_images_of_those_who_make_them() {
        let has = |text, program| {
            let programs = Image::parse(text).unwrap().programs();
            programs.map(|programs| programs.contains(program))
        };
        for (text, program, is_there) in [
            ("busybox:1.36", "httpd", Some(true)),
            ("busybox", "bash", Some(false)),
            ("public.ecr.aws/docker/library/alpine", "apk", Some(true)),
            (
                "registry.k8s.io/e2e-test-images/busybox:1.37.0-1",
                "apk",
                Some(false),
            ),
            ("ubuntu", "apt-get", Some(true)),
            ("fedora", "apt-get", Some(false)),
            ("localhost:5000/mine/busybox", "bash", None),
            ("nginx", "nginx", None),
        ] {
            assert_eq!(has(text, program), is_there, "{text} {program}");
        }
        for (name, command) in &KNOWN.commands {
            let program = command.trim_start_matches("/bin/");
            assert!(KNOWN.programs[name].contains(program), "{name}");
        }
    }

    #[test]
    fn registries_that_cannot_be_do_not_answer() {
        for (text, fails) in [
            ("invalid.registry.k8s.io/invalid/alpine:3.1", true),
            ("foo.invalid/a", true),
            ("foo.invalid:5000/a", true),
            ("invalid/alpine", false),
            ("registry.k8s.io/invalid/alpine", false),
            ("invalidated.io/a", false),
        ] {
            let error = pull_error(text, &MissingImages::default());
            assert_eq!(error.is_some(), fails, "{text}");
        }
        let text = "invalid.registry.k8s.io/invalid/alpine:3.1";
        assert_eq!(
            pull_error(text, &MissingImages::default()).unwrap(),
            "rpc error: code = Unknown desc = failed to pull and unpack image \
             \"invalid.registry.k8s.io/invalid/alpine:3.1\": failed to resolve reference \
             \"invalid.registry.k8s.io/invalid/alpine:3.1\": failed to do request: Head \
             \"https://invalid.registry.k8s.io/v2/invalid/alpine/manifests/3.1\": dial tcp: lookup \
             invalid.registry.k8s.io: no such host"
        );
    }

    #[test]
    fn a_missing_image_is_not_found_in_its_registry() {
        let patterns = ["web:404", "docker.io/library/cache:latest", "*/none"];
        let patterns = patterns.map(str::to_owned).to_vec();
        let missing = MissingImages::try_new(patterns).unwrap();
        for (text, fails) in [
            ("web:404", true),
            ("docker.io/library/web:404", false),
            ("cache", true),
            ("cache:1", false),
            ("a.io/none", true),
            ("a.io/none:1", false),
        ] {
            assert_eq!(pull_error(text, &missing).is_some(), fails, "{text}");
        }
        assert_eq!(
            pull_error("web:404", &missing).unwrap(),
            "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/web:404\": failed to \
             resolve reference \"docker.io/library/web:404\": docker.io/library/web:404: not found"
        );
    }

    #[test]
    fn malformed_references_are_reported_in_upstream_s_words() {
        let long = format!("a@sha256:{}", "0".repeat(64));
        for text in ["a", "a:b", "h.io:80/a/b-c__d.e:1", &long, "Host/a"] {
            assert!(Image::parse(text).is_ok(), "{text}");
        }
        for (text, message) in [
            ("nginx:", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("a b", "invalid reference format"),
            ("", "invalid reference format"),
            ("a@sha256:00", "invalid reference format"),
            (
                "Nginx:1",
                "invalid reference format: repository name (Nginx) must be lowercase",
            ),
        ] {
            assert_eq!(Image::parse(text).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn familiar_names_leave_out_what_goes_without_saying() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let digested = format!("nginx:1@{digest}");
        for (text, name, tag) in [
            ("nginx", "nginx", "latest"),
            ("index.docker.io/library/nginx:1.25", "nginx", "1.25"),
            ("docker.io/library/a/b", "library/a/b", "latest"),
            ("openkruise/guestbook:v1", "openkruise/guestbook", "v1"),
            ("localhost:5000/a:2", "localhost:5000/a", "2"),
            ("quay.io/library/nginx", "quay.io/library/nginx", "latest"),
            (&digested, "nginx", &digest),
        ] {
            let familiar = familiar_name(text).unwrap();
            assert_eq!(familiar, (name.to_owned(), tag.to_owned()), "{text}");
            let again = familiar_name(&reference_to(name, tag));
            assert_eq!(again, Ok(familiar), "{text}");
        }
        assert_eq!(
            familiar_name("a b"),
            Err("invalid reference format".to_owned())
        );
    }

    #[test]
    fn references_to_one_image_have_one_name() {
        let canonical = |text| {
            Image::parse(text)
                .unwrap()
                .canonical(&SameImages::default())
        };
        for (one, other) in [
            ("nginx:alpine", "docker.io/library/nginx:mainline-alpine"),
            ("nginx", "index.docker.io/nginx:latest"),
            ("nginx:mainline", "nginx"),
        ] {
            assert_eq!(canonical(one), canonical(other), "{one} {other}");
        }
        assert_eq!(canonical("nginx:1.27"), "nginx:1.27");
        assert_ne!(canonical("quay.io/nginx:alpine"), canonical("nginx:alpine"));
    }

    #[test]
    fn groups_of_references_to_one_image_are_joined_by_what_they_share() {
        let group = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let groups: [Vec<String>; 3] = [
            group(&["app:1", "mirror.io/app:stable"]),
            group(&["other:1", "other:2"]),
            group(&["docker.io/library/app:1", "app:2", "nginx:mainline-alpine"]),
        ];
        let same = SameImages::try_new(&groups).unwrap();
        let canonical = |text| Image::parse(text).unwrap().canonical(&same);
        for (one, other, are_one) in [
            ("mirror.io/app:stable", "app:2", true),
            ("nginx:alpine", "app:1", true),
            ("other:1", "docker.io/other:2", true),
            ("other:1", "app:1", false),
            ("app:3", "app:2", false),
        ] {
            assert_eq!(canonical(one) == canonical(other), are_one, "{one} {other}");
        }
        let wrong = SameImages::try_new(&[group(&["a", "B"])]).unwrap_err();
        let message =
            "image name \"B\": invalid reference format: repository name (B) must be lowercase";
        assert_eq!(wrong.to_string(), message);
    }
}
