//! The costs of `kubeproof serve` as a process: time until it is ready, and memory when idle; with
//! three nodes, and with 200 definitions of custom resources as large as those of real operators.

#[path = "load/program.rs"]
mod program;
#[path = "load/size.rs"]
mod size;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use program::program;
use size::sized;

/// The number of measured starts; the median is reported.
const STARTS: usize = 11;
/// Time for the nodes to register before memory is read.
const IDLE: Duration = Duration::from_secs(2);
/// Definitions that are loaded.
const DEFINITIONS: usize = 200;

fn main() {
    measure("serve --nodes 3", &["--nodes", "3"]);
    let (directory, bytes) = definitions();
    let directory = directory.to_str().expect("cargo's directories are UTF-8");
    let what = format!(
        "serve --load {} definitions of {} MB",
        sized(DEFINITIONS),
        bytes / 1_000_000
    );
    measure(&what, &["--controllers", "none", "--load", directory]);
}

fn measure(what: &str, arguments: &[&str]) {
    let mut times = Vec::new();
    let mut resident_kib = 0;
    let starts = sized(STARTS);
    for round in 0..starts {
        let address = free_address();
        let started = Instant::now();
        let mut server = serve(address, arguments);
        while !is_ready(address) {
            // The server needs the processor more than the question does.
            std::thread::park_timeout(Duration::from_micros(100));
        }
        times.push(started.elapsed());
        if round == starts - 1 {
            let idle = Instant::now();
            while idle.elapsed() < IDLE {
                std::thread::park_timeout(IDLE);
            }
            resident_kib = resident(&server);
        }
        server.kill().expect("the server runs until it is killed");
        server.wait().expect("the server has been killed");
    }
    times.sort();
    println!(
        "{what}: ready after {:?} (median of {starts})",
        times[starts / 2]
    );
    println!("{what}: {resident_kib} KiB resident when idle");
}

/// A directory with the definitions of `fixtures/crds` under as many groups as it takes, and how
/// large they are together.
fn definitions() -> (PathBuf, usize) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/crds");
    let mut manifests = Vec::new();
    for project in fs::read_dir(fixtures).expect("the fixtures are part of the project") {
        let project = project.expect("a directory that was opened can be read");
        if project.path().is_dir() {
            for file in fs::read_dir(project.path()).expect("fixtures can be read") {
                let path = file.expect("fixtures can be read").path();
                manifests.push((
                    path.clone(),
                    fs::read_to_string(path).expect("fixtures are text"),
                ));
            }
        }
    }
    manifests.sort();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("definitions");
    fs::create_dir_all(&directory).expect("cargo's directory can be written");
    let mut bytes = 0;
    for (index, (_, manifest)) in manifests
        .iter()
        .cycle()
        .take(sized(DEFINITIONS))
        .enumerate()
    {
        let group = manifest
            .lines()
            .find_map(|line| line.strip_prefix("  group: "));
        let group = group.expect("each fixture is a definition");
        let renamed = format!("v{}.{group}", index / manifests.len());
        let manifest = manifest.replace(group, &renamed);
        bytes += manifest.len();
        fs::write(directory.join(format!("{index:03}.yaml")), manifest)
            .expect("cargo's directory can be written");
    }
    (directory, bytes)
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener
        .local_addr()
        .expect("a bound listener has an address")
}

fn serve(address: SocketAddr, arguments: &[&str]) -> Child {
    Command::new(program())
        .args(["serve", "--listen", &address.to_string()])
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("cargo builds the program beside its benchmarks")
}

fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

/// Resident memory in KiB, from /proc; 0 elsewhere than on Linux.
fn resident(server: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
