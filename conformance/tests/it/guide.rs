//! The guide: every command in it is run and prints what the page says, every program is run or is a part of a tested
//! file, every link leads somewhere, and its reference is made of the program.
//!
//! A page is one session of a shell in a new directory, in which `kubeproof` is the program under test. A comment before
//! a block says what the page need not (`guide::page::Directive`). `...` stands for any characters, or alone on a line
//! for any lines.

mod page;
mod reference;
mod session;

use std::collections::BTreeSet;
use std::path::Path;

use kubeproof_controller::{CONTROLLERS, KRUISE_CONTROLLERS};
use page::{Directive, blocks, pages, read, root};
use regex::Regex;

/// Languages whose blocks are programs. They are files that a command runs, or parts of tested files.
const PROGRAMS: &[&str] = &["go", "java", "javascript", "python", "rust", "typescript"];

macro_rules! followed {
    ($($test:ident => $page:literal,)+) => {
        $(#[test]
        fn $test() {
            session::follow($page);
        })+

        const FOLLOWED: &[&str] = &[$($page),+];
    };
}

followed! {
    the_readme_is_followed => "README.md",
    autoscaling_is_followed => "docs/autoscaling.md",
    cluster_is_followed => "docs/cluster.md",
    envtest_is_followed => "docs/envtest.md",
    explore_is_followed => "docs/explore.md",
    faults_are_followed => "docs/faults.md",
    the_first_minute_is_followed => "docs/first-minute.md",
    the_first_scenario_is_followed => "docs/first-scenario.md",
    install_is_followed => "docs/install.md",
    java_is_followed => "docs/java.md",
    javascript_is_followed => "docs/javascript.md",
    looking_back_is_followed => "docs/looking-back.md",
    operators_are_followed => "docs/operators.md",
    pods_are_followed => "docs/pods.md",
    properties_are_followed => "docs/properties.md",
    python_is_followed => "docs/python.md",
    scenarios_are_followed => "docs/scenarios.md",
    speed_is_followed => "docs/speed.md",
    testing_is_followed => "docs/testing.md",
    virtual_time_is_followed => "docs/virtual-time.md",
}

#[test]
fn every_page_with_commands_is_followed() {
    for path in pages() {
        let blocks = blocks(&read(&path));
        let is_followed = FOLLOWED.contains(&path.as_str());
        let has_code = blocks
            .iter()
            .any(|block| block.language == "console" || !block.directives.is_empty());
        assert!(
            is_followed || !has_code,
            "{path} is not in the list of this file"
        );
    }
}

#[test]
fn every_program_is_run_or_is_a_part_of_a_tested_file() {
    for path in FOLLOWED {
        for block in blocks(&read(path)) {
            let place = format!("{path}:{}", block.line);
            let is_program = PROGRAMS.contains(&block.language.as_str());
            let has_place = block
                .directives
                .iter()
                .any(|directive| !matches!(directive, Directive::Needs(_) | Directive::Fails(_)));
            assert!(
                has_place || !is_program,
                "{place}: where is this program run?"
            );
            for directive in &block.directives {
                if let Directive::From(file) = directive {
                    let flat = |text: &str| -> Vec<String> {
                        let lines = text.lines().map(|line| line.trim().to_owned());
                        lines.filter(|line| !line.is_empty()).collect()
                    };
                    let whole = flat(&read(file));
                    for paragraph in block.text.split("\n\n") {
                        let part = flat(paragraph);
                        let is_part = whole.windows(part.len()).any(|lines| lines == part);
                        assert!(
                            is_part,
                            "{place}: these are no lines of {file}: {paragraph}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_block_of_data_can_be_parsed() {
    for path in pages() {
        for block in blocks(&read(&path)) {
            let wrong = match block.language.as_str() {
                "yaml" => serde_saphyr::from_str::<serde_json::Value>(&block.text)
                    .err()
                    .map(|error| error.to_string()),
                "json" => serde_json::from_str::<serde_json::Value>(&block.text)
                    .err()
                    .map(|error| error.to_string()),
                _ => None,
            };
            assert_eq!(wrong, None, "{path}:{}", block.line);
        }
    }
}

/// The anchors of a page: its headings, as GitHub and mdBook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter_map(|line| {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#').strip_prefix(' ')?;
        (!is_code && line.starts_with('#')).then_some(heading)
    });
    let names = headings.map(|heading| {
        let name = heading.to_lowercase().replace(' ', "-");
        name.chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
            .collect()
    });
    names.collect()
}

#[test]
fn every_link_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut broken = Vec::new();
    let texts = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "llms.txt",
    ];
    for path in texts.map(str::to_owned).into_iter().chain(pages()) {
        let text = read(&path);
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let directory = Path::new(&path).parent().expect("a file has a directory");
            let full = match file {
                "" => root().join(&path),
                _ => root().join(directory).join(file),
            };
            let is_there = full.exists()
                && (anchor.is_empty()
                    || anchors(&std::fs::read_to_string(&full).unwrap_or_default())
                        .contains(anchor));
            if !is_there {
                broken.push(format!("{path}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_summary_and_llms_txt_list_every_page() {
    let summary = read("docs/SUMMARY.md");
    let index = read("llms.txt");
    for path in pages() {
        let name = path.trim_start_matches("docs/");
        if name == "SUMMARY.md" {
            continue;
        }
        assert!(
            summary.contains(&format!("({name})")),
            "{name} is not in SUMMARY.md"
        );
        assert!(
            index.contains(&format!("({path})")),
            "{path} is not in llms.txt"
        );
    }
}

#[test]
fn the_controllers_are_listed_and_counted() {
    let page = read("docs/cluster.md");
    let words: Vec<&str> = page.split_whitespace().collect();
    let page = words.join(" ");
    let (_, lists) = page.split_once("The controllers are ").expect("a list");
    let (own, kruise) = lists.split_once(". `--kruise` adds ").expect("two lists");
    let (kruise, _) = kruise.split_once('.').expect("the end of the lists");
    let name = Regex::new("`([^`]+)`").expect("a pattern");
    for (list, controllers) in [(own, CONTROLLERS), (kruise, KRUISE_CONTROLLERS)] {
        let listed: BTreeSet<&str> = name
            .captures_iter(list)
            .map(|found| found.get(1).expect("a name").as_str())
            .collect();
        assert_eq!(listed, controllers.iter().copied().collect());
    }
    let count = format!("{} controllers", CONTROLLERS.len());
    assert!(read("docs/fidelity.md").contains(&count), "not {count}");
}

#[test]
fn pictures_are_small() {
    let pictures = std::fs::read_dir(root().join("docs/pictures")).expect("they can be listed");
    for picture in pictures {
        let picture = picture.expect("an entry");
        let size = picture.metadata().expect("its size").len();
        assert!(size < 200_000, "{:?} has {size} bytes", picture.file_name());
    }
}
