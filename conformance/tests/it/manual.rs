//! Texts that are made of the commands and their flags.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::process::{kubeproof, output, stdout};

#[test]
fn the_version_names_the_program_and_the_kubernetes_it_behaves_as() {
    let version = stdout(&output(&["--version"]));
    let own = format!("kubeproof {}", env!("CARGO_PKG_VERSION"));
    let rest = version.strip_prefix(&own).expect("its own version");
    let rest = rest.strip_suffix(", Kubernetes v1.36.2\n");
    // Release builds of a checkout have a commit.
    let commit = rest.expect("that of Kubernetes");
    let commit = commit.strip_prefix(" (").map_or("", |commit| {
        commit.strip_suffix(')').expect("it is in parentheses")
    });
    let is_hexadecimal = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hexadecimal && matches!(commit.len(), 0 | 7), "{version}");
}

#[test]
fn shells_are_given_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(&["completions", shell]);
        assert!(script.status.success(), "{script:?}");
        let script = stdout(&script);
        for word in ["explore", "kubeconfig-out"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    // Bash reads its own; other shells may not be installed.
    let script = stdout(&output(&["completions", "bash"]));
    let asked = "COMP_WORDS=(kubeproof serve --kubec); COMP_CWORD=2; \
                 _kubeproof kubeproof --kubec serve; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash")
        .args(["--norc", "-c", &format!("{script}\n{asked}")])
        .stderr(Stdio::null())
        .output()
        .expect("bash runs");
    assert_eq!(stdout(&completed), "--kubeconfig-out\n");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man/new");
    let _ = std::fs::remove_dir_all(&directory);
    let written = kubeproof(&["man"]).arg(&directory).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let page = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert!(page("kubeproof.1").contains(".TH kubeproof 1"));
    assert!(page("kubeproof-serve.1").contains("kubeconfig\\-out"));
    let help = stdout(&output(&["--help"]));
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let commands = commands.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    for command in commands {
        page(&format!("kubeproof-{command}.1"));
    }
}

#[test]
fn flags_by_their_former_names_are_taken_and_not_shown() {
    for (command, former, present) in [
        ("serve", "--log", "--from-log"),
        ("run", "--log", "--record"),
        ("run", "--logs", "--record-dir"),
        ("explore", "--logs", "--record-dir"),
        ("run", "--controller", "--program"),
        ("run", "--quiet", "--settle-after"),
        ("explore", "--controller", "--program"),
        ("explore", "--quiet", "--settle-after"),
    ] {
        let help = stdout(&output(&[command, "--help"]));
        let shows = |flag: &str| {
            help.contains(&format!("{flag} <")) || help.contains(&format!("{flag} [<"))
        };
        assert!(
            shows(present) && !shows(former),
            "{command} {former}: {help}"
        );
        let value = match former {
            "--quiet" => "soon",
            _ => "",
        };
        let refused = output(&[command, former, value]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !said.contains("unexpected argument"),
            "{command} {former}: {said}"
        );
    }
}
