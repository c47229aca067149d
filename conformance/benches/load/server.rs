//! The servers under load.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof::exchange::{Trust, connector as anybody};
use serde_json::Value;

use crate::bare::BARE;
use crate::child::ChildServer;
use crate::client::{Target, connector};
use crate::program::program;

const TOKEN: &str = "load";

/// A server that ends with this value.
pub(crate) struct Server {
    pub(crate) child: ChildServer,
    pub(crate) target: Target,
}

impl Server {
    /// Starts `kubeproof serve`, alone as a kube-apiserver is; answers once it says that it listens.
    pub(crate) fn start(tls: bool) -> Self {
        let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("load.kubeconfig");
        let mut command = Command::new(program());
        command
            .args(["serve", "--controllers", "none", "--token", TOKEN])
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .args(tls.then_some("--tls"));
        let child = ChildServer::spawn(command);
        let target = Target {
            address: child.address,
            tls: tls.then(|| connector(&authority(&kubeconfig))),
            token: TOKEN.to_owned(),
        };
        Self { child, target }
    }

    /// Starts the bare server, which is this program.
    pub(crate) fn bare(tls: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg(BARE).args((!tls).then_some("--plain"));
        let child = ChildServer::spawn(command);
        let anybody = || anybody(&Trust::Anybody).expect("it reads no file");
        let target = Target {
            address: child.address,
            tls: tls.then(anybody),
            token: TOKEN.to_owned(),
        };
        Self { child, target }
    }
}

fn authority(kubeconfig: &PathBuf) -> Vec<u8> {
    let text =
        std::fs::read_to_string(kubeconfig).expect("it is written before the server listens");
    let config: Value = serde_saphyr::from_str(&text).expect("it is YAML");
    let data = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    let decoded = STANDARD.decode(data.expect("a server with TLS has an authority"));
    decoded.expect("the authority is in base64")
}
