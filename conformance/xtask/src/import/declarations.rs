//! `declarations.txt`: the functions that CEL expressions may call, with their overloads.

mod evaluate;
mod groups;
mod walk;

use anyhow::{Context as _, ensure};

use super::Inputs;
use super::go::{self, Kind, Token, tokens};
use evaluate::Scope;

/// Which libraries expressions have, in the order of their functions.
const ENVIRONMENT: &str = "staging/src/k8s.io/apiserver/pkg/cel/environment/base.go";
const KUBERNETES: &str = "staging/src/k8s.io/apiserver/pkg/cel";
const CEL_GO: &str = "vendor/github.com/google/cel-go";

const FORMAT: &str = "\
# A function a line: its name, then an overload (a dot marks methods). A function has the overloads of
# all its lines, in their order. Capital letters are type parameters.
";

/// The places in which a library of functions is declared.
struct Library {
    /// Package and function by which an environment has it.
    name: &'static str,
    /// Below the directory of Kubernetes' libraries, or of cel-go.
    file: &'static str,
    /// The variable or type that has the declarations; nothing if they are all in the file.
    from: &'static str,
}

/// Part of every environment.
const STANDARD: Library = library("cel.StdLib", "common/stdlib/standard.go", "stdFunctions");
/// Known to mutations alone.
const JSON_PATCH: Library = library("library.JSONPatch", "library/jsonpatch.go", "");

/// The libraries that the environment is known to name.
const LIBRARIES: [Library; 16] = [
    library("library.URLs", "library/urls.go", ""),
    library("library.Regex", "library/regex.go", ""),
    library("library.Lists", "library/lists.go", ""),
    library("library.Authz", "library/authz.go", "authzLibraryDecls"),
    library(
        "library.AuthzSelectors",
        "library/authz.go",
        "authzSelectorsLibraryDecls",
    ),
    library("library.Quantity", "library/quantity.go", ""),
    library("library.IP", "library/ip.go", ""),
    library("library.CIDR", "library/cidr.go", ""),
    library("library.Format", "library/format.go", "formatLibraryDecls"),
    library("library.SemverLib", "library/semverlib.go", ""),
    JSON_PATCH,
    library("cel.OptionalTypes", "cel/library.go", "optionalLib"),
    library("ext.Strings", "ext/strings.go", ""),
    library("ext.Sets", "ext/sets.go", ""),
    library("ext.TwoVarComprehensions", "ext/comprehensions.go", ""),
    library("ext.Lists", "ext/lists.go", ""),
];

const fn library(name: &'static str, file: &'static str, from: &'static str) -> Library {
    Library { name, file, from }
}

impl Library {
    /// The file's path in a checkout.
    fn path(&self) -> String {
        match self.name.starts_with("library.") {
            true => format!("{KUBERNETES}/{}", self.file),
            false => format!("{CEL_GO}/{}", self.file),
        }
    }
}

/// Functions of a file that a loop declares: the map that it goes through, and what comes before
/// each of its keys.
const LOOPED: (&str, &str) = ("ConstantFormats", "format.");

/// Returns the text of the file.
///
/// # Errors
/// The environment names an unknown library, or a declaration is not understood.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let mut chosen = vec![(&STANDARD, u64::MAX)];
    chosen.extend(environment(&inputs.tree.read(ENVIRONMENT)?)?);
    chosen.push((&JSON_PATCH, u64::MAX));
    let shared = shared(inputs)?;
    let provenance = inputs.provenance("the libraries of cel-go and of the API server");
    let mut text = format!("# {provenance}\n{FORMAT}");
    for (library, version) in chosen {
        let source = plain_tokens(&inputs.tree.read(&library.path())?);
        let mut scope = Scope::of(&source, version);
        for (package, tokens) in &shared {
            scope.add(package, tokens);
        }
        let own = after(&source, library.from)
            .with_context(|| format!("{} is not there", library.from))?;
        let mut lines = Vec::new();
        let walked = walk::declarations(own, &scope, &mut lines);
        walked.with_context(|| format!("in {}", library.path()))?;
        if after(&source, LOOPED.0).is_some() && library.from == "formatLibraryDecls" {
            lines.extend(looped(&source, &scope)?);
        }
        text.push_str(&format!("\n# {}\n", library.name));
        for (function, overload) in lines {
            text.push_str(&format!("{function:<15} {overload}\n"));
        }
    }
    Ok(text)
}

/// The libraries of the newest environment, each with the version that it is limited to.
fn environment(source: &str) -> anyhow::Result<Vec<(&'static Library, u64)>> {
    let source = plain_tokens(source);
    let options = after(&source, "baseOpts").context("the environment has no baseOpts")?;
    let options = groups::braces(options).context("baseOpts is no list")?;
    let mut found = Vec::new();
    for option in groups::split(options) {
        if option
            .iter()
            .any(|token| token.word() == Some("RemovedVersion"))
        {
            continue;
        }
        for at in 0..option.len() {
            let [first, dot, last, ..] = &option[at..] else {
                break;
            };
            let (Some(package), true, Some(name)) = (first.word(), dot.is('.'), last.word()) else {
                continue;
            };
            let name = format!("{package}.{name}");
            if let Some(library) = LIBRARIES.iter().find(|library| library.name == name) {
                found.push((library, limit(&option[at + 3..])));
            } else {
                let is_library = package == "ext" || package == "library";
                let is_limit = name.ends_with("Version");
                ensure!(!is_library || is_limit, "the library {name} is not known");
            }
        }
    }
    Ok(found)
}

/// The number in `(ext.StringsVersion(2))`.
fn limit(arguments: &[Token]) -> u64 {
    let group = groups::group(arguments).unwrap_or_default();
    let is_limit = |token: &Token| token.word().is_some_and(|word| word.ends_with("Version"));
    let number = group.iter().skip_while(|token| !is_limit(token)).nth(2);
    let number = number.and_then(|token| match &token.kind {
        Kind::Literal(number) => number.parse().ok(),
        _ => None,
    });
    number.unwrap_or(u64::MAX)
}

/// Sources with constants and types that libraries use: names of operators and overloads, and the
/// types of Kubernetes.
fn shared(inputs: &Inputs) -> anyhow::Result<Vec<(String, Vec<Token>)>> {
    let mut paths = vec![
        format!("{CEL_GO}/common/operators/operators.go"),
        format!("{CEL_GO}/common/overloads/overloads.go"),
    ];
    let types = inputs.tree.files_below(KUBERNETES, ".go")?.into_iter();
    paths.extend(types.filter(|path| {
        let rest = path.strip_prefix(KUBERNETES).unwrap_or_default();
        !rest[1..].contains('/') && !rest.ends_with("_test.go")
    }));
    let sources = paths.iter().map(|path| {
        let tokens = plain_tokens(&inputs.tree.read(path)?);
        let package = go::package_name(&tokens).to_owned();
        Ok((package, tokens))
    });
    sources.collect()
}

fn plain_tokens(source: &str) -> Vec<Token> {
    let tokens = tokens(source).into_iter();
    tokens
        .filter(|token| !matches!(token.kind, Kind::Comment(_)))
        .collect()
}

/// Returns the tokens after the assignment to `name`, or the body of the method of `name` that lists options.
fn after<'a>(tokens: &'a [Token], name: &str) -> Option<&'a [Token]> {
    if name.is_empty() {
        return Some(tokens);
    }
    let assigned = tokens
        .windows(2)
        .position(|pair| pair[0].word() == Some(name) && pair[1].is('='));
    if let Some(at) = assigned {
        return Some(&tokens[at + 2..]).and_then(groups::statement);
    }
    let method = tokens.windows(3).position(|own| {
        own[0].word() == Some(name) && own[1].is(')') && own[2].word() == Some("CompileOptions")
    })?;
    let body = tokens[method..].iter().position(|token| token.is('{'))?;
    // The result's type, `[]EnvOption`, has no braces.
    groups::group(&tokens[method + body..])
}

/// The functions without parameters that a loop declares, one for each key of a map.
fn looped(source: &[Token], scope: &Scope) -> anyhow::Result<Vec<(String, String)>> {
    let (map, prefix) = LOOPED;
    let entries = after(source, map).and_then(groups::braces);
    let entries = entries.with_context(|| format!("{map} is not a map"))?;
    let result = scope.named_type("FormatType")?;
    let keys = groups::split(entries).into_iter();
    let keys = keys.filter_map(|entry| match &entry.first()?.kind {
        Kind::Text(key) => Some(format!("{prefix}{key}")),
        _ => None,
    });
    Ok(keys
        .map(|name| (name.clone(), format!("{name}() -> {result}")))
        .collect())
}

#[cfg(test)]
mod tests;
