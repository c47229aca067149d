//! The flags for programs as the controllers under test.

mod files;

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use kubeproof::runner::RunOptions;
use kubeproof::runner::remote::unfit_for_program;
use kubeproof::scenario::{HumanDuration, ScenarioFile};
use kubeproof::suite;
use kubeproof::testbed::{AccountName, ExternalPrograms, ProgramTime, ServedService, SettlePause};
use kubeproof::threads;

use super::out;
pub(super) use files::{digest, files_in};

/// The number of runs at once in real time: they wait most of the time.
const AT_ONCE: usize = 8;
/// The port of a service that names none.
const HTTPS: u16 = 443;
/// The directory of the output of programs, in that of a report.
const OUTPUT: &str = "programs";

#[derive(Args)]
pub(super) struct ProgramArgs {
    /// Start this program as the controller under test when the objects of `given` exist; everything then happens in
    /// real time, unless --virtual-time is given. KUBECONFIG, KUBERNETES_SERVICE_HOST and the variables KUBEPROOF_URL,
    /// _NAMESPACE, _CA, _TOKEN, _SERVICE_ACCOUNT, _WEBHOOK_PORT and _WEBHOOK_CERTS describe the server; in the command,
    /// {url}, {token} and so on stand for their values. It is killed and restarted where controllers crash. Several
    /// programs may be given.
    #[arg(long, value_name = "COMMAND", alias = "controller", value_parser = command)]
    program: Vec<String>,
    /// Run the programs under virtual time, too: a day passes in seconds. Clocks show it, and time-outs and sleeps last as long, in
    /// everything that the programs start. It takes Linux on x86-64, and the permission to trace processes.
    #[arg(long, requires = "program")]
    virtual_time: bool,
    /// Let one thread of each program run at a time, until it waits or has computed for 20 ms, so that threads take turns in the same
    /// order in each run.
    #[arg(long, requires = "virtual_time")]
    sequential: bool,
    /// Call the webhooks of a service at the port for webhooks of the only program, or of the program with this number,
    /// counted from 1; requests for its APIServices go there, too. The port of the service is 443 by default. May be
    /// repeated.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME[:PORT][=NUMBER]",
        value_parser = service,
        requires = "program"
    )]
    service: Vec<ServedService>,
    /// Run the programs as this service account, with the permissions that its roles grant and no others. `given` has to
    /// create the account and its roles. KUBEPROOF_URL is then an HTTPS address.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "program")]
    as_service_account: Option<AccountName>,
    /// Keep what the programs print in this directory, in files AREA__NAME.program-1.log; explore adds the number of the
    /// run [default: `programs` in the directory of --report; else nothing is kept].
    #[arg(long, value_name = "DIR", requires = "program")]
    program_output: Option<PathBuf>,
    /// Append the requests of the programs to this file, as audit.k8s.io/v1 events: writes of roles and bindings with
    /// their bodies, everything else at level Metadata. Runs at once share it.
    #[arg(long, value_name = "FILE", requires = "program")]
    audit_log: Option<PathBuf>,
    /// In real time, or with --virtual-time: the cluster counts as settled after this long without a write [default: with
    /// --program 500ms while the programs wait for events, else 3s, and up to 30s while they work; 60s with --virtual-time,
    /// less for programs that ask again and again; 4s with --kubeconfig].
    #[arg(long, value_name = "DURATION", alias = "quiet")]
    pub(super) settle_after: Option<HumanDuration>,
}

/// When a cluster with programs counts as settled.
pub(super) fn pause(settle_after: Option<HumanDuration>) -> SettlePause {
    settle_after.map_or(SettlePause::ByActivity, |pause| SettlePause::Fixed(pause.0))
}

pub(super) fn command(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a command is expected".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Reads `NAMESPACE/NAME[:PORT][=NUMBER]`.
pub(super) fn service(text: &str) -> Result<ServedService, String> {
    let parsed = || {
        let (service, number) = match text.split_once('=') {
            Some((service, number)) => (service, number.parse().ok()?),
            None => (text, 1),
        };
        let (namespace, name) = service.split_once('/')?;
        let (name, port) = match name.split_once(':') {
            Some((name, port)) => (name, port.parse().ok()?),
            None => (name, HTTPS),
        };
        let program = usize::checked_sub(number, 1)?;
        let is_named = !namespace.is_empty() && !name.is_empty();
        is_named.then(|| ServedService {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
            program,
        })
    };
    parsed().ok_or_else(|| "expected NAMESPACE/NAME[:PORT][=NUMBER]".to_owned())
}

impl ProgramArgs {
    /// The commands that start the programs.
    pub(super) fn commands(&self) -> &[String] {
        &self.program
    }

    fn time(&self) -> ProgramTime {
        match self.virtual_time {
            true => ProgramTime::Virtual,
            false => ProgramTime::Real,
        }
    }

    /// Returns the programs; `None` without `--program`.
    pub(super) fn programs(&self) -> Option<ExternalPrograms> {
        (!self.program.is_empty()).then(|| ExternalPrograms {
            commands: self.program.clone(),
            time: self.time(),
            is_sequential: self.sequential,
            pause: pause(self.settle_after),
            account: self.as_service_account.clone(),
            services: self.service.clone(),
            audit_log: self.audit_log.clone(),
            ..ExternalPrograms::default()
        })
    }

    /// Returns the flags with which a run with these programs is repeated, each with a blank before it.
    pub(super) fn again(&self) -> String {
        let mut flags = String::new();
        for command in &self.program {
            let _ = write!(flags, " --program {}", quoted(command));
        }
        if self.virtual_time {
            flags.push_str(" --virtual-time");
        }
        if self.sequential {
            flags.push_str(" --sequential");
        }
        for ServedService {
            namespace,
            name,
            port,
            program,
        } in &self.service
        {
            let number = program + 1;
            let _ = write!(flags, " --service {namespace}/{name}:{port}={number}");
        }
        if let Some(account) = &self.as_service_account {
            let _ = write!(flags, " --as-service-account {account}");
        }
        if let Some(settle_after) = self.settle_after.filter(|_| !self.program.is_empty()) {
            let _ = write!(flags, " --settle-after {settle_after}");
        }
        flags
    }

    /// Makes the directory for the output of programs, if there is to be one, and returns its path. `report` is the
    /// directory of a report.
    pub(super) fn output_directory(
        &self,
        report: Option<&Path>,
    ) -> anyhow::Result<Option<PathBuf>> {
        let asked = self.program_output.clone();
        let of_report = report.filter(|_| !self.program.is_empty());
        let of_report = of_report.map(|report| report.join(OUTPUT));
        let Some(directory) = asked.or(of_report) else {
            return Ok(None);
        };
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Some(directory))
    }

    /// Returns the scenarios that can run with a program as the controller; prints the reason for each of the others.
    pub(super) fn fitting(&self, paths: Vec<PathBuf>, json: bool) -> anyhow::Result<Vec<PathBuf>> {
        if self.program.is_empty() {
            return Ok(paths);
        }
        if self.virtual_time {
            kubeproof_tracer::check().context("without --virtual-time they run in real time")?;
        }
        let mut fitting = Vec::new();
        for path in paths {
            let file = ScenarioFile::read(&path)?;
            match unfit_for_program(&file.scenario, self.time()) {
                None => fitting.push(path),
                Some(why) if !json => out::say(&format!("skip {}  ({why})", file.name))?,
                Some(_) => {}
            }
        }
        ensure!(
            !fitting.is_empty(),
            "none of these scenarios can be run with a program as the controller"
        );
        Ok(fitting)
    }
}

/// A word of the shell, in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A word of the shell, in quotes if it needs them.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// Returns `options` with the output of programs in `directory`: of the run of the scenario `name` with this number, if
/// there are several.
pub(super) fn with_output(
    options: &RunOptions,
    directory: Option<&Path>,
    (name, number): (&str, Option<usize>),
) -> RunOptions {
    let mut options = options.clone();
    if let (Some(programs), Some(directory)) = (&mut options.programs, directory) {
        let mut file = suite::snapshot_name(name);
        if let Some(number) = number {
            let _ = write!(file, ".{number}");
        }
        programs.output = Some(directory.join(file));
    }
    options
}

/// Runs `work` on each of `jobs`, with as many threads as [`at_once`] returns for these options.
pub(super) fn each<J: Send, R: Send>(
    options: &RunOptions,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    threads::at_once(at_once(options, None), jobs, work)
}

/// Returns the number of runs at once: `asked`, or the default for these options.
pub(super) fn at_once(options: &RunOptions, asked: Option<NonZeroUsize>) -> usize {
    match (asked, options.is_real_time()) {
        (Some(asked), _) => asked.get(),
        (None, false) => std::thread::available_parallelism().map_or(1, usize::from),
        (None, true) => AT_ONCE,
    }
}
