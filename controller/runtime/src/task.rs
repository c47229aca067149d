//! Work that runs on another thread than its caller, where there are several.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::RwLock;
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

/// Runs work in tasks; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// Read by each task until it has ended.
    running: Arc<RwLock<()>>,
}

impl Tasks {
    /// Runs `work` as a task of its own if the runtime has several threads. On one thread it runs in place, because
    /// tasks of their own would only take turns in another order.
    ///
    /// A panic of `work` is passed on.
    ///
    /// Cancel safety: dropping the call ends `work` at its next await, which another thread may still be on its way
    /// to; see [`Tasks::ended`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        if !has_threads() {
            return work.await;
        }
        let running = Arc::clone(&self.running).read_owned().await;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            work.await;
            drop(running);
        });
        if let Some(Err(error)) = tasks.join_next().await
            && error.is_panic()
        {
            resume_unwind(error.into_panic());
        }
    }

    /// Waits until all tasks have ended whose calls are over.
    pub async fn ended(&self) {
        drop(self.running.write().await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

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

    /// The task of the caller and the one in which work runs.
    async fn task_ids() -> (Option<task::Id>, Option<task::Id>) {
        let seen = Arc::new(Mutex::new(None));
        let seen_by_work = Arc::clone(&seen);
        let work = async move { *seen_by_work.lock() = task::try_id() };
        Tasks::default().beside(work).await;
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
        let tasks = Tasks::default();
        let work = tasks.beside(async { panic!("of the work") });
        let ended = with_threads().block_on(std::panic::AssertUnwindSafe(work).catch_unwind());
        assert_eq!(ended.unwrap_err().downcast_ref(), Some(&"of the work"));
    }

    #[test]
    fn work_ends_with_the_call_and_can_be_awaited() {
        let (tasks, begun) = (Tasks::default(), Arc::new(Notify::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (guard, begins) = (SetOnDrop(Arc::clone(&ended)), Arc::clone(&begun));
        let work = async move {
            let _guard = guard;
            begins.notify_one();
            std::future::pending::<()>().await;
        };
        with_threads().block_on(async {
            tokio::select! {
                () = tasks.beside(work) => unreachable!("the work is pending"),
                () = begun.notified() => {}
            }
            tasks.ended().await;
            assert!(ended.load(Ordering::Acquire));
        });
    }

    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
}
