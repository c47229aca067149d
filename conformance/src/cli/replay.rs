//! `kubeproof replay`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use kubeproof::replay::{self, Replay};

use super::{out, values};

/// The maximum number of characters shown of a line, which may hold a whole object.
const SHOWN_CHARS: usize = 2000;

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// The logs of runs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Replay each log N times.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::count, allow_negative_numbers = true)]
    times: NonZeroUsize,
}

pub(super) fn replay(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let (mut equal, mut differing) = (0_u32, 0_u32);
    for path in &args.files {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        for _ in 0..args.times.get() {
            let replayed = replay::replay(&text);
            let replayed = replayed.with_context(|| path.display().to_string())?;
            match replayed {
                Replay::Equal { lines } => {
                    equal += 1;
                    if args.times.get() == 1 {
                        out::say(&format!("equal {}  ({lines} lines)", path.display()))?;
                    }
                }
                Replay::Differs { .. } => {
                    differing += 1;
                    out::say(&format!(
                        "DIFF  {}\n{}",
                        path.display(),
                        in_words(&replayed)
                    ))?;
                }
            }
        }
    }
    out::say(&format!("{equal} equal, {differing} differ"))?;
    Ok(match differing {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn in_words(replay: &Replay) -> String {
    let Replay::Differs {
        number,
        recorded,
        replayed,
        program,
    } = replay
    else {
        return String::new();
    };
    let shown = |line: &Option<String>| match line {
        None => "(its end)".to_owned(),
        Some(line) if line.chars().count() > SHOWN_CHARS => {
            let start: String = line.chars().take(SHOWN_CHARS).collect();
            format!("{start} …")
        }
        Some(line) => line.clone(),
    };
    let mut words = format!("line {number}\n-{}\n+{}", shown(recorded), shown(replayed));
    if let Some(program) = program {
        let this = env!("CARGO_PKG_VERSION");
        words.push_str(&format!(
            "\nit was written by version {program}, this is {this}"
        ));
    }
    words
}
