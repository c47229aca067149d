//! `kubeproof upgrade-test`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use kubeproof::report::{self, Chart, Page, ScenarioReport, Side};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::{Controllers, HumanDuration, ScenarioFile};
use kubeproof::testbed::{AccountName, ExternalPrograms, ServedService};
use kubeproof::upgrade::{self, Change, Finding, Report, Versions};
use kubeproof_machinery::json::{Value, json};

use super::chosen::Chosen;
use super::shard::Shard;
use super::shard::record::Record;
use super::{manual, out, program};

#[derive(Args)]
pub(super) struct UpgradeTestArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// The program of the first version, started as `run --program` starts it.
    #[arg(long, value_name = "COMMAND", value_parser = program::command)]
    from: String,
    /// The program of the second version.
    #[arg(long, value_name = "COMMAND", value_parser = program::command)]
    to: String,
    /// The definitions of custom resources of the first version, created before the objects of `given`.
    #[arg(long, value_name = "FILE|DIR", requires = "crds_to")]
    crds_from: Option<PathBuf>,
    /// The definitions of the second version, which replace those of the first before the second program starts.
    #[arg(long, value_name = "FILE|DIR", requires = "crds_from")]
    crds_to: Option<PathBuf>,
    /// The controllers of kubeproof that run: all, none, or names between commas; *,-NAME are all but one [default: the
    /// scenario's, else all].
    #[arg(long, value_name = "all|none|NAME,...")]
    controllers: Option<String>,
    /// Do not go back to the first version.
    #[arg(long)]
    one_way: bool,
    /// Call the webhooks of a service at the programs' port for webhooks. The port of the service is 443 by default. May
    /// be repeated.
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", value_parser = program::service)]
    service: Vec<ServedService>,
    /// Run the programs as this service account, with the permissions that its roles grant and no others.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    as_service_account: Option<AccountName>,
    /// Keep what the programs print in this directory, in files AREA__NAME.program-1.log (first version) and -2.log.
    #[arg(long, value_name = "DIR")]
    program_output: Option<PathBuf>,
    /// The cluster counts as settled after this long without a write [default: 500ms while the program waits for events,
    /// else 3s, and up to 30s while it works].
    #[arg(long, value_name = "DURATION")]
    settle_after: Option<HumanDuration>,
    /// Test only this part of the scenarios, the I-th of N, and leave a record for `kubeproof merge` in what --json prints. With
    /// `job/N` the pod of an Indexed Job is number JOB_COMPLETION_INDEX, from 0.
    #[arg(long, value_name = "I/N", requires = "json")]
    shard: Option<Shard>,
    /// Write a page into this directory that shows the findings, and the objects of both versions side by side.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print a JSON object for each scenario, and with --shard one with a summary.
    #[arg(long)]
    json: bool,
}

pub(super) fn upgrade_test(args: UpgradeTestArgs) -> anyhow::Result<ExitCode> {
    let flags = json!({
        "from": args.from,
        "to": args.to,
        "crdsFrom": args.crds_from,
        "crdsTo": args.crds_to,
        "controllers": args.controllers,
        "oneWay": args.one_way,
        "account": args.as_service_account.as_ref().map(ToString::to_string),
    });
    let definitions = [definitions(&args.crds_from)?, definitions(&args.crds_to)?];
    if let Some(directory) = &args.program_output {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let programs = ExternalPrograms {
        commands: vec![args.from, args.to],
        pause: program::pause(args.settle_after),
        account: args.as_service_account,
        services: args.service,
        first: Some(0),
        ..ExternalPrograms::default()
    };
    let base = RunOptions {
        programs: Some(programs),
        ..RunOptions::default()
    };
    let controllers = args.controllers.as_deref();
    let controllers = controllers.map(super::controller_names).transpose()?;
    let mut paths = args.chosen.files()?;
    let mut record = Record::begin(args.shard, ("upgrade-test", flags, false), &paths, true)?;
    if let Some(shard) = args.shard {
        paths = shard.of_paths(&paths);
    }
    let (mut passed, mut failed, mut pages) = (0, 0, Vec::new());
    for path in paths {
        let file = ScenarioFile::read(&path)?;
        let output = args.program_output.as_deref();
        let given = &file.scenario.given.controllers;
        let all = || super::controller_names("all");
        let given = given.as_ref().map(Controllers::names);
        let controllers = match controllers.as_deref().or(given) {
            Some(chosen) => chosen.to_vec(),
            None => all()?,
        };
        let versions = Versions {
            options: RunOptions {
                controllers: Some(controllers),
                ..program::with_output(&base, output, (&file.name, None))
            },
            definitions: definitions.clone(),
            one_way: args.one_way,
        };
        let report = upgrade::test(&file.scenario, &versions);
        let report = report
            .with_context(|| format!("{}: the scenario fails with the first version", file.name))?;
        match report.has_passed() {
            true => passed += 1,
            false => failed += 1,
        }
        let result = in_json(&file.name, &report);
        out::say(&match args.json {
            true => result.to_string(),
            false => in_words(&result),
        })?;
        record.add(result.to_string());
        if args.report.is_some() {
            let page = page(&file, report, &result);
            record.add_page(&page);
            pages.push(page);
        }
    }
    let summary = json!({"summary": {"passed": passed, "failed": failed}}).to_string();
    if args.shard.is_some() {
        out::say(&summary)?;
    }
    if let Some(dir) = &args.report {
        let page = Page {
            scenarios: pages,
            matrix: None,
            made_by: Some(manual::made_by()),
        };
        let written = report::write(dir, &page);
        written.with_context(|| format!("cannot write a report into {}", dir.display()))?;
        record.add(summary);
        record.leave(dir)?;
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The part of a page about a scenario.
fn page(file: &ScenarioFile, report: Report, result: &Value) -> ScenarioReport {
    let has_passed = report.has_passed();
    let words = console::strip_ansi_codes(&in_words(result)).into_owned();
    let [first, second] = report.objects;
    ScenarioReport {
        name: file.name.clone(),
        title: file.scenario.title.trim().to_owned(),
        has_passed,
        source: file.scenario.source.trim().to_owned(),
        failure: (!has_passed).then_some(words),
        compared: (first != second).then(|| {
            [
                Side::new("First version", first),
                Side::new("After the upgrade", second),
            ]
        }),
        transcript: None,
        log: None,
        chart: Chart::default(),
    }
}

/// The definitions in the files at `path`, if it is given.
fn definitions(path: &Option<PathBuf>) -> anyhow::Result<Vec<Value>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let read = super::definitions::read(path)?.into_iter();
    Ok(read.map(|(_, definition)| definition).collect())
}

/// The result of a scenario in words, from that in JSON.
pub(super) fn in_words(result: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let has_passed = result["passed"] == true;
    let heading = match has_passed {
        true => out::good("ok"),
        false => out::bad("FAIL"),
    };
    let mut lines = vec![format!("{heading} {}", text(&result["scenario"]))];
    for change in list(&result["changes"]) {
        let (name, findings) = (text(&change["change"]), list(&change["findings"]));
        match findings.is_empty() {
            true => lines.push(format!("  {name}: nothing found")),
            false => lines.push(format!("  {name}:")),
        }
        for finding in findings {
            let texts: Vec<String> = list(&finding["lines"]).iter().map(text).collect();
            let mut texts = texts.into_iter();
            let (kind, object) = (text(&finding["finding"]), text(&finding["object"]));
            let what = [kind, object, texts.next().unwrap_or_default()].join(" ");
            lines.push(format!("    {}", what.replace("  ", " ")));
            lines.extend(texts.map(|line| format!("      {line}")));
        }
    }
    for unneeded in list(&result["unneeded"]) {
        let unneeded = text(&unneeded);
        lines.push(format!(
            "  `upgrade` allows {unneeded}, which was not found"
        ));
    }
    if let Some(allowed @ 1..) = result["allowed"].as_u64() {
        lines.push(format!("  {allowed} found that the scenario allows"));
    }
    if !has_passed {
        let output = text(&result["programOutput"]);
        lines.extend(output.lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn in_json(name: &str, report: &Report) -> Value {
    let changes = report.changes.iter().map(|Change { name, findings }| {
        let findings = findings.iter().map(
            |Finding {
                 kind,
                 object,
                 lines,
             }| { json!({"finding": kind.as_str(), "object": object, "lines": lines}) },
        );
        json!({"change": name, "findings": findings.collect::<Vec<_>>()})
    });
    json!({
        "scenario": name,
        "passed": report.has_passed(),
        "changes": changes.collect::<Vec<_>>(),
        "allowed": report.allowed,
        "unneeded": report.unneeded,
        "programOutput": report.program_output,
    })
}
