//! Work on all processors.

use parking_lot::Mutex;

/// What `work` makes of each of `jobs`, in their order; a thread for each processor.
pub(super) fn each<J: Send, R: Send>(jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    at_once(threads, jobs, work)
}

/// The same with so many threads.
pub(super) fn at_once<J: Send, R: Send>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let squares = each((0..100_u32).collect(), |job| job * job);
        assert_eq!(squares, (0..100).map(|job| job * job).collect::<Vec<_>>());
    }
}
