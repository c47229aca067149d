//! Builds the program with all mutants, and finds those that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead as _;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::mutant::{Mutated, Place};

/// A line of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Message>,
}

/// A message of the compiler.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    level: String,
    message: String,
    code: Option<Code>,
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Message>,
    rendered: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

/// The error of a value that is used after it was moved.
const USED_AFTER_MOVE: &str = "E0382";

/// A place in a source.
#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
    label: Option<String>,
    /// Where the macro is called that the place is in.
    expansion: Option<Box<Expansion>>,
}

#[derive(Debug, Deserialize)]
struct Expansion {
    span: Span,
}

/// Changes of the profile for tests. It leaves harness and nodes unoptimized, but a run of all mutants takes far longer
/// than a build. Optimizing the controllers, which have the mutants, would take longer than all else.
const PROFILE: [&str; 3] = [
    "--config=profile.dev.debug=false",
    "--config=profile.dev.package.kubeproof.opt-level=1",
    "--config=profile.dev.package.kubeproof-node.opt-level=1",
];

/// Builds the program in `tree`.
///
/// Returns the errors; the list is empty if the program is built.
///
/// # Errors
/// Cargo cannot be started, or fails without an error of the compiler.
pub(crate) fn build(tree: &Path, target: &Path) -> anyhow::Result<Vec<Message>> {
    let mut command = crate::ci::cargo();
    command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .args(["build", "--workspace", "--bin", "kubeproof"])
        .args(["--locked", "--keep-going"])
        .args(PROFILE)
        .arg("--message-format=json")
        .stdout(Stdio::piped());
    let mut cargo = command.spawn().context("cannot start cargo")?;
    let output = cargo.stdout.take().context("cargo has an output")?;
    let mut errors = Vec::new();
    for line in std::io::BufReader::new(output).lines() {
        let line: Line = match serde_json::from_str(&line?) {
            Ok(line) => line,
            Err(_) => continue,
        };
        if line.reason == "compiler-message"
            && let Some(message) = line.message
            && message.level == "error"
        {
            errors.push(message);
        }
    }
    let status = cargo.wait()?;
    if !status.success() && errors.is_empty() {
        bail!("cargo failed without an error of the compiler");
    }
    Ok(match status.success() {
        true => Vec::new(),
        false => errors,
    })
}

/// Finds the mutants that these errors are about.
///
/// # Errors
/// An error is about no mutant.
pub(crate) fn blame(
    errors: &[Message],
    sources: &BTreeMap<String, Mutated>,
) -> anyhow::Result<BTreeSet<u32>> {
    let mut blamed = BTreeSet::new();
    let mut unknown = Vec::new();
    for error in errors {
        let found = blame_one(error, sources);
        // The last message of a crate counts its errors, and has no place.
        if found.is_empty() && !error.spans.is_empty() {
            let text = error.rendered.as_ref().unwrap_or(&error.message);
            unknown.push(text.clone());
        }
        blamed.extend(found);
    }
    if blamed.is_empty() {
        bail!("these errors are about no mutant:\n{}", unknown.join("\n"));
    }
    Ok(blamed)
}

/// Where an error can be caused, likely places first.
fn blame_one(error: &Message, sources: &BTreeMap<String, Mutated>) -> Vec<u32> {
    let mut spans: Vec<&Span> = error.spans.iter().collect();
    spans.sort_by_key(|span| !span.is_primary);
    spans.extend(error.children.iter().flat_map(|child| &child.spans));
    let places: Vec<(&[Place], Range<usize>)> = spans
        .into_iter()
        .filter_map(|span| place_of(span, sources))
        .collect();
    if (error.code.as_ref()).is_some_and(|code| code.code == USED_AFTER_MOVE) {
        let leaving = between_move_and_use(error, sources);
        if !leaving.is_empty() {
            return leaving;
        }
    }
    let smallest = |of: &dyn Fn(&Place, &Range<usize>) -> Option<usize>| {
        let all = places.iter().filter_map(|(mutants, span)| {
            let fitting = mutants.iter().filter_map(|place| {
                let size = of(place, span)?;
                Some((size, place.number))
            });
            fitting.min()
        });
        all.map(|(_, number)| number).next()
    };
    // The text of a mutant itself.
    let added = smallest(&|place, span| {
        let inside = place.added.iter().find(|added| touches(added, span))?;
        Some(inside.len())
    });
    // A statement that is deleted, so that the block around it has another type, or a variable no value.
    let within: Vec<u32> = match places.first() {
        Some((mutants, span)) if added.is_none() => {
            let inside = mutants.iter().filter(|place| {
                let region = place.region();
                span.start <= region.start && region.end <= span.end
            });
            inside.map(|place| place.number).collect()
        }
        _ => Vec::new(),
    };
    if let Some(added) = added {
        return vec![added];
    }
    if !within.is_empty() {
        return within;
    }
    let around = smallest(&|place, span| {
        let region = place.region();
        (region.start <= span.start && span.end <= region.end).then_some(region.len())
    });
    if let Some(around) = around {
        return vec![around];
    }
    // Any of the function.
    let in_function = places.first().map(|(mutants, span)| {
        let function = mutants
            .iter()
            .filter(|place| touches(&place.body, span))
            .map(|place| place.number);
        function.collect()
    });
    in_function.unwrap_or_default()
}

/// The mutants that delete a `return` between a move and a use of a value, so that the use is reached. Without such a
/// mutant, those of the whole function.
fn between_move_and_use(error: &Message, sources: &BTreeMap<String, Mutated>) -> Vec<u32> {
    let used = error.spans.iter().find(|span| span.is_primary);
    let Some((mutants, used)) = used.and_then(|span| place_of(span, sources)) else {
        return Vec::new();
    };
    let moved = error.spans.iter().find(|span| {
        let label = span.label.as_deref().unwrap_or_default();
        !span.is_primary && label.contains("moved")
    });
    let moved = moved.and_then(|span| place_of(span, sources));
    let moved = moved.map_or(used.start, |(_, moved)| moved.start);
    let leaving = mutants.iter().filter(|place| place.leaves);
    let leaving = leaving.filter(|place| place.body.contains(&used.start));
    let is_between = |place: &&Place| (moved..used.start).contains(&place.region().start);
    let numbers = |places: Vec<&Place>| places.into_iter().map(|place| place.number).collect();
    match leaving.clone().filter(is_between).collect::<Vec<_>>() {
        none if none.is_empty() => numbers(leaving.collect()),
        between => numbers(between),
    }
}

/// Whether a span lies within a text, or goes over its edge.
fn touches(text: &Range<usize>, span: &Range<usize>) -> bool {
    let overlaps = text.start < span.end && span.start < text.end;
    let contains_all = span.start <= text.start && text.end <= span.end;
    overlaps && (!contains_all || text == span)
}

/// The mutants of a span's file, and its bytes.
fn place_of<'a>(
    span: &Span,
    sources: &'a BTreeMap<String, Mutated>,
) -> Option<(&'a [Place], Range<usize>)> {
    let file = span.file_name.replace('\\', "/");
    let source = sources.iter().find(|(path, _)| file.ends_with(*path));
    match (source, &span.expansion) {
        (Some((_, mutated)), _) => Some((&mutated.places, span.byte_start..span.byte_end)),
        (None, Some(expansion)) => place_of(&expansion.span, sources),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
