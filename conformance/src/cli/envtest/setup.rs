//! setup-envtest, which prints for a Makefile where the programs are. Nothing is downloaded: they are this program.
//!
//! Source: controller-runtime `tools/setup-envtest` for the command line and the output.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};

use super::{Program, assets_line, kubernetes_version, layout};
use crate::cli::out;
use crate::cli::pflag::{FlagSet, Parsed, Syntax};

const FLAGS: &str = "\
[flags]
arch string
  Architecture of the programs. They are always this machine's.
bin-dir string
  Directory of downloaded programs. Nothing is downloaded, so it is not used.
force bool false
  Write the programs again.
help,h bool false
  Print this text.
index string
  Index of downloads. Nothing is downloaded.
installed-only,i bool false
  Look at installed versions only.
os string
  Operating system of the programs. It is always this machine's.
print,p string overview
  What `use` prints: overview, path or env.
use-env bool false
  Print the directory in KUBEBUILDER_ASSETS if it has the programs.
v string
  Level of the log. There is no log.
verify bool true
  Verify downloads. Nothing is downloaded.
";

/// The code of a failed command.
const FAILED: u8 = 2;

/// The directory with the programs of a control plane.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

pub(super) fn run() -> ExitCode {
    match answer(std::env::args().skip(1)) {
        Ok(text) => {
            let mut stdout = std::io::stdout().lock();
            // A reader that is gone needs no output.
            let _ = stdout.write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            out::note(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Carries out a command; returns what it prints.
fn answer(args: impl IntoIterator<Item = String>) -> anyhow::Result<String> {
    let flags = FlagSet::new(Syntax::Pflag, FLAGS);
    let usage = || {
        format!(
            "Usage: setup-envtest [FLAGS] use|list|cleanup|sideload|version [VERSION]\n{}",
            flags.help()
        )
    };
    let parsed = flags.parse(args)?;
    if parsed.is_on("help") {
        bail!(usage());
    }
    let (command, wanted) = match parsed.args() {
        [command] => (command.as_str(), None),
        [command, version] => (command.as_str(), Some(version.as_str())),
        _ => bail!(
            "{}\nplease specify a command to use, and optionally a version selector",
            usage()
        ),
    };
    match command {
        "use" => {
            if let Some(version) = wanted {
                warn_of_other_version(version);
            }
            let dir = directory(&parsed)?;
            shown(parsed.text("print").unwrap_or_default(), &dir)
        }
        "list" => Ok(format!(
            "(installed)  v{}  {}/{}\n",
            kubernetes_version(),
            layout::os(),
            layout::arch()
        )),
        "version" => Ok(format!(
            "setup-envtest version: kubeproof {}\n",
            env!("CARGO_PKG_VERSION")
        )),
        // There is no store of downloads, so nothing in it is too old.
        "cleanup" => Ok(String::new()),
        "sideload" => Err(anyhow!(
            "kubeproof is the control plane, so no other programs can be loaded"
        )),
        unknown => Err(anyhow!("{}\nunknown action {unknown:?}", usage())),
    }
}

/// The directory with the programs: the one that the environment names, or our own, which is written if needed.
fn directory(parsed: &Parsed) -> anyhow::Result<PathBuf> {
    let uses_environment = match parsed.is_set("use-env") {
        true => parsed.is_on("use-env"),
        false => std::env::var_os("ENVTEST_USE_ENV").is_some_and(|value| !value.is_empty()),
    };
    if let Some(dir) = std::env::var_os(ASSETS).filter(|_| uses_environment) {
        let dir = PathBuf::from(dir);
        let needed = [Program::KubeApiserver, Program::Etcd, Program::Kubectl];
        if needed
            .iter()
            .all(|program| dir.join(program.file_name()).exists())
        {
            return Ok(dir);
        }
    }
    let dir = layout::default_dir()?;
    layout::install(&dir)?;
    Ok(dir)
}

/// What `use` prints about the programs in `dir`.
fn shown(format: &str, dir: &Path) -> anyhow::Result<String> {
    Ok(match format {
        // Without the end of a line, for use in the middle of a command.
        "path" => dir.display().to_string(),
        "env" => format!("{}\n", assets_line(dir)),
        "overview" => format!(
            "Version: {}\nOS/Arch: {}/{}\nPath: {}\n",
            kubernetes_version(),
            layout::os(),
            layout::arch(),
            dir.display()
        ),
        other => bail!(
            "invalid argument {other:?} for \"-p, --print\" flag: unknown print format (expected overview, path or env)"
        ),
    })
}

/// Says that another version is served than the one that is wanted.
fn warn_of_other_version(wanted: &str) {
    let own = kubernetes_version();
    if !is_served(wanted, own) {
        out::note(&format!(
            "kubeproof serves Kubernetes {own}, whatever the wanted version {wanted}"
        ));
    }
}

/// Whether version `own` is among those that `wanted` selects, such as `1.36`, `1.36.x!`, `~1.36.0` or `latest`.
fn is_served(wanted: &str, own: &str) -> bool {
    let wanted = wanted.trim_end_matches('!').trim_start_matches(['v', '~']);
    if matches!(wanted, "latest" | "latest-on-disk" | "*") {
        return true;
    }
    let mut own = own.split('.');
    let mut parts = wanted.split('.');
    parts.all(|part| {
        let own = own.next().unwrap_or_default();
        matches!(part, "x" | "*") || part == own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(args: &[&str]) -> anyhow::Result<String> {
        answer(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn versions_are_selected_as_setup_envtest_does() {
        for (wanted, is) in [
            ("1.36.2", true),
            ("v1.36.2", true),
            ("1.36", true),
            ("1.36.x!", true),
            ("1.36.*", true),
            ("~1.36.2", true),
            ("latest", true),
            ("1.35.x", false),
            ("1.3", false),
            ("release-0.22", false),
        ] {
            assert_eq!(is_served(wanted, "1.36.2"), is, "{wanted}");
        }
    }

    #[test]
    fn each_format_has_the_directory() {
        let dir = Path::new("/assets");
        assert_eq!(shown("path", dir).unwrap(), "/assets");
        let line = "export KUBEBUILDER_ASSETS='/assets'\n";
        assert_eq!(shown("env", dir).unwrap(), line);
        let overview = shown("overview", dir).unwrap();
        assert!(overview.starts_with("Version: 1.36."), "{overview}");
        assert!(overview.ends_with("Path: /assets\n"), "{overview}");
        assert!(shown("json", dir).is_err());
    }

    #[test]
    fn commands_beside_use_need_no_directory() {
        assert!(said(&["list"]).unwrap().starts_with("(installed)  v1.36."));
        assert_eq!(said(&["cleanup", "<1.30"]).unwrap(), "");
        assert!(said(&["version"]).unwrap().contains("kubeproof"));
        for (args, why) in [
            (vec!["sideload", "1.36.2"], "no other programs"),
            (vec!["fetch"], "unknown action \"fetch\""),
            (vec![], "please specify a command"),
            (vec!["use", "--nonsense"], "unknown flag: --nonsense"),
        ] {
            let error = said(&args).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
