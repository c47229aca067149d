//! The order of functions in a program: those that it executes lie next to one another.
//!
//! A kernel loads and maps a program in pieces of up to 64 KiB. Without an order each piece holds a few functions that are
//! executed among many that are not, and a program that just waits takes several times the memory of its working set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The functions that were executed, by symbol.
pub(super) type Executed = BTreeMap<String, Counts>;

/// How often the parts of a function were executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The number of parts, which grows with the size of the function.
    parts: usize,
    /// The count of the part that was executed most often.
    most: u64,
}

/// Reads what `llvm-profdata show --all-functions --counts` prints. Functions that were never executed are left out.
pub(super) fn executed(shown: &str) -> Executed {
    let mut executed = Executed::new();
    let mut symbol = None;
    for line in shown.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_suffix(':') {
            // A function that one object file has for itself is named after that, too: `FILE;SYMBOL`.
            symbol = name.rsplit(';').next();
        } else if let Some(counts) = line.strip_prefix("Block counts: [")
            && let Some(symbol) = symbol.take()
        {
            let counts = counts.trim_end_matches(']').split(", ");
            let counts: Vec<u64> = counts.filter_map(|count| count.parse().ok()).collect();
            if let Some(most @ 1..) = counts.iter().copied().max() {
                let sum: &mut Counts = executed.entry(symbol.to_owned()).or_default();
                sum.parts = sum.parts.max(counts.len());
                sum.most = sum.most.saturating_add(most);
            }
        }
    }
    executed
}

/// The symbols of all functions executed, a line each.
///
/// First come those of `start`, which a program needs to begin and to wait, then those of `work` alone. Of the former, those
/// that `work` executes most often are the first, and of the latter the smallest: the compiler keeps one of several equal
/// functions, so what the program needs to begin may have the name of another function, and functions that are equal are
/// small.
pub(super) fn order(start: &Executed, work: &Executed) -> String {
    let symbols: BTreeSet<&String> = start.keys().chain(work.keys()).collect();
    let mut symbols = Vec::from_iter(symbols);
    symbols.sort_by_key(|symbol| {
        let counts = work.get(*symbol).copied().unwrap_or_default();
        let begins = start.contains_key(*symbol);
        let size = if begins { 0 } else { counts.parts };
        (!begins, size, Reverse(counts.most))
    });
    symbols.iter().flat_map(|symbol| [symbol, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_with_the_counts_of_their_most_frequent_parts() {
        let shown = "\
Counters:
  _RNvCs1_4main4idle:
    Hash: 0x0000000000000018
    Counters: 2
    Block counts: [0, 0]
  lib.2c-cgu.0;_ZN4main4work17h0E:
    Hash: 0x0000000000000fff
    Counters: 3
    Block counts: [2, 12, 0]
  bin.7a-cgu.0;_ZN4main4work17h0E:
    Hash: 0x0000000000000fff
    Counters: 1
    Block counts: [30]
Instrumentation level: IR  entry_first = 0  instrument_loop_entries = 0
Functions shown: 3
Total functions: 3
Maximum function count: 30
";
        let expected = Executed::from([(
            "_ZN4main4work17h0E".to_owned(),
            Counts { parts: 3, most: 42 },
        )]);
        assert_eq!(executed(shown), expected);
    }

    #[test]
    fn a_program_begins_with_what_it_needs_to_start() {
        let of = |functions: &[(&str, usize, u64)]| -> Executed {
            let functions = functions.iter();
            functions
                .map(|(name, parts, most)| {
                    (
                        (*name).to_owned(),
                        Counts {
                            parts: *parts,
                            most: *most,
                        },
                    )
                })
                .collect()
        };
        let start = of(&[("begin", 1, 1), ("wait", 1, 2), ("send", 9, 3)]);
        let work = of(&[
            ("apply", 5, 500),
            ("begin", 1, 1),
            ("drop", 1, 7),
            ("fail", 5, 2),
            ("send", 9, 900),
        ]);
        assert_eq!(
            order(&start, &work),
            "send\nbegin\nwait\ndrop\napply\nfail\n"
        );
    }
}
