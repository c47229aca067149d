//! `cargo xtask import`: writes every embedded data file from a checkout of Kubernetes and a
//! running API server of that version.
//!
//! Each file has a module that generates its text from the inputs, without side effects. `overrides.txt` has the
//! intended differences; everything else in the files is upstream's.

mod bootstrap;
mod builtin;
mod declarations;
mod definitions;
mod go;
mod json;
mod overrides;
mod parameters;
mod resources;
mod server;
mod template_types;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use similar::TextDiff;

use overrides::Overrides;
use server::{Remote, Server};
use tree::{Checkout, Tree};

/// A data file.
struct Data {
    /// Path from the root of the workspace.
    path: &'static str,
    generate: fn(&Inputs) -> anyhow::Result<String>,
}

impl Data {
    /// Name without directories.
    fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

const FILES: [Data; 7] = [
    Data {
        path: "apiserver/kinds/src/resources.json",
        generate: resources::generate,
    },
    Data {
        path: "apiserver/kinds/src/bootstrap.txt",
        generate: bootstrap::generate,
    },
    Data {
        path: "apiserver/machinery/src/schema/builtin.txt",
        generate: builtin::generate,
    },
    Data {
        path: "apiserver/src/endpoints/openapi/definitions.txt",
        generate: definitions::generate,
    },
    Data {
        path: "apiserver/src/endpoints/openapi/parameters.txt",
        generate: parameters::generate,
    },
    Data {
        path: "apiserver/cel/src/declarations.txt",
        generate: declarations::generate,
    },
    Data {
        path: "controller/src/workload/template_hash/types.txt",
        generate: template_types::generate,
    },
];

/// Differences from upstream that are intended, with reasons.
const OVERRIDES: &str = include_str!("../overrides.txt");
/// The file in which a checkout states its minor version.
const VERSION_SOURCE: &str = "staging/src/k8s.io/component-base/version/base.go";

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of a checkout of Kubernetes.
    #[arg(long, value_name = "DIR")]
    kubernetes: PathBuf,
    /// URL of a kube-apiserver of the same version that was started just now, as CONTRIBUTING.md
    /// shows. Its certificate is not verified.
    #[arg(long, value_name = "URL")]
    server: String,
    /// Token of an administrator.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "KUBEPROOF_TOKEN",
        hide_env_values = true
    )]
    token: String,
    /// Write nothing: print how the files differ, and fail if they do.
    #[arg(long)]
    check: bool,
    /// Only these files, such as builtin.txt.
    #[arg(value_name = "FILE")]
    files: Vec<String>,
}

/// The inputs of the data files.
pub(crate) struct Inputs<'a> {
    server: &'a dyn Server,
    tree: &'a dyn Tree,
    /// Version of Kubernetes, such as `v1.36.2`.
    version: String,
}

impl<'a> Inputs<'a> {
    /// Inputs whose server and checkout are of the same minor version.
    ///
    /// # Errors
    /// They are of different ones, or do not say.
    fn new(server: &'a dyn Server, tree: &'a dyn Tree) -> anyhow::Result<Self> {
        let served = server.document("/version", "application/json")?;
        let minor = format!(
            "{}.{}",
            served.text("major"),
            served.text("minor").trim_end_matches('+')
        );
        let source = tree.read(VERSION_SOURCE)?;
        let stated = source.split_once("DefaultKubeBinaryVersion = ");
        let stated = stated.and_then(|(_, rest)| go::strings(rest).into_iter().next());
        let stated = stated.with_context(|| format!("{VERSION_SOURCE} states no version"))?;
        ensure!(
            stated == minor,
            "the checkout is of {stated}, the server of {minor}"
        );
        Ok(Self {
            server,
            tree,
            version: served.text("gitVersion").to_owned(),
        })
    }

    /// Inputs for a test.
    #[cfg(test)]
    fn of(server: &'a dyn Server, tree: &'a dyn Tree) -> Self {
        Self {
            server,
            tree,
            version: "v1.0.0".to_owned(),
        }
    }

    /// Returns the first line of a file, which names the source of its data.
    fn provenance(&self, from: &str) -> String {
        format!(
            "Written by `cargo xtask import` of Kubernetes {}, from {from}. Do not edit; see CONTRIBUTING.md.",
            self.version
        )
    }
}

/// Runs the task.
///
/// # Errors
/// A file cannot be made, read or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let server = Remote::new(&args.server, &args.token);
    let tree = Checkout(args.kubernetes.clone());
    let inputs = Inputs::new(&server, &tree)?;
    let overrides = Overrides::parse(OVERRIDES)?;
    for name in &args.files {
        let known = FILES.iter().any(|data| data.name() == name);
        ensure!(known, "there is no data file {name}");
    }
    let mut differing = 0;
    for data in &FILES {
        let name = data.name();
        if !args.files.is_empty() && !args.files.iter().any(|own| own == name) {
            continue;
        }
        let text = (data.generate)(&inputs).with_context(|| format!("cannot make {name}"))?;
        let text = overrides.apply(name, &text)?;
        let path = crate::root().join(data.path);
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        if present == text {
            println!("{name}: unchanged");
            continue;
        }
        differing += 1;
        if args.check {
            let diff = TextDiff::from_lines(&present, &text);
            let mut diff = diff.unified_diff();
            print!("{}", diff.context_radius(2).header(data.path, "imported"));
        } else {
            std::fs::write(&path, text)?;
            println!("{name}: written");
        }
    }
    Ok(match args.check && differing > 0 {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

#[cfg(test)]
mod tests {
    use super::server::Canned;
    use super::tree::Files;
    use super::*;

    #[test]
    fn a_checkout_of_another_version_is_refused() {
        let version = r#"{"major":"1","minor":"37+","gitVersion":"v1.37.0"}"#;
        let server = Canned::default().with("/version", version);
        let tree = |version: &str| {
            let source = format!("const (\n DefaultKubeBinaryVersion = \"{version}\"\n)");
            Files::with(&[(VERSION_SOURCE, &source)])
        };
        assert_eq!(
            Inputs::new(&server, &tree("1.37")).unwrap().version,
            "v1.37.0"
        );
        let error = Inputs::new(&server, &tree("1.36")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the checkout is of 1.36, the server of 1.37"
        );
    }
}
