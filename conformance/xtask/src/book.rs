//! `cargo xtask book`: a preprocessor of mdBook. A link of a page to a file outside of `docs` becomes a link to the
//! repository, because the book has no such file. Everything else of a page stays as it is.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use regex_lite::{Captures, Regex};
use serde_json::Value;

use crate::root;

/// The pages of the book, below the root of the workspace.
const PAGES: &str = "docs";

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Option<Question>,
}

/// What mdBook asks before it sends a book.
#[derive(clap::Subcommand)]
enum Question {
    /// Say by the exit code whether the pages of this renderer are changed.
    Supports {
        /// The name of a renderer of mdBook.
        renderer: String,
    },
}

/// Answers mdBook: reads `[context, book]` as JSON from standard input, and writes the changed book to standard output.
///
/// # Errors
/// The input is no book, or a page links to a file that does not exist.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(Question::Supports { renderer }) = &args.question {
        return Ok(match renderer.as_str() {
            "html" => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        });
    }
    let input = std::io::read_to_string(std::io::stdin())?;
    let (_, mut book): (Value, Value) = serde_json::from_str(&input)
        .context("standard input is no book; `mdbook build docs` starts this task")?;
    let pages = follow(&mut book)?;
    ensure!(pages > 0, "the book has no page");
    std::io::stdout().write_all(book.to_string().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Changes every page below `value`, and returns their number. A page is an object with a path and a content, at any
/// depth: versions of mdBook differ in what is around it.
fn follow(value: &mut Value) -> anyhow::Result<usize> {
    let mut pages = 0;
    match value {
        Value::Array(items) => {
            for item in items {
                pages += follow(item)?;
            }
        }
        Value::Object(fields) => {
            let path = fields.get("source_path").and_then(Value::as_str);
            if let (Some(path), Some(Value::String(content))) = (path, fields.get("content")) {
                let changed = page(Path::new(path), content);
                let changed = changed.with_context(|| format!("{PAGES}/{path}"))?;
                fields.insert("content".to_owned(), Value::String(changed));
                pages += 1;
            }
            for field in fields.values_mut() {
                pages += follow(field)?;
            }
        }
        _ => {}
    }
    Ok(pages)
}

/// The text of the page at `path`, which is below `docs`, with its links changed. Blocks of code have none.
fn page(path: &Path, content: &str) -> anyhow::Result<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut is_code = false;
    let mut changed = String::with_capacity(content.len());
    for line in content.split_inclusive('\n') {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            changed.push_str(line);
            continue;
        }
        let mut wrong = None;
        let line = link.replace_all(line, |found: &Captures<'_>| {
            let (whole, target) = (&found[0], &found[1]);
            match outside(path, target) {
                Ok(Some(url)) => format!("]({url})"),
                Ok(None) => whole.to_owned(),
                Err(error) => {
                    wrong = Some(error);
                    whole.to_owned()
                }
            }
        });
        changed.push_str(&line);
        if let Some(error) = wrong {
            return Err(error);
        }
    }
    Ok(changed)
}

/// The address in the repository of what `target`, a link of the page at `path`, leads to; nothing if that is in the book.
fn outside(path: &Path, target: &str) -> anyhow::Result<Option<String>> {
    if target.contains("://") || target.starts_with('#') {
        return Ok(None);
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let mut place = PathBuf::from(PAGES);
    place.extend(path.parent());
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => ensure!(place.pop(), "{target} leaves the repository"),
            Component::Normal(name) => place.push(name),
            _ => {}
        }
    }
    let whole = root().join(&place);
    if !whole.exists() {
        bail!("{target} leads to nothing");
    }
    if place.starts_with(PAGES) {
        return Ok(None);
    }
    let view = if whole.is_dir() { "tree" } else { "blob" };
    let repository = env!("CARGO_PKG_REPOSITORY");
    let place = place.display().to_string().replace('\\', "/");
    Ok(Some(format!("{repository}/{view}/HEAD/{place}{anchor}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

    #[test]
    fn a_link_out_of_the_book_leads_to_the_repository() {
        let text = "[a](cli.md#run) and [b](../packaging/npm), [c](../README.md#for-whom) [d](https://example.com/x)\n";
        let expected = format!(
            "[a](cli.md#run) and [b]({REPOSITORY}/tree/HEAD/packaging/npm), \
             [c]({REPOSITORY}/blob/HEAD/README.md#for-whom) [d](https://example.com/x)\n"
        );
        assert_eq!(page(Path::new("install.md"), text).unwrap(), expected);
    }

    #[test]
    fn code_is_left_alone() {
        let text = "```console\n$ echo [a](../LICENSE)\n```\n";
        assert_eq!(page(Path::new("install.md"), text).unwrap(), text);
    }

    #[test]
    fn a_link_to_nothing_is_an_error() {
        for target in ["../nothing", "nothing.md", "../../nothing"] {
            assert!(
                outside(Path::new("install.md"), target).is_err(),
                "{target}"
            );
        }
    }

    #[test]
    fn pages_are_found_at_any_depth() {
        let chapter = |content: &str, below: Value| json!({"Chapter": {"name": "n", "source_path": "cli.md", "content": content, "sub_items": below}});
        let inner = chapter("[a](../LICENSE)", json!([]));
        let mut book = json!({"items": ["Separator", chapter("[b](cli.md)", json!([inner]))]});
        assert_eq!(follow(&mut book).unwrap(), 2);
        let changed = format!("[a]({REPOSITORY}/blob/HEAD/LICENSE)");
        let chapter = &book["items"][1]["Chapter"];
        assert_eq!(chapter["content"], "[b](cli.md)");
        assert_eq!(chapter["sub_items"][0]["Chapter"]["content"], changed);
    }

    #[test]
    fn every_page_of_the_guide_can_be_changed() {
        let mut links = 0;
        for entry in std::fs::read_dir(root().join(PAGES)).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|end| end == "md") {
                let text = std::fs::read_to_string(&file).unwrap();
                let name = Path::new(file.file_name().unwrap());
                let changed = page(name, &text).unwrap();
                assert!(!changed.contains("](../"), "{}", file.display());
                links += changed.matches("/HEAD/").count();
            }
        }
        assert!(links > 0, "no page links to the repository");
    }
}
