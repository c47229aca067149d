//! Servers as processes of their own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof::exchange::{Trust, connector as anybody};
use serde_json::Value;

use crate::bare::BARE;
use crate::client::{Target, connector};

const TOKEN: &str = "load";

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) target: Target,
}

impl Server {
    /// Starts `kubeproof serve`, alone as a kube-apiserver is; answers once it says that it listens.
    pub(crate) fn start(tls: bool) -> Self {
        let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("load.kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubeproof"));
        command
            .args(["serve", "--controllers", "none", "--token", TOKEN])
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .args(tls.then_some("--tls"))
            .stdout(Stdio::piped());
        let (child, address) = spawn(command);
        let target = Target {
            address,
            tls: tls.then(|| connector(&authority(&kubeconfig))),
            token: TOKEN.to_owned(),
        };
        Self { child, target }
    }

    /// Starts the bare server, which is this program.
    pub(crate) fn bare(tls: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command
            .arg(BARE)
            .args((!tls).then_some("--plain"))
            .stdout(Stdio::piped());
        let (child, address) = spawn(command);
        let anybody = || anybody(&Trust::Anybody).expect("it reads no file");
        let target = Target {
            address,
            tls: tls.then(anybody),
            token: TOKEN.to_owned(),
        };
        Self { child, target }
    }

    /// Processor time taken so far in µs, from /proc in ticks of 10 ms; 0 elsewhere than on Linux.
    pub(crate) fn processor_us(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // After the name in brackets: the times in user and kernel mode are the 12th and 13th field.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        ticks * 1e4
    }

    /// Resident memory in MB, from /proc; 0 elsewhere than on Linux.
    pub(crate) fn resident_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        let kib: f64 = number.and_then(|number| number.parse().ok()).unwrap_or(0.0);
        kib * 1024.0 / 1e6
    }
}

/// Starts a server; answers with its address once it has printed its URL.
fn spawn(mut command: Command) -> (Child, SocketAddr) {
    let mut child = command.spawn().expect("cargo builds the program");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("it is piped");
    let read = BufReader::new(output).read_line(&mut line);
    read.expect("it prints a line");
    let (_, address) = line.trim().rsplit_once('/').expect("it prints its URL");
    let address = address.parse().expect("the URL ends with an address");
    (child, address)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("it runs until it is killed");
        self.child.wait().expect("it has been killed");
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
