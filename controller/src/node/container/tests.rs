use std::time::Duration;

use super::*;

fn container() -> Container {
    let files = FileSystem::new(vec![("/data".to_owned(), Volume::default())]);
    Container {
        files,
        hostname: "web-0".to_owned(),
        variables: BTreeMap::from([("HOME".to_owned(), "/root".to_owned())]),
        directory: "/".to_owned(),
        now: Arc::new(|| "2026-01-02T03:04:05Z".parse().unwrap()),
    }
}

/// What a script writes to both streams, and its code.
async fn sh(container: &Container, script: &str) -> (String, i32) {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let log = Arc::new(Log::default());
    let mut shell = container.shell(Stranger::Missing);
    let output = |channel| Output::Log(Arc::clone(&log), channel, Arc::clone(&container.now));
    let io = Streams {
        stdin: Input::empty(),
        stdout: output(Channel::Stdout),
        stderr: output(Channel::Stderr),
    };
    let code = shell.program(&argv, &io).await.unwrap();
    log.close((container.now)());
    let mut index = 0;
    let mut text = Vec::new();
    while let Some(line) = log.written(&mut index) {
        text.extend_from_slice(&line.bytes);
    }
    (String::from_utf8(text).unwrap(), code)
}

#[tokio::test(start_paused = true)]
async fn scripts_do_what_a_shell_does() {
    let rows = [
        ("echo a && echo b || echo c", "a\nb\n", 0),
        ("false && echo b || echo c", "c\n", 0),
        ("true; false", "", 1),
        ("exit 3; echo no", "", 3),
        ("! true", "", 1),
        (
            "for i in $(seq 1 3); do echo kube $i; sleep 0.1; done",
            "kube 1\nkube 2\nkube 3\n",
            0,
        ),
        ("x=1; y=\"$x  2\"; echo $y; echo \"$y\"", "1 2\n1  2\n", 0),
        (
            "echo '$HOME' \"$HOME\" ${none:-other} $?",
            "$HOME /root other 0\n",
            0,
        ),
        (
            "greet() { echo $1 $#; return 3; }; greet a b; echo $? $#",
            "a 2\n3 0\n",
            0,
        ),
        (
            "_term(){\n\tsleep 5\n\texit 143\n}\ntrap _term SIGTERM\necho on\n_term\necho off",
            "on\n",
            143,
        ),
        ("again() { again; }; again", "sh: too many calls\n", 1),
        ("expr 5 % 2; expr 2 - 2; expr 1 = 1", "1\n0\n1\n", 0),
        (
            "I=1; if [ $(expr ${I} % 2) -ne 0 ]; then exit 1; else exit 0; fi",
            "",
            1,
        ),
        ("[[ -r /none ]] && echo yes || echo no", "no\n", 0),
        ("[[ 1 = 1 ]", "sh: [[: missing ]]\n", 2),
        (
            "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done; echo $i",
            "3\n",
            0,
        ),
        (
            "until test -f /tmp/x; do touch /tmp/x; done; ls /tmp",
            "x\n",
            0,
        ),
        (
            "if [ -d /data ]; then echo yes; else echo no; fi",
            "yes\n",
            0,
        ),
        (
            "if false; then :; elif true; then echo elif; fi",
            "elif\n",
            0,
        ),
        ("printf '%s-%d\\n' a 1 b 2", "a-1\nb-2\n", 0),
        ("printf $(hostname)", "web-0", 0),
        (
            "echo one > /data/f; echo two >> /data/f; cat /data/f",
            "one\ntwo\n",
            0,
        ),
        ("echo one | cat; echo lost | true", "one\n", 0),
        ("(exit 4); echo $?; { echo in; } > /dev/null", "4\n", 0),
        ("nonsense", "sh: nonsense: not found\n", 127),
        ("nonsense 2>/dev/null || echo handled", "handled\n", 0),
        (
            "cat /none",
            "cat: can't open '/none': No such file or directory\n",
            1,
        ),
        ("date +%Y-%m-%d; date +%s", "2026-01-02\n1767323045\n", 0),
        (
            "echo `echo old`; export A=b; sh -c 'echo $A $0 $1' x y",
            "old\nb x y\n",
            0,
        ),
        ("A=1 env | grep A; echo \"[$A]\"", "A=1\n[]\n", 0),
        (
            "for i in 1 2 3; do [ $i = 2 ] && continue; [ $i = 3 ] && break; echo $i; done",
            "1\n",
            0,
        ),
        ("echo a; # a comment\necho b", "a\nb\n", 0),
        (
            "echo 'open",
            "sh: Syntax error: Unterminated quoted string\n",
            2,
        ),
        ("for x in", "sh: Syntax error: end of file unexpected\n", 2),
    ];
    for (script, written, code) in rows {
        assert_eq!(
            sh(&container(), script).await,
            (written.to_owned(), code),
            "{script}"
        );
    }
}

/// How upstream's StatefulSet tests make a pod unready and ready again.
#[tokio::test(start_paused = true)]
async fn a_page_is_moved_away_and_back() {
    let container = container();
    container
        .files
        .make_directories("/usr/local/apache2/htdocs");
    let page = "/usr/local/apache2/htdocs/index.html";
    container.files.write(page, b"It works!", false).unwrap();
    let away = sh(&container, &format!("mv -v {page} /tmp/ || true")).await;
    assert_eq!(
        away,
        (format!("renamed '{page}' -> '/tmp/index.html'\n"), 0)
    );
    assert!(!container.files.exists(page));
    let again = sh(&container, &format!("mv -v {page} /tmp/ || true")).await;
    assert_eq!(again.1, 0);
    sh(&container, "mv /tmp/index.html /usr/local/apache2/htdocs/").await;
    assert_eq!(container.files.read(page).unwrap(), b"It works!");
}

#[tokio::test(start_paused = true)]
async fn time_passes_for_who_sleeps_and_for_who_spins() {
    let begun = tokio::time::Instant::now();
    sh(&container(), "sleep 1m 1s").await;
    assert_eq!(begun.elapsed().as_secs(), 61);
    let spin = container();
    let spin = sh(&spin, "while true; do true; done").map_left_after();
    assert!(spin.await);
}

/// Whether a future is still running after a minute.
trait Endless: Future + Sized {
    async fn map_left_after(self) -> bool {
        tokio::time::timeout(Duration::from_secs(60), self)
            .await
            .is_err()
    }
}

impl<F: Future> Endless for F {}

#[tokio::test(start_paused = true)]
async fn input_is_read_as_it_comes() {
    let argv = vec!["sh".to_owned()];
    let (process, running) = container().process(argv, true);
    let client = async move {
        let input = process.input.unwrap();
        input.send(Bytes::from("echo one\nec")).await.unwrap();
        let first = process.output.read().await.unwrap();
        input.send(Bytes::from("ho two\nexit 7\n")).await.unwrap();
        let second = process.output.read().await.unwrap();
        [first, second]
    };
    let (code, written) = tokio::join!(running, client);
    assert_eq!(code, Some(7));
    let written = written.map(|(_, bytes)| bytes);
    assert_eq!(written, [Bytes::from("one\n"), Bytes::from("two\n")]);
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_log_waits_for_its_lines_and_its_end() {
    let container = container();
    let log = Arc::new(Log::default());
    let argv = ["sh", "-c", "sleep 5; echo late; printf rest"].map(str::to_owned);
    let follow = async {
        let mut index = 0;
        let first = log.line(&mut index).await.unwrap().bytes;
        let second = log.line(&mut index).await.unwrap().bytes;
        (first, second, log.line(&mut index).await.is_none())
    };
    let (_, lines) = tokio::join!(container.run(argv.to_vec(), &log), follow);
    assert_eq!(lines, (Bytes::from("late\n"), Bytes::from("rest"), true));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_the_image_lacks_is_told_apart() {
    let log = Arc::new(Log::default());
    assert_eq!(container().run(vec!["nginx".to_owned()], &log).await, None);
    assert_eq!(
        container().run(vec!["/bin/true".to_owned()], &log).await,
        Some(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_taken_at_its_word_about_programs_of_its_image() {
    let container = container();
    let argv = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
    for (script, code, written) in [
        ("pg_isready", 0, ""),
        ("until pg_isready; do sleep 1; done; echo up", 0, "up\n"),
        ("migrate && echo done", 0, "done\n"),
        ("migrate; false", 1, ""),
        ("! migrate", 1, ""),
    ] {
        let ended = container.collect(argv(script)).await;
        assert_eq!(ended, (code, written.as_bytes().to_vec()), "{script}");
    }
    let unknown = vec!["pg_isready".to_owned()];
    assert_eq!(container.collect(unknown).await, (0, Vec::new()));
    // Whether such a program ends is not known either, so the last of a script runs on.
    for (script, code) in [
        ("migrate; serve", None),
        ("exec serve", None),
        ("echo config | serve", None),
        ("serve & wait", None),
        ("sh -c serve", None),
        ("serve; echo done", Some(0)),
        ("exec sleep 5", Some(0)),
        ("migrate; exit 3", Some(3)),
    ] {
        let log = Arc::new(Log::default());
        assert_eq!(container.run(argv(script), &log).await, code, "{script}");
    }
}
