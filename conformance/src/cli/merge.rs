//! `kubeproof merge`: the results of shards as those of one command.
//!
//! - `joined`: the lines of all shards, in one order

mod joined;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use kubeproof::report::{self, Page, ScenarioReport};
use kubeproof_machinery::json::{Value, from_value};

use super::manual;
use super::shard::record::{FILE, Head, Runs};
use joined::Joined;

/// The directories next to the page of a report: logs of failed runs, and the output of programs.
const BESIDE: [&str; 2] = ["logs", "programs"];

#[derive(Args)]
pub(super) struct MergeArgs {
    /// The records of all shards: files with what --json has printed, or directories of --report.
    #[arg(required = true, value_name = "FILE|DIR")]
    shards: Vec<PathBuf>,
    /// Write the page of all shards into this directory; every record has to be a directory of --report.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print the JSON that a single command, without --shard, prints with --json.
    #[arg(long)]
    json: bool,
}

/// The record of a shard.
struct Shard {
    path: PathBuf,
    head: Head,
    /// The lines between head and summary.
    lines: Vec<Value>,
}

/// Joins the records, and ends as the whole command would.
pub(super) fn merge(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let read = args.shards.iter().map(|path| Shard::read(path));
    let shards = read.collect::<anyhow::Result<Vec<_>>>()?;
    let shards = complete(shards)?;
    let runs = shards[0].head.runs.clone();
    let (mut pages, mut lines) = (Vec::new(), Vec::new());
    for shard in &shards {
        let mut of_shard = Vec::new();
        for line in &shard.lines {
            match line.get("page") {
                Some(page) => {
                    let page = ScenarioReport::from_record(page);
                    pages.push(page.with_context(|| shard.path.display().to_string())?);
                }
                None => of_shard.push(line.clone()),
            }
        }
        lines.push((shard.path.as_path(), of_shard));
    }
    let joined = Joined::of(&runs, lines)?;
    joined.say(args.json)?;
    if let Some(dir) = &args.report {
        for shard in &shards {
            ensure!(
                shard.path.is_dir(),
                "{} has no pages: --report needs the directories that the shards wrote with --report",
                shard.path.display()
            );
            copy_beside(&shard.path, dir)?;
        }
        // A scenario in another order follows the scenario itself.
        let scenario = |page: &ScenarioReport| {
            let name = page.name.split(" (seed").next();
            name.and_then(|name| runs.scenarios.iter().position(|one| one == name))
        };
        pages.sort_by_key(scenario);
        let page = Page {
            scenarios: pages,
            matrix: joined.matrix(),
            made_by: Some(manual::made_by()),
        };
        report::write(dir, &page)
            .with_context(|| format!("cannot write a report into {}", dir.display()))?;
    }
    Ok(match joined.has_passed() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Shard {
    /// Reads a record. Lines that are no JSON are left alone: the log of a pod has those of standard error, too.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let file = match path.is_dir() {
            true => path.join(FILE),
            false => path.to_owned(),
        };
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.filter(Value::is_object).collect();
        let is_head = |line: &Value| line.get("shard").is_some();
        let is_last = |line: &Value| line.get("summary").is_some();
        ensure!(
            lines.iter().any(is_head),
            "{} is not the record of a shard",
            file.display()
        );
        // Of several attempts the last that ended counts.
        let Some(end) = lines.iter().rposition(is_last) else {
            bail!("{} has no summary: this shard did not end", file.display());
        };
        let begin = lines[..end].iter().rposition(is_head);
        let begin = begin.with_context(|| format!("{} lacks its beginning", file.display()))?;
        let head = from_value(lines[begin]["shard"].clone());
        let head = head.with_context(|| format!("{} is of another version", file.display()))?;
        let lines = lines[begin + 1..end].to_vec();
        Ok(Self {
            path: path.to_owned(),
            head,
            lines,
        })
    }
}

/// Returns the shards in their order.
///
/// # Errors
/// When they are not of the same runs, or one of them is missing or there twice.
fn complete(shards: Vec<Shard>) -> anyhow::Result<Vec<Shard>> {
    let mut by_number: BTreeMap<usize, Shard> = BTreeMap::new();
    for shard in shards {
        if let Some(first) = by_number.values().next() {
            let differs = difference(&first.head, &shard.head);
            if let Some(differs) = differs {
                let (one, other) = (first.path.display(), shard.path.display());
                bail!("{one} and {other} do not belong together: {differs}");
            }
        }
        if let Some(before) = by_number.get(&shard.head.number) {
            let (one, other) = (before.path.display(), shard.path.display());
            bail!("{one} and {other} are both shard {}", shard.head.number);
        }
        by_number.insert(shard.head.number, shard);
    }
    let of = by_number.values().next().map_or(0, |first| first.head.of);
    let missing = (1..=of).filter(|number| !by_number.contains_key(number));
    let missing: Vec<String> = missing.map(|number| number.to_string()).collect();
    ensure!(
        missing.is_empty(),
        "of {of} shards these are missing: {}",
        missing.join(", ")
    );
    Ok(by_number.into_values().collect())
}

/// The first thing that two shards of the same runs would agree on.
fn difference(one: &Head, other: &Head) -> Option<String> {
    let differ = |what: &str, one: &dyn ToString, other: &dyn ToString| {
        let (one, other) = (one.to_string(), other.to_string());
        (one != other).then(|| format!("{what} {one} and {other}"))
    };
    let (a, b): (&Runs, &Runs) = (&one.runs, &other.runs);
    let names = |of: &Runs| of.scenarios.iter().cloned().collect::<BTreeSet<_>>();
    let own: Vec<String> = names(a).symmetric_difference(&names(b)).cloned().collect();
    differ("they are of the commands", &a.command, &b.command)
        .or_else(|| differ("the numbers of shards are", &one.of, &other.of))
        .or_else(|| differ("they were made by versions", &a.version, &b.version))
        .or_else(|| differ("their flags are", &a.flags, &b.flags))
        .or_else(|| {
            let only = own.first()?;
            Some(format!("only one of them knows the scenario {only}"))
        })
        .or_else(|| (a != b).then(|| "the files of their scenarios differ".to_owned()))
}

/// Copies what a report has next to its page.
fn copy_beside(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in BESIDE {
        let (from, to) = (from.join(name), to.join(name));
        if !from.is_dir() {
            continue;
        }
        let cannot = || format!("cannot copy {} to {}", from.display(), to.display());
        std::fs::create_dir_all(&to).with_context(cannot)?;
        for entry in std::fs::read_dir(&from).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            std::fs::copy(entry.path(), to.join(entry.file_name())).with_context(cannot)?;
        }
    }
    Ok(())
}
