//! Every recorded case is a test of its own, named `group/case`.
//!
//! With `UPDATE_EXCHANGES=1` in the environment nothing is tested: the list of divergences and the
//! table of `docs/fidelity.md` are written anew.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubeproof::exchange::{
    Divergences, Exchange, RecordedFile, Summary, compare, recorded_dir, replay_in_process,
};
use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::Mutex;

fn main() {
    let arguments = Arguments::from_args();
    let files = RecordedFile::read_all(&recorded_dir()).expect("the recordings can be read");
    let divergences = Divergences::read(&list_path()).expect("the list can be read");
    if std::env::var_os("UPDATE_EXCHANGES").is_some() {
        return update(&files, divergences);
    }
    let list = Arc::new(divergences);
    let mut trials = Vec::new();
    for file in &files {
        for exchange in &file.exchanges {
            let id = file.id(&exchange.case);
            let (exchange, list) = (exchange.clone(), Arc::clone(&list));
            let trial = Trial::test(id.clone(), move || check(&exchange, list.reason(&id)));
            trials.push(trial);
        }
    }
    let files = Arc::new(files);
    let (of_list, of_table) = (Arc::clone(&files), Arc::clone(&files));
    let (listed, counted) = (Arc::clone(&list), Arc::clone(&list));
    trials.push(Trial::test(
        "every_divergence_is_of_a_case_and_explained",
        move || check_list(&of_list, &listed),
    ));
    trials.push(Trial::test("the_page_has_the_numbers", move || {
        check_page(&of_table, &counted)
    }));
    trials.push(Trial::test(
        "the_files_are_written_as_they_were_read",
        move || check_files(&files),
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn list_path() -> PathBuf {
    recorded_dir().join("DIVERGES")
}

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fidelity.md")
}

fn readme_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

/// Replays a case; it must be equal unless a reason is listed, and must not be if one is.
fn check(exchange: &Exchange, reason: Option<&str>) -> Result<(), Failed> {
    let got = replay_in_process(&exchange.case)?;
    let differences = compare(&exchange.want, &got);
    match reason {
        None if differences.is_empty() => Ok(()),
        None => Err(described(&differences).into()),
        Some(reason) if differences.is_empty() => Err(format!(
            "equal now, but listed: {reason}\nremove it from fixtures/recorded/DIVERGES"
        )
        .into()),
        Some(_) => Ok(()),
    }
}

fn described(differences: &[kubeproof::exchange::Difference]) -> String {
    let places = differences.iter().flat_map(|difference| {
        let step = difference.step;
        let places = difference.places.iter();
        places.map(move |place| format!("step {step} {place}\n"))
    });
    places.collect()
}

fn check_list(files: &[RecordedFile], divergences: &Divergences) -> Result<(), Failed> {
    let mut seen = BTreeSet::new();
    for file in files {
        for exchange in &file.exchanges {
            let id = file.id(&exchange.case);
            if !seen.insert(id.clone()) {
                return Err(format!("{id} is there twice").into());
            }
        }
    }
    let unknown: Vec<&str> = divergences
        .cases()
        .filter(|id| !seen.contains(*id))
        .collect();
    let unexplained: Vec<&str> = divergences.unexplained().collect();
    if unknown.is_empty() && unexplained.is_empty() {
        return Ok(());
    }
    Err(format!("no such case: {unknown:?}\nwithout a reason: {unexplained:?}").into())
}

fn check_page(files: &[RecordedFile], divergences: &Divergences) -> Result<(), Failed> {
    let page = std::fs::read_to_string(page_path())?;
    let summary = Summary::new(files, divergences);
    let expected = summary.written_into(&page)?;
    let cases: usize = files.iter().map(|file| file.exchanges.len()).sum();
    let equal = cases - divergences.cases().count();
    let sum = format!("[{equal} of {cases} equal]");
    if !std::fs::read_to_string(readme_path())?.contains(&sum) {
        return Err(format!("README.md does not say {sum}").into());
    }
    if page == expected {
        return Ok(());
    }
    Err(
        "the table is out of date; run UPDATE_EXCHANGES=1 cargo test -p kubeproof --test exchanges"
            .into(),
    )
}

fn check_files(files: &[RecordedFile]) -> Result<(), Failed> {
    for file in files {
        let written: String = file.exchanges.iter().map(Exchange::line).collect();
        let read = std::fs::read_to_string(&file.path)?;
        let line = read.lines().zip(written.lines()).position(|(a, b)| a != b);
        if read != written {
            return Err(format!("{}: line {line:?} changes", file.path.display()).into());
        }
    }
    Ok(())
}

/// Replays all cases, a thread for each processor, and writes the results.
fn update(files: &[RecordedFile], mut divergences: Divergences) {
    let all = files.iter().flat_map(|file| {
        let exchanges = file.exchanges.iter();
        exchanges.map(|exchange| (file.id(&exchange.case), exchange))
    });
    let waiting: Mutex<VecDeque<(String, &Exchange)>> = Mutex::new(all.collect());
    let differing = Mutex::new(BTreeSet::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((id, exchange)) = waiting.lock().pop_front() else {
                        return;
                    };
                    let got = replay_in_process(&exchange.case).expect("there is a runtime");
                    if !compare(&exchange.want, &got).is_empty() {
                        differing.lock().insert(id);
                    }
                }
            });
        }
    });
    divergences.update(&differing.into_inner());
    std::fs::write(list_path(), divergences.text()).expect("the list can be written");
    let page = std::fs::read_to_string(page_path()).expect("the page can be read");
    let summary = Summary::new(files, &divergences);
    let page = summary
        .written_into(&page)
        .expect("it has a place for the table");
    std::fs::write(page_path(), page).expect("the page can be written");
    print!("{}", summary.markdown());
}
