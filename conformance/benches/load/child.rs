//! Servers as processes of their own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A server that ends with this value.
pub(crate) struct ChildServer {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl ChildServer {
    /// Starts a server and waits until it has printed its URL.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo builds the program");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        let read = BufReader::new(output).read_line(&mut line);
        read.expect("it prints a line");
        let (_, address) = line.trim().rsplit_once('/').expect("it prints its URL");
        let address = address.parse().expect("the URL ends with an address");
        Self { child, address }
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

impl Drop for ChildServer {
    fn drop(&mut self) {
        end(&mut self.child);
        self.child.wait().expect("it has been told to end");
    }
}

/// Ends a server in order: a program that is instrumented writes its profile when it exits.
#[cfg(unix)]
fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process};

    kill_process(Pid::from_child(child), Signal::TERM).expect("it runs until it is told to end");
}

#[cfg(not(unix))]
fn end(child: &mut Child) {
    child.kill().expect("it runs until it is killed");
}
