//! `kubeproof exchange check`, `kubeproof exchange record` and `kubeproof exchange vary`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use kubeproof::exchange::{
    Case, Difference, Exchange, NetworkOptions, RecordedFile, Target, Trust, Variants, compare,
    replay, replay_in_process,
};
use kubeproof_machinery::json::Value;
use regex::Regex;
use tokio::runtime::Runtime;

use super::{known, out};

/// Places shown of each answer that differs, unless all are asked for.
const PLACES_MAX: usize = 5;

#[derive(Args)]
pub(super) struct ExchangeArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send recorded requests to a server and compare its answers with the recorded ones.
    Check(CheckArgs),
    /// Send recorded requests to a server and write its answers into the files.
    Record(RecordArgs),
    /// Send random variants of recorded requests to a server and to one in this process, and compare the answers.
    Vary(VaryArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// The server's URL; without it each case gets a fresh server in this process.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    selected: Selected,
    /// Print every difference, not the first five of an answer.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Args)]
struct RecordArgs {
    /// The server's URL.
    #[arg(long, value_name = "URL")]
    server: String,
    #[command(flatten)]
    selected: Selected,
}

#[derive(Args)]
struct VaryArgs {
    /// The server's URL.
    #[arg(long, value_name = "URL")]
    server: String,
    /// The number of variants.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: usize,
    /// Draw the variants from this seed: another one gives others.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the variants with a difference into this file, with the server's answers, for `check`.
    #[arg(long, value_name = "FILE")]
    found: Option<PathBuf>,
    #[command(flatten)]
    selected: Selected,
    /// Print every difference, not the first five of an answer.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Args)]
struct Selected {
    /// The bearer token to send to the server.
    #[arg(long)]
    token: Option<String>,
    /// Accept the server's certificate if an authority in this PEM file signed it.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_skip_tls_verify")]
    certificate_authority: Option<PathBuf>,
    /// Accept any certificate of the server.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Send only the cases whose name matches.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Files of recorded exchanges, or directories of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

impl Selected {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read, and when no case is selected, so that this does not count as success.
    fn read(&self) -> anyhow::Result<Vec<RecordedFile>> {
        let mut files = Vec::new();
        for path in &self.files {
            if path.is_dir() {
                files.extend(RecordedFile::read_all(path)?);
            } else {
                files.push(RecordedFile::read(path)?);
            }
        }
        let exchanges = files.iter().flat_map(|file| &file.exchanges);
        let cases: Vec<&Case> = exchanges.map(|exchange| &exchange.case).collect();
        let paths: Vec<_> = self
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        ensure!(
            !cases.is_empty(),
            "there is no recorded case (*.jsonl) in {}",
            paths.join(", ")
        );
        if let Some(only) = &self.only {
            let names = cases.iter().map(|case| case.name.as_str());
            ensure!(
                cases.iter().any(|case| self.includes(case)),
                "{}",
                known::unknown("case that matches", only.as_str(), names)
            );
        }
        Ok(files)
    }

    fn includes(&self, case: &Case) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.is_match(&case.name))
    }
}

/// The server that cases are replayed against.
enum Server {
    InProcess,
    Network(Target, Runtime),
}

impl Server {
    fn network(url: &str, selected: &Selected) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let trust = match &selected.certificate_authority {
            Some(path) => Some(Trust::Authority(path.clone())),
            None => selected.insecure_skip_tls_verify.then_some(Trust::Anybody),
        };
        anyhow::ensure!(
            trust.is_some() || !url.starts_with("https:"),
            "an https server needs --certificate-authority FILE or --insecure-skip-tls-verify"
        );
        let options = NetworkOptions {
            token: selected.token.clone(),
            trust,
        };
        let target = Target::network(url, options)?;
        Ok(Self::Network(target, runtime))
    }

    fn replay(&self, case: &Case) -> anyhow::Result<Vec<Value>> {
        Ok(match self {
            Self::InProcess => replay_in_process(case)?,
            Self::Network(target, runtime) => runtime.block_on(replay(target, case)),
        })
    }

    /// The answers to be recorded, none of which is a failure to get one.
    ///
    /// # Errors
    /// Why an answer is missing.
    fn answers(&self, case: &Case) -> anyhow::Result<Vec<Value>> {
        let answers = self.replay(case)?;
        for (step, answer) in answers.iter().enumerate() {
            let why = answer.get("error").and_then(Value::as_str);
            why.map_or(Ok(()), |why| Err(anyhow::Error::msg(why.to_owned())))
                .with_context(|| format!("{}: step {step}", case.name))?;
        }
        Ok(answers)
    }
}

/// A count of equal items out of all.
#[derive(Default)]
struct Score {
    equal: usize,
    all: usize,
}

pub(super) fn exchange(args: ExchangeArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check(args) => check(&args),
        Command::Record(args) => record(&args),
        Command::Vary(args) => vary(&args),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let server = match &args.server {
        Some(url) => Server::network(url, &args.selected)?,
        None => Server::InProcess,
    };
    let (mut cases, mut answers) = (Score::default(), Score::default());
    for file in args.selected.read()? {
        let mut of_file = Score::default();
        for exchange in &file.exchanges {
            if !args.selected.includes(&exchange.case) {
                continue;
            }
            let got = server.replay(&exchange.case)?;
            let differences = compare(&exchange.want, &got);
            let steps = exchange.want.len().max(got.len());
            answers.all += steps;
            answers.equal += steps - differences.len();
            of_file.all += 1;
            if differences.is_empty() {
                of_file.equal += 1;
                continue;
            }
            show(&exchange.case, &differences, args.verbose)?;
        }
        if of_file.all > 0 {
            let (equal, all) = (of_file.equal, of_file.all);
            out::say(&format!("{}.jsonl: {equal}/{all} cases", file.group))?;
        }
        cases.all += of_file.all;
        cases.equal += of_file.equal;
    }
    out::say(&format!(
        "{}/{} cases equal, {}/{} answers equal",
        cases.equal, cases.all, answers.equal, answers.all
    ))?;
    Ok(if cases.equal == cases.all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the differences of a case.
fn show(case: &Case, differences: &[Difference], verbose: bool) -> anyhow::Result<()> {
    let shown = if verbose { usize::MAX } else { PLACES_MAX };
    out::say(&format!("--- {}", case.name))?;
    for difference in differences {
        for place in difference.places.iter().take(shown) {
            out::say(&format!("    step {} {place}", difference.step))?;
        }
    }
    Ok(())
}

fn vary(args: &VaryArgs) -> anyhow::Result<ExitCode> {
    let server = Server::network(&args.server, &args.selected)?;
    let files = args.selected.read()?;
    let cases = files.iter().flat_map(|file| &file.exchanges);
    let cases = cases.map(|exchange| &exchange.case);
    let cases = cases.filter(|case| args.selected.includes(case));
    let mut variants = Score::default();
    let mut found = Vec::new();
    for case in Variants::new(cases, args.seed).take(args.count) {
        let want = server.answers(&case)?;
        let differences = compare(&want, &replay_in_process(&case)?);
        variants.all += 1;
        if differences.is_empty() {
            variants.equal += 1;
            continue;
        }
        show(&case, &differences, args.verbose)?;
        found.push(Exchange { case, want });
    }
    ensure!(variants.all > 0, "no selected case has a body to vary");
    if let Some(path) = &args.found {
        let file = RecordedFile {
            path: path.clone(),
            group: String::new(),
            exchanges: found,
        };
        file.write()?;
    }
    let Score { equal, all } = variants;
    out::say(&format!("{equal}/{all} variants equal"))?;
    Ok(match equal == all {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let server = Server::network(&args.server, &args.selected)?;
    let mut recorded = 0;
    for mut file in args.selected.read()? {
        for exchange in &mut file.exchanges {
            if !args.selected.includes(&exchange.case) {
                continue;
            }
            exchange.want = server.answers(&exchange.case)?;
            recorded += 1;
        }
        file.write()?;
    }
    out::say(&format!("{recorded} cases recorded"))?;
    Ok(ExitCode::SUCCESS)
}
