//! `cargo xtask deny`: licenses, versions and sources of dependencies, by `deny.toml`.
//!
//! cargo-deny reads the same file and knows advisories, too. It is a large program to build, and its advisories need a
//! host other than crates.io; so CI has this check.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// The part of `deny.toml` that is checked here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// A second version that may be built.
#[derive(Deserialize)]
struct Skip {
    /// `NAME@VERSION`.
    #[serde(rename = "crate")]
    version: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// The part of `cargo metadata` that is checked here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for members of the workspace.
    source: Option<String>,
}

/// Prints what `deny.toml` refuses.
///
/// # Errors
/// The rules or the dependencies cannot be read.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let path = crate::root().join("deny.toml");
    let text = std::fs::read_to_string(path).context("cannot read deny.toml")?;
    let rules: Rules = basic_toml::from_str(&text).context("deny.toml")?;
    let mut command = crate::ci::cargo();
    command.args([
        "metadata",
        "--locked",
        "--all-features",
        "--format-version=1",
    ]);
    let read = command.output().context("cannot start cargo")?;
    let stderr = String::from_utf8_lossy(&read.stderr);
    ensure!(read.status.success(), "cargo metadata: {stderr}");
    let metadata: Metadata = serde_json::from_slice(&read.stdout)?;
    let refusals = refusals(&rules, &metadata.packages);
    for refusal in &refusals {
        println!("deny: {refusal}");
    }
    Ok(if refusals.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn refusals(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, .. } = package;
        versions.entry(name).or_default().push(version);
        let Some(source) = &package.source else {
            continue;
        };
        let registry = source.strip_prefix("registry+");
        let is_known =
            registry.is_some_and(|url| rules.sources.allow_registry.contains(&url.into()));
        if !is_known {
            refusals.push(format!("{name} {version} is from {source}"));
        }
        let license = package.license.as_deref().unwrap_or("no license");
        if !is_allowed(license, &rules.licenses.allow) {
            refusals.push(format!("{name} {version} has {license}"));
        }
    }
    for skip in &rules.bans.skip {
        let (name, version) = skip.version.split_once('@').unwrap_or((&skip.version, ""));
        let found = versions.get_mut(name).is_some_and(|found| {
            let before = found.len();
            found.retain(|other| *other != version);
            before > 1 && found.len() < before
        });
        if !found || skip.reason.is_empty() {
            let version = &skip.version;
            refusals.push(format!("{version} is skipped without need or reason"));
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    refusals.extend(several.map(|(name, versions)| format!("{name} has versions {versions:?}")));
    refusals
}

/// Whether an SPDX expression can be met with these licenses. `/` is crates.io's old form of `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let spaced = spaced.replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

/// Reads `TERM OR TERM…`.
fn any(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        is_met |= all(rest, allowed);
    }
    is_met
}

/// Reads `LICENSE AND LICENSE…`, where each may be an expression in parentheses.
fn all(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        is_met &= one(rest, allowed);
    }
    is_met
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    let name = match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let is_met = any(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap_or(&["unclosed"]);
            return is_met;
        }
        [license, "WITH", exception, after @ ..] => {
            *rest = after;
            format!("{license} WITH {exception}")
        }
        [license, after @ ..] => {
            *rest = after;
            // `+` is "or a later version", so the named one will do.
            license.trim_end_matches('+').to_owned()
        }
        [] => return false,
    };
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_licenses_are_met_or_not() {
        let allowed = ["MIT", "ISC", "MPL-2.0", "Apache-2.0 WITH LLVM-exception"].map(String::from);
        let cases = [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Unlicense/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("MIT OR (GPL-3.0 AND ISC)", true),
            ("MPL-2.0+", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("(MIT", false),
            ("", false),
        ];
        for (expression, expected) in cases {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn second_versions_and_strange_sources_are_refused() {
        let text = "[licenses]\nallow = ['MIT']\n[sources]\nallow-registry = ['https://known']\n\
                    [bans]\nskip = [{ crate = 'a@1', reason = 'b' }, { crate = 'z@1', reason = 'gone' }]\n";
        let rules: Rules = basic_toml::from_str(text).unwrap();
        let package = |name: &str, version: &str, source: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT".to_owned()),
            source: Some(source.to_owned()),
        };
        let packages = [
            package("a", "1", "registry+https://known"),
            package("a", "2", "registry+https://known"),
            package("b", "1", "registry+https://known"),
            package("b", "2", "git+https://elsewhere"),
        ];
        let expected = [
            "b 2 is from git+https://elsewhere",
            "z@1 is skipped without need or reason",
            "b has versions [\"1\", \"2\"]",
        ];
        assert_eq!(refusals(&rules, &packages), expected);
    }
}
