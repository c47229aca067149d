//! The program as a process, and requests to a server on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) fn kubeproof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubeproof"));
    command.args(arguments);
    command
}

pub(crate) fn output(arguments: &[&str]) -> Output {
    kubeproof(arguments).output().expect("the program runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints UTF-8")
}

/// A file of this test run alone, below the directory cargo gives to tests.
pub(crate) fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().expect("below a directory")).expect("it can be made");
    std::fs::write(&path, content).expect("it can be written");
    path
}

/// Starts the program and waits for its first line.
pub(crate) fn start(command: &mut Command) -> (Child, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    reader.read_line(&mut line).expect("it says that it runs");
    (child, line)
}

/// Starts `serve` and reads the URL it announces.
pub(crate) fn serve(arguments: &[&str]) -> (Child, String) {
    let (child, line) = start(kubeproof(&["serve"]).args(arguments));
    let url = line
        .trim()
        .strip_prefix("listening on ")
        .expect("it says where")
        .to_owned();
    (child, url)
}

pub(crate) fn get(url: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

pub(crate) fn post(url: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Sends a signal to a process.
pub(crate) fn send(signal: Signal, process: u32) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(id.expect("the number of a process"), signal).expect("it is there");
}

pub(crate) fn terminate(mut child: Child) {
    send(Signal::TERM, child.id());
    assert!(child.wait().expect("it is our child").success());
}
