//! Chooses the mutant of a run: `cargo xtask mutants` adds this module to `kubeproof-runtime`.

use std::io::Write as _;
use std::sync::LazyLock;

/// The environment variable with the number of the mutant that is active.
const ACTIVE: &str = "KUBEPROOF_MUTANT";
/// The environment variable with the file that the numbers of reached mutants are written to, one a line.
const REACHED: &str = "KUBEPROOF_REACHED";

/// How this process treats mutants.
enum Mode {
    /// One is active. No mutant has the number 0.
    Active(u32),
    /// None is active, and those that are reached are written down.
    Record(parking_lot::Mutex<Reached>),
}

struct Reached {
    known: std::collections::BTreeSet<u32>,
    file: std::fs::File,
}

static MODE: LazyLock<Mode> = LazyLock::new(|| {
    if let Some(path) = std::env::var_os(REACHED) {
        let file = std::fs::File::create(path).expect("the file for reached mutants can be made");
        let known = std::collections::BTreeSet::new();
        return Mode::Record(parking_lot::Mutex::new(Reached { known, file }));
    }
    let active = std::env::var(ACTIVE).ok();
    let active = active.map(|number| number.parse().expect("a mutant has a number"));
    Mode::Active(active.unwrap_or(0))
});

/// Returns whether the mutant of this number is active. It counts as reached from now on.
#[inline]
pub fn is(mutant: u32) -> bool {
    match &*MODE {
        Mode::Active(active) => *active == mutant,
        Mode::Record(reached) => {
            let mut reached = reached.lock();
            if reached.known.insert(mutant) {
                let written = writeln!(reached.file, "{mutant}");
                written.expect("reached mutants can be written");
            }
            false
        }
    }
}
