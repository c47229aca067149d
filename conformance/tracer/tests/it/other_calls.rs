//! Tests of system calls that programs of Rust do not make: perl makes them by number.

use std::process::{Command, Stdio};

use crate::tests::{Running, Tested};

/// Prints the time of the beginning, and after each of several waits the seconds since then, and the error that the wait returns.
const WAITS: &str = r#"
sub hour { pack("q2", 3600, 0) }
sub passed { my $error = $_[0] < 0 ? " $!" : ""; print time - $^T, "$error\n"; }
print "$^T\n";
passed(syscall(23, 0, 0, 0, 0, hour()));
passed(select(undef, undef, undef, 3600));
my $file = syscall(291, 0);
passed(syscall(441, $file, my $events = "\0" x 12, 1, hour(), 0, 8));
my $signals = pack("Q", 1 << 9);
passed(syscall(128, $signals, 0, hour(), 8));
my $word = pack("L", 7);
my $waiter = pack("QQLL", 7, unpack("Q", pack("P", $word)), 2 | 128, 0);
my $until = pack("q2", time + 3600, 0);
passed(syscall(449, $waiter, 1, 0, $until, 0));
"#;
const WAITED: &str = "\
1767225600
3600
7200
10800
14400 Resource temporarily unavailable
18000 Connection timed out
";

/// Sets timers of several kinds; prints what is left of each, and the seconds until it goes off.
const TIMERS: &str = r#"
my $gone;
$SIG{ALRM} = sub { $gone = time - $^T; };
my $spec = "\0" x 32;
sub left { my @spec = unpack("q4", $spec); print "$_[0] ", join(" ", @spec[0, 2]), "\n"; }
alarm 60; sleep 3600; print "alarm after $gone\n";
alarm 60; my $left = alarm 0; print "alarm had $left\n";
my $set = pack("q4", 0, 0, 90, 0);
syscall(38, 0, $set, 0) == 0 or die; syscall(36, 0, $spec); left("interval"); sleep 3600; print "interval after $gone\n";
my $id = pack("l", 0);
syscall(222, 1, 0, $id) == 0 or die;
$id = unpack("l", $id);
$set = pack("q4", 600, 0, 120, 0);
syscall(223, $id, 0, $set, 0) == 0 or die; syscall(224, $id, $spec); left("timer"); sleep 3600; print "timer after $gone\n";
syscall(224, $id, $spec); left("timer"); print "overrun ", syscall(225, $id), "\n";
syscall(226, $id) == 0 or die; syscall(224, $id, $spec) < 0 or die; print "deleted: $!\n";
my $now = pack("q2", 0, 0);
syscall(96, $now, 0) == 0 or die; my ($seconds) = unpack("q2", $now); print $seconds - $^T, "\n";
print syscall(201, 0) - $^T, "\n";
"#;
const TIMED: &str = "\
alarm after 60
alarm had 60
interval 0 90
interval after 150
timer 600 120
timer after 270
timer 600 599
overrun 0
deleted: Invalid argument
270
270
";

/// Calls without a place for the result, and calls for timers that there are not.
const ERRORS: &str = r#"
sub told { my $result = syscall($_[1], @_[2 .. $#_]); print "$_[0] ", $result < 0 ? "$!" : $result, "\n"; }
told("clock_gettime", 228, 1, 0);
told("getrandom", 318, 0, 16, 0);
told("getrandom of nothing", 318, 0, 0, 0);
told("getitimer", 36, 0, 0);
told("gettimeofday", 96, 0, 0);
told("setitimer", 38, 0, pack("q4", 0, 0, 0, 0), 0);
told("timer_gettime", 224, 0x40000099, 0);
told("timer_getoverrun", 225, 0x40000099);
told("timerfd_gettime", 287, 99, 0);
"#;
const REFUSED: &str = "\
clock_gettime Bad address
getrandom Bad address
getrandom of nothing 0
getitimer Bad address
gettimeofday 0
setitimer 0
timer_gettime Invalid argument
timer_getoverrun Invalid argument
timerfd_gettime Bad file descriptor
";

/// Waits for a minute for a lock that the parent holds; a signal comes after half of it, and the kernel goes on whatever the handler.
const LOCK: &str = r#"
$SIG{ALRM} = sub { print "handled\n"; };
my $lock = pack("L", getppid);
my $until = pack("q2", time + 60, 0);
alarm 30;
my $result = syscall(202, $lock, 6, 0, $until, 0, 0);
print "$!\n" if $result < 0;
print time - $^T, "\n";
"#;
const LOCKED: &str = "\
handled
Connection timed out
60
";

/// Runs perl, not traced. Returns false, and prints a message, where perl does not exist.
pub(crate) fn perl(arguments: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
    if !is_there("perl") {
        return Ok(false);
    }
    let status = Command::new("perl").arg("-e").args(arguments).status()?;
    assert!(status.success(), "{status}");
    Ok(true)
}

fn is_there(program: &str) -> bool {
    let mut asked = Command::new(program);
    let asked = asked.arg("--version").stdout(Stdio::null()).status();
    let is_there = asked.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("{program} is missing: skipped");
    }
    is_there
}

/// Runs a command under virtual time, if the program is there that it needs, and compares what it prints.
#[track_caller]
fn prints(needed: &str, command: &[&str], expected: &str) -> Tested {
    if is_there(needed) {
        let (printed, code, _) = Running::start(command)?.live()?;
        assert_eq!((printed.as_str(), code), (expected, Some(0)));
    }
    Ok(())
}

pub(crate) fn waits() -> Tested {
    prints("perl", &["perl", "-e", WAITS], WAITED)
}

pub(crate) fn timers() -> Tested {
    prints("perl", &["perl", "-e", TIMERS], TIMED)
}

pub(crate) fn errors() -> Tested {
    prints("perl", &["perl", "-e", ERRORS], REFUSED)
}

pub(crate) fn lock() -> Tested {
    let script = "perl -e \"$0\"; exit $?";
    prints("perl", &["sh", "-c", script, LOCK], LOCKED)
}

/// Prints the seconds twice, after a day and a half second the hundredths, and the seconds of the other clock.
const CLOCKS: &str = r#"
LC_ALL=C
echo ${EPOCHREALTIME%.*} $EPOCHSECONDS
sleep 86400.5
now=$EPOCHREALTIME
echo ${now%.*} $((10#${now#*.} / 10000)) $EPOCHSECONDS
"#;

/// The code that replaces the kernel's for readings of clocks by the C library.
pub(crate) fn bash() -> Tested {
    let expected = "1767225600 1767225600\n1767312000 50 1767312000\n";
    prints("bash", &["bash", "-c", CLOCKS], expected)
}
