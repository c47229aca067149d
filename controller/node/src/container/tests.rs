use std::time::Duration;

use tokio::sync::watch;

use super::commands::PROGRAMS;
use super::*;

fn container() -> Container {
    let files = FileSystem::new(vec![("/data".to_owned(), Volume::default())]);
    Container {
        command: "sleep 1h".into(),
        files,
        hostname: "web-0".into(),
        variables: SmallMap::new(),
        directory: "/".into(),
        now: Arc::new(|| "2026-01-02T03:04:05Z".parse().unwrap()),
        started: "2026-01-01T03:04:00Z".parse().unwrap(),
        listeners: OnceLock::new(),
    }
}

/// Runs a script. Returns its output on both streams, and its exit code.
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
        ("A=1 env | grep A=; echo \"[$A]\"", "A=1\n[]\n", 0),
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

/// Upstream's StatefulSet tests make a pod unready and ready again in this way.
#[tokio::test(start_paused = true)]
async fn devices_are_read_and_written() {
    let rows = [
        (
            "cat /dev/null; echo a > /dev/null; ls /dev",
            "null\nrandom\nurandom\nzero\n",
            0,
        ),
        ("cat < /dev/null | wc -c", "0\n", 0),
        (
            "head -c 3 /dev/zero | wc -c; head -c3 < /dev/urandom | wc -c",
            "3\n3\n",
            0,
        ),
        ("cat /dev/zero | head -c 5 | wc -c", "5\n", 0),
        (
            "grep a /dev/zero",
            "grep: can't open '/dev/zero': Cannot allocate memory\n",
            1,
        ),
        (
            "cat /dev/zero > /tmp/a",
            "cat: write error: No space left on device\n",
            1,
        ),
        (
            "cp /dev/null /tmp/a && wc -c /tmp/a; ls -l /dev/null | head -c 10",
            "0 /tmp/a\ncrw-rw-rw-",
            0,
        ),
        (
            "echo x | tee /dev/null; rm /dev/zero; ls /dev/zero",
            "x\nls: /dev/zero: No such file or directory\n",
            1,
        ),
        (
            "dd if=/dev/zero of=/data/one bs=1 count=1 conv=fsync; wc -c /data/one",
            "1+0 records in\n1+0 records out\n1 bytes (1B) copied, 0.000000 seconds, 1B/s\n1 /data/one\n",
            0,
        ),
        (
            "echo abcdef | dd of=/tmp/b bs=4 status=none; cat /tmp/b",
            "abcdef\n",
            0,
        ),
        ("echo abcdef | dd bs=4 skip=1 2> /dev/null", "ef\n", 0),
        (
            "echo abcd > /tmp/c; echo -n X | dd of=/tmp/c bs=1 seek=2 conv=notrunc status=none; cat /tmp/c",
            "abXd\n",
            0,
        ),
        (
            "dd if=/none",
            "dd: can't open '/none': No such file or directory\n",
            1,
        ),
        ("dd foo", "dd: unrecognized operand 'foo'\n", 1),
        (
            "dd if=/dev/zero of=/tmp/d bs=1M count=100 2>&1 | head -n 1",
            "dd: error writing '/tmp/d': No space left on device\n",
            0,
        ),
    ];
    for (script, output, code) in rows {
        let expected = (output.to_owned(), code);
        assert_eq!(sh(&container(), script).await, expected, "{script}");
    }
    let of = |seed| {
        let mut own = container();
        own.files = own.files.seeded(seed);
        async move {
            sh(&own, "head -c 8 /dev/urandom > /tmp/r").await;
            own.files.read("/tmp/r").unwrap()
        }
    };
    assert_eq!(of(1).await.len(), 8);
    assert_eq!(of(1).await, of(1).await);
    assert_ne!(of(1).await, of(2).await);
}

#[tokio::test(start_paused = true)]
async fn archives_and_compressed_files_come_back_as_they_were() {
    let made = "mkdir -p /a/b; echo one > /a/b/1; echo two > /a/2; ";
    let rows = [
        (
            "tar cf - /a | tar xmf - -C /tmp; find /tmp; cat /tmp/a/b/1",
            "tar: removing leading '/' from member names\n/tmp\n/tmp/a\n/tmp/a/2\n/tmp/a/b\n/tmp/a/b/1\none\n",
            0,
        ),
        (
            "tar -czvf /tmp/a.tgz -C /a b 2; tar tzf /tmp/a.tgz; tar -xOf /tmp/a.tgz 2",
            "b\nb/1\n2\nb\nb/1\n2\ntwo\n",
            0,
        ),
        (
            "cd /tmp; tar cf x.tar -C / a; tar xf x.tar --strip-components=1 a/b; cat b/1; ls",
            "one\nb\nx.tar\n",
            0,
        ),
        (
            "tar cf - /none | wc -c",
            "tar: removing leading '/' from member names\n\
             tar: none: No such file or directory\n\
             tar: error exit delayed from previous errors\n1024\n",
            0,
        ),
        ("tar xf /a/2", "tar: short read\n", 1),
        ("tar f", "tar: option requires an argument -- 'f'\n", 1),
        ("tar cf /x.tar", "tar: empty archive\n", 1),
        (
            "gzip /a/2; ls /a; zcat /a/2.gz; gunzip /a/2.gz; cat /a/2",
            "2.gz\nb\ntwo\ntwo\n",
            0,
        ),
        (
            "echo hi | gzip -c | gzip -d; gzip -k /a/2; ls /a",
            "hi\n2\n2.gz\nb\n",
            0,
        ),
        ("gunzip /a/2", "gunzip: /a/2: unknown suffix - ignored\n", 1),
        ("zcat /a/2", "zcat: invalid magic\n", 1),
        ("gzip /a/3", "gzip: /a/3: No such file or directory\n", 1),
    ];
    for (script, output, code) in rows {
        let script = format!("{made}{script}");
        let expected = (output.to_owned(), code);
        assert_eq!(sh(&container(), &script).await, expected, "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_machine_describes_itself() {
    let rows = [
        ("date", "Fri Jan  2 03:04:05 UTC 2026\n", 0),
        ("date +%s", "1767323045\n", 0),
        ("date -u -d 2026-03-04 +%F", "2026-03-04\n", 0),
        ("date -d @0 +%s; date -d 10:00 +%T", "0\n10:00:00\n", 0),
        ("date -Iseconds", "2026-01-02T03:04:05+00:00\n", 0),
        ("date foo", "date: invalid date 'foo'\n", 1),
        ("date -d tomorrow", "date: invalid date 'tomorrow'\n", 1),
        (
            "date 010203042026",
            "date: can't set date: Operation not permitted\n",
            1,
        ),
        (
            "uptime",
            " 03:04:05 up 1 day, 0 min,  0 users,  load average: 0.00, 0.00, 0.00\n",
            0,
        ),
        ("which sh /bin/tar", "/bin/sh\n/bin/tar\n", 0),
        ("which ls nginx", "/bin/ls\n", 1),
    ];
    for (script, output, code) in rows {
        let expected = (output.to_owned(), code);
        assert_eq!(sh(&container(), script).await, expected, "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn following_a_file_shows_what_is_added() {
    let container = container();
    container
        .files
        .write("/data/log", b"one\ntwo\n", false)
        .unwrap();
    let argv = ["tail", "-n", "1", "-f", "/data/log"].map(str::to_owned);
    let (process, running) = container.process(argv.to_vec(), ExecOptions::default());
    let reading = async {
        let mut read = Vec::new();
        for _ in 0..2 {
            read.push(process.output.read().await.unwrap().1);
        }
        read
    };
    let writing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        container
            .files
            .write("/data/log", b"three\n", true)
            .unwrap();
    };
    let following = async { tokio::join!(reading, writing).0 };
    tokio::select! {
        _ = running => panic!("it goes on"),
        read = following => assert_eq!(read, ["two\n", "three\n"]),
    }
    let argv = ["tail", "-f", "/dev/null"].map(str::to_owned);
    let (_, idle) = container.process(argv.to_vec(), ExecOptions::default());
    let day = Duration::from_secs(24 * 3600);
    assert!(tokio::time::timeout(day, idle).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn processes_are_listed() {
    let listed = "PID   USER     TIME  COMMAND\n    1 root      0:00 sleep 1h\n    2 root      0:00 ps -ef\n";
    assert_eq!(sh(&container(), "ps -ef").await, (listed.to_owned(), 0));
}

#[tokio::test]
async fn programs_are_those_that_can_be_run() {
    let mut sorted = PROGRAMS.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, PROGRAMS);
    for name in PROGRAMS {
        let (_, running) = container().process(vec![(*name).to_owned()], ExecOptions::default());
        assert!(running.await.is_some(), "{name}");
    }
    assert!(is_program("/usr/bin/tar") && !is_program("/opt/tar") && !is_program("cd"));
}

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

/// Reports whether a future is still running after a minute.
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
    let (process, running) = container().process(
        argv,
        ExecOptions {
            stdin: true,
            tty: false,
        },
    );
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

/// A process that receives no SIGTERM.
fn no_sigterm() -> Sigterm {
    watch::channel(None).1
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
    let (_, lines) = tokio::join!(
        container.run(
            argv.to_vec(),
            Typing::of(Input::empty()),
            &log,
            no_sigterm()
        ),
        follow
    );
    assert_eq!(lines, (Bytes::from("late\n"), Bytes::from("rest"), true));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_the_image_lacks_is_distinguished() {
    let log = Arc::new(Log::default());
    assert_eq!(
        container()
            .run(
                vec!["nginx".to_owned()],
                Typing::of(Input::empty()),
                &log,
                no_sigterm()
            )
            .await,
        None
    );
    assert_eq!(
        container()
            .run(
                vec!["/bin/true".to_owned()],
                Typing::of(Input::empty()),
                &log,
                no_sigterm()
            )
            .await,
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
        assert_eq!(
            container
                .run(argv(script), Typing::of(Input::empty()), &log, no_sigterm())
                .await,
            code,
            "{script}"
        );
    }
}
