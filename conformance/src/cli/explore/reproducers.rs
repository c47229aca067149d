//! Reproducers of the differences that an exploration finds.

use std::path::PathBuf;

use anyhow::Context as _;
use kubeproof::explore::{Divergence, Plan};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::shrink::{self, Reproducer, Subject};
use kubeproof::suite;
use kubeproof_machinery::json::json;

use crate::cli::out;
use crate::cli::run::leave::write;

/// The directory for reproducers, and the conditions of their runs.
pub(super) struct Reproducers {
    directory: PathBuf,
    base: RunOptions,
    at_once: usize,
}

/// A reproducer, and its file; `None` if the difference did not come again.
pub(super) struct Written {
    scenario: String,
    plan: String,
    reproducer: Option<(PathBuf, Reproducer)>,
}

impl Reproducers {
    /// Makes the directory, if there is to be one.
    pub(super) fn of(
        directory: Option<PathBuf>,
        (base, at_once): (&RunOptions, usize),
    ) -> anyhow::Result<Option<Self>> {
        let Some(directory) = directory else {
            return Ok(None);
        };
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let base = RunOptions {
            plan: Plan::default(),
            schedule_seed: 0,
            ..base.clone()
        };
        Ok(Some(Self {
            directory,
            base,
            at_once,
        }))
    }

    /// Shrinks the divergence with this number, and writes `AREA__NAME.NUMBER.yaml`.
    pub(super) fn write(
        &self,
        (file, plan, number): (&ScenarioFile, (&Plan, u64), usize),
        divergence: &Divergence,
        tried: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Written> {
        let subject = Subject {
            file,
            plan,
            divergence,
            base: &self.base,
            at_once: self.at_once,
        };
        let reproducer = match shrink::shrink(subject, tried) {
            None => None,
            Some(reproducer) => {
                let name = format!("{}.{number}.yaml", suite::snapshot_name(&file.name));
                let path = self.directory.join(name);
                write(&path, &reproducer.text)?;
                Some((path, reproducer))
            }
        };
        Ok(Written {
            scenario: file.name.clone(),
            plan: plan.0.to_string(),
            reproducer,
        })
    }
}

impl Written {
    /// The file and what is left, in words or as JSON.
    pub(super) fn said(&self, json: bool) -> String {
        let Self { scenario, plan, .. } = self;
        let Some((path, reproducer)) = &self.reproducer else {
            return match json {
                true => json!({"scenario": scenario, "plan": plan, "reproducer": null}).to_string(),
                false => {
                    format!("SHRUNK {scenario}: {plan}\n     the difference did not come again")
                }
            };
        };
        let Reproducer {
            left: [faults, steps, objects],
            reproduced,
            replays,
            ..
        } = reproducer;
        if json {
            let line = json!({
                "scenario": scenario,
                "plan": plan,
                "reproducer": path.display().to_string(),
                "faults": faults.0,
                "steps": steps.0,
                "objects": objects.0,
                "reproduced": reproduced,
                "replays": replays,
            });
            return line.to_string();
        }
        let counted = |(left, of): &(usize, usize), what: &str| format!("{left} of {of} {what}");
        format!(
            "{} {scenario}: {plan}\n     {}: {}, {}, {}; {reproduced} of {replays} runs differ",
            out::good("SHRUNK"),
            path.display(),
            counted(faults, "faults"),
            counted(steps, "steps"),
            counted(objects, "given objects"),
        )
    }
}
