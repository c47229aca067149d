//! Work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// Does the work of each index on `jobs` threads, and hands the results to `done` on this thread as they come.
///
/// # Errors
/// The error of `done`, after which no more work is begun.
pub(crate) fn each<T: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let (send, receive) = sync_channel(jobs);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let send = send.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || send.send((index, work(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut results = receive.into_iter();
        results.try_for_each(|(index, result)| done(index, result))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_worked_on_once_and_an_error_ends_the_work() {
        let mut sum = 0;
        let add = |_, result: usize| {
            sum += result;
            Ok(())
        };
        each(100, 3, |index| index, add).unwrap();
        assert_eq!(sum, 4950);
        let mut seen = 0;
        let fail = |_, ()| {
            seen += 1;
            anyhow::bail!("enough")
        };
        assert!(each(1000, 2, |_| (), fail).is_err());
        assert_eq!(seen, 1);
    }
}
