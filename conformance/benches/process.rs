//! What `kubeproof serve` costs as a process: time until it is ready, and memory when idle.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts measured; the middle one is told.
const STARTS: usize = 11;
/// Time for the nodes to register before memory is read.
const IDLE: Duration = Duration::from_secs(2);

fn main() {
    let mut times = Vec::new();
    let mut resident_kib = 0;
    for round in 0..STARTS {
        let address = free_address();
        let started = Instant::now();
        let mut server = serve(address);
        while !is_ready(address) {
            std::thread::yield_now();
        }
        times.push(started.elapsed());
        if round == STARTS - 1 {
            let idle = Instant::now();
            while idle.elapsed() < IDLE {
                std::thread::park_timeout(IDLE);
            }
            resident_kib = resident(&server);
        }
        server
            .kill()
            .expect("the server runs until it is told to end");
        server.wait().expect("the server has been told to end");
    }
    times.sort();
    println!(
        "serve --nodes 3: ready after {:?} (median of {STARTS})",
        times[STARTS / 2]
    );
    println!("serve --nodes 3: {resident_kib} KiB resident when idle");
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener
        .local_addr()
        .expect("a bound listener has an address")
}

fn serve(address: SocketAddr) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kubeproof"))
        .args(["serve", "--nodes", "3", "--listen", &address.to_string()])
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

/// Resident memory in KiB, as Linux tells it; 0 elsewhere.
fn resident(server: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
