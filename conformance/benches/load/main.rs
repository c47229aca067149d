//! The server under load, as clients in another process see it: over TLS, with a token.
//!
//! `cargo bench -p kubeproof --bench load -- [OPTIONS] [SECTION...]`
//!
//! Sections are `start`, `requests`, `lists`, `watches` and `selectors`; all of them unless some are named.
//!
//! | option | effect |
//! | --- | --- |
//! | `--plain` | HTTP instead of HTTPS |
//! | `--against URL` | measures the server at this URL, too, in turns, and prints the ratios |
//! | `--token TOKEN` | the token of an administrator of that server |
//! | `--ca FILE` | the authority of that server's certificate, in PEM; without it any certificate is accepted |
//!
//! Each row has the figure of a bare server, too, measured in turns: hyper and rustls alone, which answer as many bytes.
//! No server can exceed it, and the ratio says how near this one comes.
//!
//! `KUBEPROOF_BINARY` is the absolute path of another program to measure than the one that cargo has built with the
//! benchmark.
//!
//! The other server has to accept pods without service accounts, as kube-apiserver does with
//! `--disable-admission-plugins=ServiceAccount`.

mod bare;
mod calls;
mod child;
mod client;
mod lists;
mod objects;
mod options;
mod program;
mod requests;
mod rows;
mod server;
mod size;
mod watches;

use std::time::Instant;

use client::Connection;
use options::Options;
use rows::{Row, Unit};
use server::Server;
use size::sized;

/// As the measured server has it, so that the bare one can be compared with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_bare = arguments.next_if(|argument| argument == bare::BARE);
    let options = Options::parse(arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        if is_bare.is_some() {
            bare::serve(options.tls).await;
        }
        if options.wants("start") {
            start(options.tls).await;
        }
        if options.wants("requests") {
            requests::measure(&options).await;
        }
        if options.wants("lists") {
            lists::measure(&options).await;
        }
        if options.wants("watches") {
            watches::of_all(&options).await;
        }
        if options.wants("selectors") {
            watches::of_one(&options).await;
        }
    });
}

/// Starts of this program until it is ready.
async fn start(tls: bool) {
    let mut ready = Row::new("ready", Unit::Milliseconds);
    let mut resident = 0.0;
    for _ in 0..sized(21) {
        let started = Instant::now();
        let server = Server::start(tls);
        let mut connection = Connection::open(&server.target).await;
        let (code, _) = connection.request("GET", "/readyz", "", b"").await;
        assert_eq!(code, 200);
        ready.add_ours(started.elapsed().as_secs_f64() * 1e3);
        resident = server.child.resident_mb();
    }
    ready.print();
    println!("resident when ready: {resident:.0} MB");
}
