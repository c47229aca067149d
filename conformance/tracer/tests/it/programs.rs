//! The traced programs. Each prints lines, with times in whole seconds since it began.
#![expect(
    clippy::disallowed_methods,
    reason = "the programs read clocks and sleep as any program does"
)]

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_gettime, timerfd_settime,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The argument before the name of a program.
pub(crate) const ROLE: &str = "tracee";

/// The number of the program's threads in a test of many.
const SLEEPERS: u64 = 40;
/// A limit of files that the tracer of [`SLEEPERS`] threads exceeds.
const FILES_MAX: u64 = 64;
/// The number of the system call.
const PIDFD_GETFD: i64 = 438;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Runs the program of that name.
pub(crate) fn run(name: &str) {
    match name {
        "clocks" => clocks(),
        "sleeps" => sleeps(),
        "threads" => threads(),
        "locks" => locks(),
        "tokio" => tokio_tasks(),
        "timers" => timers(),
        "polls" => polls(),
        "children" => children(),
        "spins" => spins(),
        "takes-turns" => takes_turns(),
        "computes" => computes(),
        "races" => races(),
        "spins-for-another" => spins_for_another(),
        "sleepers" => sleepers(),
        "limited" => limited(None),
        "limited-for-good" => limited(Some(FILES_MAX)),
        "denied" => denied(),
        "closes" => closes(),
        "closes-by-executing" => closes_by_executing(),
        "passes-on" => passes_on(),
        "random" => println!("{}", std::hash::RandomState::new().hash_one(1)),
        "traces" => println!(
            "{}",
            kubeproof_tracer::check().expect_err("it is traced already")
        ),
        _ => panic!("there is no program {name}"),
    }
}

/// Four threads note in which order they come, and meet from time to time.
fn races() {
    let (order, meeting) = (Mutex::new(String::new()), Barrier::new(4));
    std::thread::scope(|scope| {
        for name in ['a', 'b', 'c', 'd'] {
            let (order, meeting) = (&order, &meeting);
            scope.spawn(move || {
                for _ in 0..20 {
                    meeting.wait();
                    for _ in 0..5 {
                        order.lock().push(name);
                        (0..5_000).for_each(|_| std::hint::spin_loop());
                    }
                }
            });
        }
    });
    println!("{}", order.into_inner());
}

/// A thread computes until another one, which has just begun, says that it is enough.
fn spins_for_another() {
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| is_enough.store(true, Ordering::Release));
        while !is_enough.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    println!("enough");
}

fn clocks() {
    let since_epoch = || SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    let first = since_epoch();
    println!("{}", first.as_secs());
    let (one, two) = (Instant::now(), Instant::now());
    println!("{}", two > one);
    std::thread::sleep(DAY);
    println!("{}", (since_epoch() - first).as_secs());
    println!("{}", one.elapsed().as_secs());
}

fn sleeps() {
    let began = Instant::now();
    for length in [Duration::from_millis(1), HOUR, DAY] {
        std::thread::sleep(length);
        println!("{}", began.elapsed().as_secs());
    }
}

/// Threads that end in the order of their sleeps, whatever the order of their beginnings.
fn threads() {
    let began = Instant::now();
    let (ended, ends) = mpsc::sync_channel(9);
    for hours in [3, 1, 2] {
        let ended = ended.clone();
        std::thread::spawn(move || {
            std::thread::sleep(hours * HOUR);
            ended.send(hours).expect("main waits");
        });
    }
    for hours in ends.iter().take(3) {
        println!("{hours} after {}", began.elapsed().as_secs());
    }
    let nothing = ends.recv_timeout(DAY).is_err();
    println!("nothing {nothing} after {}", began.elapsed().as_secs());
}

/// A condition that comes before the end of the wait, and one that does not come.
fn locks() {
    let began = Instant::now();
    let pair = Arc::new((std::sync::Condvar::new(), std::sync::Condvar::new()));
    #[expect(
        clippy::disallowed_types,
        reason = "it waits by another way than parking_lot's"
    )]
    let mutex = Arc::new(std::sync::Mutex::new(()));
    let (own, lock) = (Arc::clone(&pair), Arc::clone(&mutex));
    let other = std::thread::spawn(move || {
        std::thread::sleep(HOUR);
        drop(lock.lock());
        own.0.notify_all();
    });
    let guard = mutex.lock().expect("not poisoned");
    let (guard, timed_out) = pair.0.wait_timeout(guard, DAY).expect("not poisoned");
    println!("{} {}", timed_out.timed_out(), began.elapsed().as_secs());
    let (_guard, timed_out) = pair.1.wait_timeout(guard, DAY).expect("not poisoned");
    println!("{} {}", timed_out.timed_out(), began.elapsed().as_secs());
    other.join().expect("it ends");
    // A futex that waits until a time of the monotonic clock.
    let (mutex, never) = (Mutex::new(()), Condvar::new());
    let timed_out = never.wait_for(&mut mutex.lock(), MINUTE).timed_out();
    println!("{timed_out} {}", began.elapsed().as_secs());
}

/// A server that takes an hour, and two clients of different patience.
fn tokio_tasks() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let began = Instant::now();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a socket");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut asked = [0];
                    connection.read_exact(&mut asked).await.expect("a byte");
                    tokio::time::sleep(HOUR).await;
                    // A client without patience is gone.
                    let _ = connection.write_all(b"!").await;
                });
            }
        });
        for patience in [30 * MINUTE, DAY] {
            let mut client = tokio::net::TcpStream::connect(address)
                .await
                .expect("a server");
            client.write_all(b"?").await.expect("a server");
            let mut answer = [0];
            let answered = tokio::time::timeout(patience, client.read_exact(&mut answer)).await;
            println!("{} {}", answered.is_ok(), began.elapsed().as_secs());
        }
    });
}

/// Files of timers: once, again and again, and how much is left.
fn timers() {
    let began = Instant::now();
    let spec = |value: Duration, interval: Duration| Itimerspec {
        it_value: value.try_into().expect("short"),
        it_interval: interval.try_into().expect("short"),
    };
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty());
    let timer = timer.expect("a timer");
    let set = |value, interval| {
        let set = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec(value, interval));
        set.expect("a timer")
    };
    let read = || {
        let mut count = [0; 8];
        rustix::io::read(&timer, &mut count).expect("a count");
        u64::from_ne_bytes(count)
    };
    set(DAY, Duration::ZERO);
    println!("{} {}", read(), began.elapsed().as_secs());
    set(HOUR, 2 * HOUR);
    std::thread::sleep(30 * MINUTE);
    let left = timerfd_gettime(&timer).expect("a timer");
    println!(
        "left {} {}",
        left.it_value.tv_sec / 60,
        left.it_interval.tv_sec
    );
    for _ in 0..3 {
        println!("{} {}", read(), began.elapsed().as_secs());
    }
    let before = set(Duration::ZERO, Duration::ZERO);
    println!("before {}", before.it_value.tv_sec / 60);
    let limit: Timespec = DAY.try_into().expect("short");
    let ready = poll(&mut [PollFd::new(&timer, PollFlags::IN)], Some(&limit));
    println!(
        "ready {} {}",
        ready.expect("a poll"),
        began.elapsed().as_secs()
    );
}

/// Waits for a pipe, whose other end another thread writes to.
fn polls() {
    let began = Instant::now();
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let wait = |length: Duration| {
        let limit: Timespec = length.try_into().expect("short");
        let ready = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&limit));
        println!("{} {}", ready.expect("a poll"), began.elapsed().as_secs());
    };
    wait(Duration::ZERO);
    wait(HOUR);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(HOUR);
            writer.write_all(b"!").expect("a reader");
        });
        wait(DAY);
    });
    (&reader).read_exact(&mut [0]).expect("a byte");
}

/// A child that sleeps for a day.
fn children() {
    let began = Instant::now();
    let slept = std::process::Command::new("sleep").arg("1d").status();
    println!(
        "{} {}",
        slept.expect("a shell").success(),
        began.elapsed().as_secs()
    );
}

/// A loop that only looks at the clock and at a thread that sleeps.
fn spins() {
    let began = Instant::now();
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        began.elapsed().as_millis() >= 20
    });
    while !other.is_finished() {
        let _ = began.elapsed();
    }
    println!("{}", other.join().expect("it ends"));
}

/// A loop without a system call, which ends when another thread has slept often. Go's runtime interrupts goroutines in this way.
fn takes_turns() {
    let began = Instant::now();
    let other = std::thread::spawn(move || {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        began.elapsed().as_millis()
    });
    while !other.is_finished() {
        std::hint::spin_loop();
    }
    println!("{}", other.join().expect("it ends"));
}

/// A thread that computes for some time, of which less passes on the clock; the sleep of another thread goes on meanwhile.
fn computes() {
    let computed = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("short");
    let began = Instant::now();
    let other = std::thread::spawn(|| std::thread::sleep(MINUTE));
    let short = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(1)));
    while computed() < Duration::from_millis(150) {
        std::hint::spin_loop();
    }
    let passed = began.elapsed();
    println!(
        "{} {}",
        passed < Duration::from_millis(100),
        short.is_finished() && !other.is_finished()
    );
    other.join().expect("it ends");
}

/// Threads that sleep for an hour, all of them.
fn sleepers() {
    let began = Instant::now();
    let sleepers: Vec<_> = (0..SLEEPERS)
        .map(|_| std::thread::spawn(|| std::thread::sleep(HOUR)))
        .collect();
    for sleeper in sleepers {
        sleeper.join().expect("it ends");
    }
    println!("{}", began.elapsed().as_secs());
}

/// Traces the program with many threads under a limit of open files, which may be raised up to `maximum`.
fn limited(maximum: Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(FILES_MAX),
        maximum: maximum.or(limit.maximum),
    };
    setrlimit(Resource::Nofile, limit).expect("it is lowered");
    let lived = crate::tests::live("sleepers").expect("a tracer");
    println!("{lived:?}");
}

/// Asks whether tracing works where the files of other processes cannot be shared.
fn denied() {
    let denied = SeccompFilter::new(
        BTreeMap::from([(PIDFD_GETFD, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(1),
        TargetArch::x86_64,
    );
    let denied: BpfProgram = denied.and_then(TryInto::try_into).expect("a filter");
    seccompiler::apply_filter(&denied).expect("a filter");
    let reason = kubeproof_tracer::check().expect_err("it is denied");
    println!("{reason}");
}

/// A file that becomes readable each hour, or whatever the interval is.
fn each(interval: Duration) -> OwnedFd {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
    let timer = timer.expect("a timer");
    let spec = Itimerspec {
        it_value: interval.try_into().expect("short"),
        it_interval: interval.try_into().expect("short"),
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec).expect("a timer");
    timer
}

/// The minutes until a file becomes readable.
fn minutes_left(timer: &OwnedFd) -> i64 {
    timerfd_gettime(timer).expect("a timer").it_value.tv_sec / 60
}

/// A file that is closed while its timer runs, and another one with its number.
fn closes() {
    drop(each(HOUR));
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
    println!("{}", minutes_left(&timer.expect("a timer")));
    std::thread::sleep(DAY);
}

fn closes_by_executing() {
    let _timer = each(HOUR);
    let error = std::process::Command::new("sleep").arg("1d").exec();
    panic!("{error}");
}

/// A file whose first descriptor is closed, and files of closed timers in such numbers that they are looked for.
fn passes_on() {
    let began = Instant::now();
    let first = each(HOUR);
    let timer = first.try_clone().expect("a descriptor");
    drop(first);
    for _ in 0..FILES_MAX {
        drop(each(2 * HOUR));
    }
    println!("{}", minutes_left(&timer));
    rustix::io::read(&timer, &mut [0; 8]).expect("a count");
    println!("{} {}", began.elapsed().as_secs(), minutes_left(&timer));
}
