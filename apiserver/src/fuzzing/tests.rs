//! The entries with mutations of the seeds, the same in each run.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::ENTRIES;

/// How often an entry is run.
fn runs(name: &str) -> u32 {
    match name {
        // Each has a server of its own; definitions are also written into OpenAPI documents.
        "definition" => 10,
        "cel" | "request" => 60,
        _ => 400,
    }
}

/// The tokens that mutations insert into inputs.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ",",
    ":",
    "\n",
    "null",
    "true",
    "-1",
    "1e400",
    "\\",
    "\\u0000",
    "9223372036854775807",
    "-9223372036854775808",
    "0.1",
    "é",
    "..",
    "[*]",
    "[?(@.a==1)]",
    "(",
    ")",
    "!",
    "!=",
    " in ",
    " notin (a,b)",
    "$patch",
    "$retainKeys",
    "/",
    "/-",
    "~1",
    "%2F",
    "?watch=1",
    "&limit=1",
    "&a: *a",
    "<<",
    "self",
    ".all(x, x)",
    "[0]",
    "? 1 : 2",
    " && ",
    "has(",
];

/// The seeds of an entry, in order of their names.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(name);
    let files = std::fs::read_dir(&directory).expect("each entry has seeds");
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no seeds");
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Below `end`, which is not 0.
fn below(rng: &mut ChaCha8Rng, end: usize) -> usize {
    rng.next_u64() as usize % end
}

fn mutate(rng: &mut ChaCha8Rng, input: &mut Vec<u8>, other: &[u8]) {
    let at = below(rng, input.len() + 1);
    let end = (at + below(rng, 9)).min(input.len());
    match below(rng, 6) {
        0 => drop(input.drain(at..end)),
        1 => {
            let token = TOKENS[below(rng, TOKENS.len())];
            drop(input.splice(at..end, token.bytes()));
        }
        2 if at < input.len() => input[at] ^= 1 << below(rng, 8),
        3 => {
            let part = input[at..].to_vec();
            let part = &part[..below(rng, part.len() + 1)];
            drop(input.splice(at..at, part.iter().copied()));
        }
        4 => {
            let from = below(rng, other.len() + 1);
            let to = from + below(rng, other.len() + 1 - from);
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
        _ => input.insert(at, TOKENS[below(rng, TOKENS.len())].as_bytes()[0]),
    }
}

/// How many times as many mutations there are as usual; `cargo xtask ci fuzzing` sets it.
const TIMES: &str = "KUBEPROOF_FUZZ_TIMES";

#[test]
fn no_entry_panics_on_its_seeds_nor_on_mutations_of_them() {
    let times = std::env::var(TIMES).map_or(1, |times| times.parse().expect("a number"));
    // The scope panics when one of its threads did.
    std::thread::scope(|scope| {
        for (name, entry) in ENTRIES {
            scope.spawn(move || {
                let seeds = seeds(name);
                seeds.iter().for_each(|seed| entry(seed));
                mutations(&seeds, runs(name) * times).for_each(|input| entry(&input));
            });
        }
    });
}

/// This many mutations of the seeds, the same in each run.
fn mutations(seeds: &[Vec<u8>], number: u32) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    (0..number).map(move |_| {
        let mut input = seeds[below(&mut rng, seeds.len())].clone();
        let other = &seeds[below(&mut rng, seeds.len())];
        for _ in 0..=below(&mut rng, 4) {
            mutate(&mut rng, &mut input, other);
        }
        input
    })
}
