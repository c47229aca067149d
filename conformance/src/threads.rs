//! Work on all processors.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;

/// Work pauses when this many results wait to be reported.
const PENDING_MAX: usize = 64;

/// Runs `work` on each of `jobs` on this many threads; returns the results in the order of the jobs.
pub fn at_once<J: Send, R: Send>(
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let waiting = Mutex::new(jobs.into_iter().zip(&mut results));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((job, result)) = waiting.lock().next() else {
                        return;
                    };
                    *result = Some(work(job));
                }
            });
        }
    });
    drop(waiting);
    results.into_iter().flatten().collect()
}

/// Runs `work` on `jobs`, which are made as they are needed, on this many threads. `report` receives the results in the
/// order of the jobs, each as soon as its predecessors are done, until it returns `Break`.
pub fn in_order<J: Send, R: Send, B>(
    threads: usize,
    jobs: impl Iterator<Item = J> + Send,
    work: impl Fn(J) -> R + Sync,
    mut report: impl FnMut(R) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let waiting = Mutex::new(jobs.enumerate());
    let (sender, results) = sync_channel(PENDING_MAX);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, waiting, work) = (sender.clone(), &waiting, &work);
            scope.spawn(move || {
                loop {
                    let Some((place, job)) = waiting.lock().next() else {
                        return;
                    };
                    // The receiver is gone when `report` has returned `Break`.
                    if sender.send((place, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut next) = (BTreeMap::new(), 0);
        for (place, result) in results {
            early.insert(place, result);
            while let Some(result) = early.remove(&next) {
                report(result)?;
                next += 1;
            }
        }
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_passed_on_in_order_until_it_breaks_off() {
        let mut passed = Vec::new();
        let all = in_order(
            3,
            0..1000_u32,
            |job| job,
            |result| {
                passed.push(result);
                ControlFlow::<()>::Continue(())
            },
        );
        assert!(all.is_continue());
        assert_eq!(passed, (0..1000).collect::<Vec<_>>());
        let endless = in_order(
            2,
            0_u32..,
            |job| job,
            |result| match result {
                500 => ControlFlow::Break(result),
                _ => ControlFlow::Continue(()),
            },
        );
        assert_eq!(endless, ControlFlow::Break(500));
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let squares = at_once(3, (0..100_u32).collect(), |job| job * job);
        assert_eq!(squares, (0..100).map(|job| job * job).collect::<Vec<_>>());
    }
}
