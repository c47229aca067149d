use std::sync::OnceLock;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Container as Spec, PodSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::container::{Channel, Container, FileSystem};
use crate::container_spec::SharedContainer;

const POD: PodReference<'static> = PodReference {
    name: "web-0",
    uid: "u",
    node: "node-1",
};

fn shared(spec: Spec) -> SharedContainer {
    let pod = PodSpec {
        containers: vec![spec],
        ..PodSpec::default()
    };
    SharedContainer::of(&pod.into(), 0)
}

fn run(lines: &[&str]) -> Run {
    let log = Arc::new(Log::default());
    for (second, line) in (1..).zip(lines) {
        let time = Timestamp::from_second(second).unwrap();
        log.append(Channel::Stdout, format!("{line}\n").as_bytes(), time);
    }
    log.close(Timestamp::UNIX_EPOCH);
    let container = Container {
        command: "".into(),
        files: FileSystem::default(),
        hostname: "web-0".into(),
        variables: SmallMap::new(),
        directory: "/".into(),
        now: Arc::new(|| Timestamp::UNIX_EPOCH),
        started: Timestamp::UNIX_EPOCH,
        listeners: OnceLock::new(),
    };
    Run {
        container,
        shared: shared(Spec::default()),
        log,
        ports: [8080].into(),
        loads: Loads::default(),
        stdin: None,
    }
}

#[test]
fn a_pod_and_its_runs_are_small() {
    for (size, most) in [
        (size_of::<Pod>(), 128),
        (size_of::<Slot>(), 24),
        (size_of::<Run>(), 288),
    ] {
        assert!(size <= most, "{size} {most}");
    }
}

fn containers() -> Containers {
    Containers::of(
        1,
        SameImages::default(),
        MissingImages::default(),
        Arc::new(|| Timestamp::from_second(4).unwrap()),
    )
}

async fn read(containers: &Containers, options: LogOptions) -> Result<String, Refusal> {
    let chunks = containers.logs(POD, "main", options)?;
    let bytes: Vec<u8> = chunks.collect::<Vec<_>>().await.concat();
    Ok(String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn options_choose_a_part_of_the_log() {
    let containers = containers();
    containers.begin(&"u".into(), "main", 0, Arc::new(run(&["a", "b", "c"])));
    let all = LogOptions::default();
    for (options, expected) in [
        (all, "a\nb\nc\n"),
        (
            LogOptions {
                follow: true,
                ..all
            },
            "a\nb\nc\n",
        ),
        (
            LogOptions {
                tail_lines: Some(2),
                ..all
            },
            "b\nc\n",
        ),
        (
            LogOptions {
                tail_lines: Some(0),
                ..all
            },
            "",
        ),
        (
            LogOptions {
                limit_bytes: Some(3),
                ..all
            },
            "a\nb",
        ),
        (
            LogOptions {
                since_seconds: Some(1),
                ..all
            },
            "c\n",
        ),
        (
            LogOptions {
                since_time: Timestamp::from_second(2).ok(),
                ..all
            },
            "b\nc\n",
        ),
        (
            LogOptions {
                timestamps: true,
                tail_lines: Some(1),
                ..all
            },
            "1970-01-01T00:00:03.000000000Z c\n",
        ),
    ] {
        let text = read(&containers, options).await.unwrap();
        assert_eq!(text, expected, "{options:?}");
    }
}

#[tokio::test]
async fn the_run_before_is_kept() {
    let containers = containers();
    let previous = LogOptions {
        previous: true,
        ..LogOptions::default()
    };
    let none = "previous terminated container \"main\" in pod \"web-0\" not found";
    let waiting = read(&containers, LogOptions::default()).await.unwrap_err();
    let message = "container \"main\" in pod \"web-0\" is waiting to start: ContainerCreating";
    assert_eq!(waiting.to_string(), message);
    assert_eq!(
        read(&containers, previous).await.unwrap_err().to_string(),
        none
    );
    containers.begin(&"u".into(), "main", 0, Arc::new(run(&["one"])));
    assert_eq!(
        read(&containers, previous).await.unwrap_err().to_string(),
        none
    );
    containers.back_off("u", "main");
    assert_eq!(read(&containers, previous).await.unwrap(), "one\n");
    containers.begin(&"u".into(), "main", 1, Arc::new(run(&["lost"])));
    containers.begin(&"u".into(), "main", 1, Arc::new(run(&["two"])));
    assert_eq!(read(&containers, previous).await.unwrap(), "one\n");
    assert_eq!(
        read(&containers, LogOptions::default()).await.unwrap(),
        "two\n"
    );
    containers.forget("u");
    assert!(read(&containers, LogOptions::default()).await.is_err());
}

#[test]
fn other_nodes_are_not_known() {
    let elsewhere = PodReference {
        node: "node-2",
        ..POD
    };
    let refused = containers().logs(elsewhere, "main", LogOptions::default());
    assert_eq!(refused.err(), Some(Refusal::UnknownNode));
}

#[tokio::test(start_paused = true)]
async fn a_process_ends_with_its_container() {
    let containers = containers();
    let alive = Arc::new(Run {
        log: Arc::default(),
        ..run(&[])
    });
    let command = || ["sh", "-c", "echo hi; exit 3"].map(str::to_owned).to_vec();
    containers.begin(&"u".into(), "main", 0, Arc::new(run(&[])));
    let refused = containers
        .exec(POD, "main", command(), ExecOptions::default())
        .err();
    assert_eq!(
        refused.unwrap().to_string(),
        "container not found (\"main\")"
    );
    containers.begin(&"u".into(), "main", 1, Arc::clone(&alive));

    let session = containers
        .exec(POD, "main", command(), ExecOptions::default())
        .ok()
        .unwrap();
    assert_eq!(session.ended.await, Ok(3));
    let written: Vec<_> = session.output.collect().await;
    assert_eq!(written, [(Channel::Stdout, Bytes::from("hi\n"))]);

    let unknown = containers.exec(
        POD,
        "main",
        vec!["nginx".to_owned()],
        ExecOptions::default(),
    );
    assert!(
        unknown
            .ok()
            .unwrap()
            .ended
            .await
            .unwrap_err()
            .contains("\"nginx\"")
    );

    let attached = containers.attach(POD, "main", true).ok().unwrap();
    let sleep = vec!["sleep".to_owned(), "60".to_owned()];
    let sleeping = containers
        .exec(POD, "main", sleep, ExecOptions::default())
        .ok()
        .unwrap();
    alive
        .log
        .append(Channel::Stderr, b"oh\n", Timestamp::UNIX_EPOCH);
    alive.log.close(Timestamp::UNIX_EPOCH);
    assert_eq!(sleeping.ended.await, Ok(137));
    assert_eq!(attached.ended.await, Ok(0));
    assert!(attached.input.is_none());
    let written: Vec<_> = attached.output.collect().await;
    assert_eq!(written, [(Channel::Stderr, Bytes::from("oh\n"))]);
}

#[tokio::test]
async fn ports_are_open_while_something_listens_there() {
    let containers = containers();
    let alive = Arc::new(Run {
        log: Arc::default(),
        ..run(&[])
    });
    let not_found = containers.network(POD, "default").err().unwrap();
    assert_eq!(not_found.to_string(), "pod not found (\"web-0_default\")");
    containers.begin(&"u".into(), "main", 0, Arc::clone(&alive));
    let address = "127.0.0.1:3000".parse().unwrap();
    containers.forward("u", BTreeMap::from([(80, address)]));
    let network = containers.network(POD, "default").unwrap();
    assert_eq!(network.forwarded(80), Some(address));
    assert!(network.is_running());
    let Behind::Site(site) = network.connect(8080) else {
        panic!("nobody listens");
    };
    assert_eq!(
        site.answer(get("/")).await.body,
        b"pod default/web-0, port 8080\n"
    );
    assert!(!site.serves_files());
    assert!(matches!(network.connect(81), Behind::Nobody));
    alive.log.close(Timestamp::UNIX_EPOCH);
    network.ended().await;
    site.ended().await;
    assert!(matches!(network.connect(8080), Behind::Nobody));
    assert!(!network.is_running());
    assert!(containers.network(POD, "default").is_err());
    // The sandbox of a pod stays while a container waits for its next run.
    containers.back_off("u", "main");
    assert!(containers.network(POD, "default").is_ok());
}

fn get(path: &str) -> Asked<'_> {
    Asked {
        method: "GET",
        path,
        query: "",
        body: "",
    }
}

#[tokio::test]
async fn an_image_that_serves_files_serves_those_of_the_container() {
    let containers = containers();
    let spec = Spec {
        image: Some("nginx:1.27".to_owned()),
        ..Spec::default()
    };
    let nginx = Run {
        log: Arc::default(),
        shared: shared(spec),
        ..run(&[])
    };
    let files = &nginx.container.files;
    files.make_directories("/usr/share/nginx/html/a");
    for (path, text) in [("index.html", "<p>"), ("a/b.txt", "b"), ("c", "c")] {
        let path = format!("/usr/share/nginx/html/{path}");
        files.write(&path, text.as_bytes(), false).unwrap();
    }
    files.make_directories("/etc");
    files.write("/etc/secret", b"s", false).unwrap();
    containers.begin(&"u".into(), "main", 0, Arc::new(nginx));
    let network = containers.network(POD, "default").unwrap();
    let Behind::Site(site) = network.connect(8080) else {
        panic!("nobody listens");
    };
    assert!(site.serves_files());
    for (path, status, content_type, body) in [
        ("/", 200, "text/html", "<p>"),
        ("/a/b.txt?x=1", 200, "text/plain", "b"),
        ("/c", 200, "application/octet-stream", "c"),
        (
            "/a/",
            404,
            "text/html",
            "<html><body><h1>404 Not Found</h1></body></html>\n",
        ),
        (
            "/../../../../etc/secret",
            404,
            "text/html",
            "<html><body><h1>404 Not Found</h1></body></html>\n",
        ),
    ] {
        let page = site.answer(get(path)).await;
        let text = String::from_utf8(page.body).unwrap();
        assert_eq!(
            (page.status, page.content_type, text.as_str()),
            (status, content_type, body),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_is_that_of_the_program_that_listens_there() {
    let containers = containers();
    let alive = Run {
        log: Arc::default(),
        ..run(&[])
    };
    containers.begin(&"u".into(), "main", 0, Arc::new(alive));
    let network = containers.network(POD, "default").unwrap();
    let script = "while true; do echo hello | nc -l -p 8080 || true; done";
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let listening = containers
        .exec(POD, "main", command, ExecOptions::default())
        .ok()
        .unwrap();
    let server = async { drop(listening.ended.await) };
    let client = async {
        for _ in 0..2 {
            // The program listens anew after each connection.
            let mut connection = loop {
                match network.connect(8080) {
                    Behind::Program(connection) => break connection,
                    Behind::Site(_) | Behind::Nobody => {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            };
            let mut text = String::new();
            connection.write_all(b"hi\n").await.unwrap();
            connection.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "hello\n");
            assert!(matches!(network.connect(8080), Behind::Nobody));
        }
    };
    tokio::select! {
        () = client => {}
        () = server => panic!("the loop ends"),
    }
    let port = ["nc", "-l", "9"].map(str::to_owned).to_vec();
    let listening = containers
        .exec(POD, "main", port, ExecOptions::default())
        .ok()
        .unwrap();
    let client = async {
        let Behind::Program(mut connection) = network.connect(9) else {
            panic!("nobody listens");
        };
        connection.write_all(b"to the log\n").await.unwrap();
    };
    let (code, ()) = tokio::join!(listening.ended, client);
    assert_eq!(code, Ok(0));
    let written: Vec<_> = listening.output.collect().await;
    assert_eq!(written, [(Channel::Stdout, Bytes::from("to the log\n"))]);
}

/// Types `keys`, a second apart, at a terminal with `command`. Returns the screen and the process's
/// end.
async fn at_terminal(command: &[&str], keys: &[&str]) -> (String, Result<i32, String>) {
    let containers = containers();
    let alive = Run {
        log: Arc::default(),
        ..run(&[])
    };
    containers.begin(&"u".into(), "main", 0, Arc::new(alive));
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let options = ExecOptions {
        stdin: true,
        tty: true,
    };
    let session = containers.exec(POD, "main", command, options).ok().unwrap();
    let input = session.input.unwrap();
    let typing = async {
        for keys in keys {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let keys = Bytes::copy_from_slice(keys.as_bytes());
            // The process may have ended.
            let _ = input.send(keys).await;
        }
        drop(input);
    };
    let shown = session.output.map(|(_, bytes)| bytes).collect::<Vec<_>>();
    let ((), shown, ended) = tokio::join!(typing, shown, session.ended);
    (String::from_utf8(shown.concat()).unwrap(), ended)
}

#[tokio::test(start_paused = true)]
async fn a_terminal_shows_what_is_typed_and_what_is_written() {
    let shell: &[&str] = &["sh"];
    for (command, keys, shown, code) in [
        (
            shell,
            &["echo hj\x7fi\r", "exit 3\r"][..],
            "# echo hj\u{8} \u{8}i\r\nhi\r\n# exit 3\r\n",
            3,
        ),
        // ^C discards a line or ends the running command; ^D is the end of input.
        (
            shell,
            &[
                "ech\x03",
                "sleep 100\r",
                "\x03",
                "echo $?\r",
                "false\r",
                "\x04",
            ],
            "# ech^C\r\n# sleep 100\r\n^C\r\n# echo $?\r\n130\r\n# false\r\n# ",
            1,
        ),
        (
            shell,
            &[
                "for i in 1\r",
                "do echo $i; done\r",
                "sh\r",
                "\x03",
                "\x04",
                "\x04",
            ],
            "# for i in 1\r\n> do echo $i; done\r\n1\r\n# sh\r\n# ^C\r\n# # ",
            130,
        ),
        (
            &["cat"],
            &["a\r", "b\x04", "c\r\x04"],
            "a\r\na\r\nbbc\r\nc\r\n",
            0,
        ),
        (&["cat"], &["a\x03", "b\r"], "a^C", 130),
        (&["sleep", "60"], &["\x1c"], "^\\", 131),
        (
            &["sh", "-c", "read x; echo got $x >&2"],
            &["y\r"],
            "y\r\ngot y\r\n",
            0,
        ),
        // A client that stops typing hangs up.
        (shell, &["echo hi\r"], "# echo hi\r\nhi\r\n# ", 0),
    ] {
        let (text, ended) = at_terminal(command, keys).await;
        assert_eq!(
            (text.as_str(), ended),
            (shown, Ok(code)),
            "{command:?} {keys:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_without_a_client_that_types_stays_silent() {
    let containers = containers();
    let alive = Run {
        log: Arc::default(),
        ..run(&[])
    };
    containers.begin(&"u".into(), "main", 0, Arc::new(alive));
    let options = ExecOptions {
        stdin: false,
        tty: true,
    };
    let shell = vec!["sh".to_owned()];
    let session = containers.exec(POD, "main", shell, options).ok().unwrap();
    assert!(session.input.is_none());
    let ended = tokio::time::timeout(Duration::from_secs(60), session.ended);
    assert!(ended.await.is_err());
}
