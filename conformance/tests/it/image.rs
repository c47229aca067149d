//! The container image, as its Dockerfile describes it: no image is built here.

use crate::support::process::{get, serve, terminate};

const DOCKERFILE: &str = include_str!("../../../packaging/docker/Dockerfile");

/// The argument of the only instruction with this name.
fn argument(instruction: &str) -> &'static str {
    let lines = DOCKERFILE.lines();
    let found: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '))
        .collect();
    assert_eq!(found.len(), 1, "{instruction}: {found:?}");
    found[0]
}

/// Words as the instruction has them in its JSON form. Only this form works in an image without a shell.
fn words(instruction: &str) -> Vec<String> {
    let argument = argument(instruction);
    serde_json::from_str(argument).unwrap_or_else(|error| panic!("{instruction}: {error}"))
}

#[test]
fn the_image_has_nothing_but_the_program_that_it_starts() {
    assert_eq!(argument("FROM"), "scratch");
    let copied: Vec<&str> = argument("COPY").split(' ').collect();
    // `cargo xtask packages` puts the program there, and so does who builds the image by hand.
    assert_eq!(copied[0], "kubeproof");
    assert_eq!(words("ENTRYPOINT"), [copied[1]]);
    let user = argument("USER").split(':').next();
    assert_ne!(user, Some("0"), "the image must not run as root");
}

#[test]
fn the_arguments_of_the_image_start_a_server_on_its_port() {
    let mut arguments = words("CMD");
    assert_eq!(arguments.remove(0), "serve");
    let address = format!(":{}", argument("EXPOSE"));
    let listen = arguments.iter_mut().find(|one| **one == address);
    // A port that is free on this machine.
    *listen.expect("it listens on the port that it exposes") = ":0".to_owned();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (server, url) = serve(&arguments);
    let port = url.rsplit(':').next().expect("a port");
    let version = get(&format!("http://127.0.0.1:{port}"), "/version", "");
    assert!(version.contains("\"gitVersion\": \"v1."), "{version}");
    terminate(server);
}
