//! The commands and their flags.

mod chosen;
mod controllers;
mod definitions;
mod envtest;
mod exchange;
mod explore;
mod export;
mod flags;
mod import;
mod init;
mod known;
mod kruise_gates;
mod kubeconfig;
mod listen;
mod load_balancers;
mod manual;
mod memory;
mod merge;
mod new;
mod out;
mod pace;
mod parent;
mod pflag;
mod program;
mod rbac;
mod replay;
mod run;
mod scheduler_config;
mod serve;
mod service;
mod shard;
mod upgrade_test;
mod values;
mod webhooks;

use std::process::ExitCode;

use anyhow::ensure;
use clap::{CommandFactory as _, Parser, Subcommand};
use kubeproof::scenario::Choice;
use memory::WithoutHugePages;

/// The end of `kubeproof --help`.
const FIRST_STEPS: &str = concat!(
    "First steps:
  kubeproof serve --nodes 3 --kubeconfig-out kubeproof.yaml   a cluster for kubectl
  kubeproof new scenario shop/first                           a scenario to run and to complete
  KUBEBUILDER_ASSETS=$(kubeproof envtest) go test ./...       a Go suite on envtest, unchanged

The guide: ",
    env!("CARGO_PKG_REPOSITORY"),
    "/tree/main/docs"
);

/// An in-memory Kubernetes API server and a conformance suite for controllers.
#[derive(Parser)]
#[command(name = "kubeproof", version = manual::version(), after_help = FIRST_STEPS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API, with simulated nodes and controllers, until Ctrl-C or SIGTERM.
    Serve(Box<serve::ServeArgs>),
    /// Run scenarios and compare each with its golden.
    Run(run::RunArgs),
    /// Run scenarios once per possible fault, and compare the outcomes.
    Explore(explore::ExploreArgs),
    /// Join the results of shards, of `run`, `explore` or `upgrade-test`.
    Merge(merge::MergeArgs),
    /// Write a first scenario.
    New(new::NewArgs),
    /// Write a first scenario from the schema of an operator's resource.
    Init(init::InitArgs),
    /// Repeat the run of a log, and report whether the new log is byte-identical.
    Replay(replay::ReplayArgs),
    /// Run controllers against the API server of a kubeconfig until Ctrl-C or SIGTERM.
    Controllers(controllers::ControllersArgs),
    /// Answer OpenKruise's webhooks over HTTPS for the API server of a kubeconfig, until Ctrl-C or SIGTERM.
    Webhooks(webhooks::WebhooksArgs),
    /// Write a directory with kube-apiserver, etcd, kubectl and setup-envtest for test harnesses, and print its path:
    /// KUBEBUILDER_ASSETS=$(kubeproof envtest) go test ./...
    Envtest(envtest::EnvtestArgs),
    /// Compare a server's answers with recorded ones, or record them.
    Exchange(exchange::ExchangeArgs),
    /// Settle a scenario with one version of a program, let another version take over, and back; report pods that were
    /// replaced, objects that were written and what was refused.
    UpgradeTest(upgrade_test::UpgradeTestArgs),
    /// Print the least roles for the requests of audit logs, or compare given roles with these requests.
    Rbac(rbac::RbacArgs),
    /// Print everything that a kubeproof server stores, for `serve --from-log`; or the objects of a server, a dump or an
    /// audit log as a List, for `serve --load` and scenarios.
    Export(export::ExportArgs),
    /// Take the objects of files, an export, a dump or an audit log into a running kubeproof server: all of them or none,
    /// and as they were in their cluster if they come from one.
    Import(import::ImportArgs),
    /// Print the JSON Schema of scenario files, by which editors complete and check them.
    Schema,
    /// Print a script for a shell that completes commands and flags.
    Completions(manual::CompletionsArgs),
    /// Write manual pages into a directory.
    Man(manual::ManArgs),
}

/// Parses the arguments and carries out the command; or runs the program that this file is a link of.
pub(crate) fn main() -> ExitCode {
    if let Some(program) = envtest::Program::started() {
        return program.run();
    }
    let memory = WithoutHugePages::begin();
    let command = Cli::parse().command;
    let memory = Some(memory).filter(|_| matches!(command, Command::Serve(_)));
    let result = match command {
        Command::Serve(args) => serve::serve(*args, memory),
        Command::Run(args) => run::run(args),
        Command::Explore(args) => explore::explore(args),
        Command::Merge(args) => merge::merge(&args),
        Command::New(args) => new::new(args),
        Command::Init(args) => init::init(args),
        Command::Replay(args) => replay::replay(args),
        Command::Controllers(args) => controllers::run(args),
        Command::Webhooks(args) => webhooks::run(args),
        Command::Envtest(args) => envtest::envtest(args),
        Command::Exchange(args) => exchange::exchange(args),
        Command::UpgradeTest(args) => upgrade_test::upgrade_test(args),
        Command::Rbac(args) => rbac::rbac(&args),
        Command::Export(args) => export::export(args),
        Command::Import(args) => import::import(args),
        Command::Schema => {
            let schema = kubeproof::scenario::schema();
            out::say(&format!("{schema:#}")).map(|()| ExitCode::SUCCESS)
        }
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::pages(&args, Cli::command()),
    };
    result.unwrap_or_else(|error| {
        if error.is::<out::Closed>() {
            return ExitCode::from(out::CLOSED);
        }
        out::note(&format!("error: {}", in_words(&error)));
        ExitCode::from(2)
    })
}

/// Returns the message of an error with its causes. Some errors contain their cause, which is then not repeated.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let refused = match cause.downcast_ref() {
            Some(kube::Error::Api(status)) => Some(status),
            _ => None,
        };
        // The client's own words for a refusal are those of a debugger.
        let message = match refused {
            Some(status) => format!("{} {}", status.code, status.message),
            None => cause.to_string(),
        };
        if words.contains(&message) {
            continue;
        }
        if !words.is_empty() {
            words.push_str(": ");
        }
        words.push_str(&message);
        if refused.is_some() {
            break;
        }
    }
    words
}

/// Reads the value of `--controllers`: `all`, `none`, or names between commas, of which `*` stands for all and `-NAME`
/// leaves one of them out.
///
/// # Errors
/// Names the controller that does not exist, and the existing ones.
fn controller_names(value: &str) -> anyhow::Result<Vec<String>> {
    let usual = kubeproof_controller::CONTROLLERS;
    let known = [
        &["all", "none"],
        usual,
        kubeproof_controller::DISABLED_BY_DEFAULT,
        kubeproof_controller::KRUISE_CONTROLLERS,
    ]
    .concat();
    match value {
        "all" => Ok(usual.iter().map(|name| (*name).to_owned()).collect()),
        "none" => Ok(Vec::new()),
        names => {
            let choice = Choice::read(names.split(',').map(str::trim));
            let choice = choice.map_err(anyhow::Error::msg)?;
            for name in choice.named.iter().chain(&choice.excluded) {
                ensure!(
                    !matches!(*name, "all" | "none"),
                    "{name:?} cannot be combined with other controllers"
                );
                ensure!(
                    known.contains(name),
                    "{}",
                    known::unknown("controller", name, known.iter().copied())
                );
            }
            Ok(choice.names(usual.iter().copied()))
        }
    }
}

/// Whether the value of `--controllers` asks for all, or for all but some.
fn has_all(value: &str) -> bool {
    value == "all" || value.split(',').any(|word| word.trim() == "*")
}

/// Adds OpenKruise's controllers to those of `value`, the value of `--controllers`, if it asks for all.
fn add_kruise(controllers: &mut Vec<String>, value: &str) {
    if has_all(value) {
        let choice = Choice::read(value.split(',').map(str::trim)).unwrap_or_default();
        let mut own = kubeproof_controller::KRUISE_CONTROLLERS.to_vec();
        own.retain(|name| !choice.excluded.contains(name) && !choice.named.contains(name));
        controllers.extend(own.into_iter().map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_flag_that_takes_a_number_says_which() {
        let error = |line: &str| {
            let parsed = Cli::try_parse_from(line.split(' '));
            parsed
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        for (line, wanted) in [
            ("kubeproof serve --nodes", "0 or more"),
            ("kubeproof controllers --kubeconfig f --nodes", "0 or more"),
            ("kubeproof serve --seed", "0 or more"),
            ("kubeproof run --seed", "0 or more"),
            ("kubeproof run --seeds", "0 or more"),
            ("kubeproof run --shuffle", "0 or more"),
            ("kubeproof run --jobs", "1 or more"),
            ("kubeproof explore --pairs", "0 or more"),
            ("kubeproof explore --seed", "0 or more"),
            ("kubeproof explore --seeds", "0 or more"),
            ("kubeproof explore --jobs", "1 or more"),
            ("kubeproof replay f --times", "1 or more"),
        ] {
            for bad in ["-1", "x", "1.5"] {
                let line = format!("{line} {bad}");
                let said = error(&line);
                let wanted = format!("expected a whole number, {wanted}");
                assert!(said.contains(&wanted), "{line}: {said}");
            }
        }
        let said = error("kubeproof run --seed 99999999999999999999");
        assert!(said.contains("the number is too large"), "{said}");
        let said = error("kubeproof import f --until noon");
        assert!(said.contains("expected a time, such as"), "{said}");
    }

    #[test]
    fn an_error_names_each_cause_once() {
        let error = anyhow::anyhow!("it has exited").context("it has exited\nit printed: no");
        let error = error.context("shop/a");
        assert_eq!(in_words(&error), "shop/a: it has exited\nit printed: no");
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        assert!(controller_names("none").unwrap().is_empty());
        assert_eq!(
            controller_names("all").unwrap().len(),
            kubeproof_controller::CONTROLLERS.len()
        );
        assert_eq!(controller_names("statefulset").unwrap(), ["statefulset"]);
        assert_eq!(controller_names("cloneset").unwrap(), ["cloneset"]);
        let more = controller_names("*,ttl").unwrap();
        assert_eq!(more.len(), kubeproof_controller::CONTROLLERS.len() + 1);
        assert_eq!(controller_names("ttl,bootstrapsigner").unwrap().len(), 2);
        let most = controller_names("*,-deployment, -job").unwrap();
        assert_eq!(most.len(), kubeproof_controller::CONTROLLERS.len() - 2);
        assert!(
            !most
                .iter()
                .any(|name| name == "deployment" || name == "job")
        );
        let error = controller_names("*,-deploymnet").unwrap_err().to_string();
        assert!(error.contains("did you mean \"deployment\"?"), "{error}");
        let error = controller_names("job,-deployment").unwrap_err().to_string();
        assert!(error.contains("write *,-deployment"), "{error}");
        let with_kruise = |value: &str| {
            let mut names = controller_names(value).unwrap();
            add_kruise(&mut names, value);
            names
        };
        let all = with_kruise("all");
        assert!(all.len() > kubeproof_controller::CONTROLLERS.len());
        assert_eq!(with_kruise("*"), all);
        assert_eq!(with_kruise("*,-cloneset").len(), all.len() - 1);
        assert_eq!(with_kruise("*,cloneset").len(), all.len());
        assert_eq!(with_kruise("job"), ["job"]);
        let error = controller_names("statefulset,nonsense").unwrap_err();
        assert!(error.to_string().contains("\"nonsense\""), "{error}");
        let error = controller_names("none,deployment").unwrap_err();
        assert!(error.to_string().contains("cannot be combined"), "{error}");
        let error = controller_names("deploymnet").unwrap_err();
        assert!(
            error.to_string().contains("did you mean \"deployment\"?"),
            "{error}"
        );
    }
}
