//! Work that may run beside its caller.

use std::future::Future;
use std::panic::resume_unwind;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;

/// The number of tasks that the runtime runs at the same time.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn parallelism() -> usize {
    match has_threads() {
        true => Handle::current().metrics().num_workers(),
        false => 1,
    }
}

fn has_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Runs `work` as a task of its own if the runtime has several threads. On one thread it runs in place, because tasks
/// of their own would only take turns in another order.
///
/// A panic of `work` is passed on.
///
/// Cancel safety: dropping the call ends `work` at its next await.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn beside(work: impl Future<Output = ()> + Send + 'static) {
    if !has_threads() {
        return work.await;
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(work);
    if let Some(Err(error)) = tasks.join_next().await
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use futures::FutureExt;
    use parking_lot::Mutex;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;
    use tokio::task;

    use super::*;

    fn with_threads() -> Runtime {
        Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap()
    }

    /// The task in which `work` runs, beside that of the caller.
    async fn task_ids() -> (Option<task::Id>, Option<task::Id>) {
        let seen = Arc::new(Mutex::new(None));
        let seen_by_work = Arc::clone(&seen);
        beside(async move { *seen_by_work.lock() = task::try_id() }).await;
        let inner = *seen.lock();
        (task::try_id(), inner)
    }

    #[test]
    fn only_threads_make_a_task_of_its_own() {
        let one = Builder::new_current_thread().build().unwrap();
        let (caller, inner) = one.block_on(task_ids());
        assert_eq!(caller, inner);
        let (caller, inner) = with_threads().block_on(task_ids());
        assert!(inner.is_some());
        assert_ne!(caller, inner);
    }

    #[test]
    fn so_many_tasks_run_as_there_are_threads() {
        let one = Builder::new_current_thread().build().unwrap();
        assert_eq!(one.block_on(async { parallelism() }), 1);
        assert_eq!(with_threads().block_on(async { parallelism() }), 2);
    }

    #[test]
    fn a_panic_is_passed_on() {
        let work = beside(async { panic!("of the work") });
        let ended = with_threads().block_on(std::panic::AssertUnwindSafe(work).catch_unwind());
        assert_eq!(ended.unwrap_err().downcast_ref(), Some(&"of the work"));
    }

    #[test]
    fn work_ends_with_the_call() {
        let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let guard = NotifyOnDrop(Arc::clone(&ended));
        let begins = Arc::clone(&begun);
        let work = async move {
            let _guard = guard;
            begins.notify_one();
            std::future::pending::<()>().await;
        };
        with_threads().block_on(async {
            tokio::select! {
                () = beside(work) => unreachable!("the work is pending"),
                () = begun.notified() => {}
            }
            ended.notified().await;
        });
    }

    struct NotifyOnDrop(Arc<Notify>);

    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            assert!(!thread::panicking());
            self.0.notify_one();
        }
    }
}
