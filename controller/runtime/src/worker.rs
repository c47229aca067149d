//! Workers that take keys from a queue and sync them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join, join_all};

use crate::store::ObjectKey;
use crate::sync_error::Error;
use crate::work_queue::WorkQueue;

/// The delay until a sync that is due even without a change.
type Reconciled = Result<Option<Duration>, Error>;

/// A controller whose work is queued by key.
pub trait Reconcile: Sync {
    /// Reconciles the object `key`; returns the delay until a sync that is due even without a
    /// change.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Reconciled> + Send;
}

/// Is called with the key of each sync before it begins.
pub type SyncObserver = Arc<dyn Fn(&ObjectKey) + Send + Sync>;

tokio::task_local! {
    static OBSERVER: SyncObserver;
}

/// Runs `work`; `observer` sees the syncs of the workers in it.
pub fn observed<F: Future>(observer: SyncObserver, work: F) -> impl Future<Output = F::Output> {
    OBSERVER.scope(observer, work)
}

/// [`Reconcile`] as a trait object, so that workers are the same machine code for all controllers. A reconciliation is
/// boxed anyway, as what is joined is moved when it begins and ends.
trait ReconcileBoxed: Sync {
    fn reconcile_boxed<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Reconciled>;
}

impl<R: Reconcile> ReconcileBoxed for R {
    fn reconcile_boxed<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Reconciled> {
        self.reconcile(key).boxed()
    }
}

/// Reconciles keys, at most `workers` at once; what fails is tried again later. Never returns.
pub fn run(
    controller: &impl Reconcile,
    queue: &WorkQueue<ObjectKey>,
    workers: usize,
) -> impl Future<Output = ()> {
    run_workers(controller, queue, workers)
}

async fn run_workers(
    controller: &dyn ReconcileBoxed,
    queue: &WorkQueue<ObjectKey>,
    workers: usize,
) {
    let workers = (0..workers).map(|_| worker(controller, queue));
    join(join_all(workers), queue.run_timers()).await;
}

async fn worker(controller: &dyn ReconcileBoxed, queue: &WorkQueue<ObjectKey>) {
    loop {
        let key = queue.get().await;
        // Nobody need observe.
        let _ = OBSERVER.try_with(|observer| observer(&key));
        match controller.reconcile_boxed(&key).await {
            Ok(requeue_after) => {
                queue.forget(&key);
                if let Some(delay) = requeue_after {
                    queue.add_after(key.clone(), delay);
                }
            }
            Err(error) => {
                tracing::info!(namespace = key.namespace, name = key.name, %error, "sync failed");
                queue.add_rate_limited(key.clone());
            }
        }
        queue.done(&key);
    }
}

/// How many objects, read by a turn of work, are worth a turn of the runtime before it.
const OBJECTS_PER_TURN: usize = 16;
/// From how many objects on a turn of work may wait in time, so long for each object: some times what the work takes.
const OBJECTS_WORTH_TIME: usize = 1_000;
const TIME_PER_OBJECT: Duration = Duration::from_micros(50);
/// How often a wait asks whether it has to end: the answer may read all objects.
const QUESTIONS: u32 = 8;

/// Yields in proportion to the number of `objects` that the next turn of work reads. Near the
/// server, each write of other tasks would otherwise be followed by a turn of that work that reads
/// all objects. Elsewhere the work itself takes the time in which changes gather.
pub async fn debounce(objects: usize) {
    for _ in 0..objects / OBJECTS_PER_TURN {
        tokio::task::yield_now().await;
    }
}

/// Waits before a turn of work that reads very many `objects`, in proportion to their number, and ends the wait once the
/// work `is_urgent`. So one turn takes in the more changes, the more it costs. It does not wait for fewer objects.
///
/// Cancel safety: it has no effect.
pub async fn debounce_until(objects: usize, mut is_urgent: impl FnMut() -> bool) {
    if objects < OBJECTS_WORTH_TIME {
        return;
    }
    let objects = u32::try_from(objects).unwrap_or(u32::MAX);
    let longest = TIME_PER_OBJECT.saturating_mul(objects);
    let deadline = tokio::time::Instant::now() + longest;
    while tokio::time::Instant::now() < deadline && !is_urgent() {
        tokio::time::sleep(longest / QUESTIONS).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_on_very_many_objects_waits_until_it_is_urgent() {
        let waited = async |objects: usize, urgent_after: u32| {
            let began = tokio::time::Instant::now();
            let asked = AtomicU32::new(0);
            let is_urgent = || asked.fetch_add(1, Ordering::Relaxed) >= urgent_after;
            debounce_until(objects, is_urgent).await;
            began.elapsed().as_millis()
        };
        assert_eq!(waited(OBJECTS_WORTH_TIME - 1, u32::MAX).await, 0);
        assert_eq!(waited(20_000, u32::MAX).await, 1_000);
        assert_eq!(waited(20_000, 7).await, 875);
        assert_eq!(waited(5_000, 0).await, 0);
    }
}
