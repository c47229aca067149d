//! Records controllers that panic or return, and restarts them if restarts are enabled.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The kubelet's delays between the crashes of a container: the first restart is immediate.
const DELAY_FIRST: Duration = Duration::from_secs(10);
const DELAY_MAX: Duration = Duration::from_secs(300);
/// A life of this length makes up for the crashes before it.
const DELAY_RESET: Duration = Duration::from_secs(600);

/// How many ends are held: a controller that crashes for days must not fill the memory.
const HELD_MAX: usize = 64;

/// A controller that has panicked or returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The controller's name, such as `job`; `nodes` for the simulated nodes.
    pub name: &'static str,
    /// The message of its panic; None if it returned.
    pub panic: Option<String>,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.panic {
            Some(panic) => write!(f, "controller {} panicked: {panic}", self.name),
            None => write!(f, "controller {} returned", self.name),
        }
    }
}

/// The first ends of a manager's controllers.
#[derive(Debug, Default)]
pub struct Ends(Mutex<Vec<Ended>>);

impl Ends {
    /// The ends so far, in the order in which they happened.
    pub fn list(&self) -> Vec<Ended> {
        self.0.lock().clone()
    }
}

/// Runs controllers, and notes how they end.
#[derive(Clone, Debug)]
pub struct Supervisor {
    ends: Arc<Ends>,
    restarts: bool,
}

impl Supervisor {
    /// A supervisor that leaves ended what has ended.
    pub fn reporting() -> Self {
        Self {
            ends: Arc::default(),
            restarts: false,
        }
    }

    /// A supervisor that starts again what has ended.
    pub fn restarting() -> Self {
        Self {
            ends: Arc::default(),
            restarts: true,
        }
    }

    /// The ends that it notes.
    pub fn ends(&self) -> Arc<Ends> {
        Arc::clone(&self.ends)
    }

    /// Runs the future that `make` returns; replaces it by a new one at each notification of
    /// `restarted`.
    pub async fn run(
        self,
        name: &'static str,
        restarted: Arc<Notify>,
        make: impl Fn() -> BoxFuture<'static, ()>,
    ) {
        let mut delay = Duration::ZERO;
        loop {
            let began = Instant::now();
            // Each future is new, so a panic leaves no state behind except behind locks, which are
            // not poisoned and guard consistent state.
            let life = AssertUnwindSafe(async { make().await }).catch_unwind();
            let ended = tokio::select! {
                biased;
                () = restarted.notified() => continue,
                ended = life => ended,
            };
            self.note(
                name,
                ended.as_ref().err().map(|panic| panic_message(&**panic)),
            );
            if !self.restarts {
                return ended.unwrap_or_else(|panic| resume_unwind(panic));
            }
            if began.elapsed() >= DELAY_RESET {
                delay = Duration::ZERO;
            }
            tracing::error!(controller = name, ?delay, "starting the controller again");
            tokio::select! {
                biased;
                () = restarted.notified() => {}
                () = sleep(delay) => {}
            }
            delay = (delay * 2).clamp(DELAY_FIRST, DELAY_MAX);
        }
    }

    fn note(&self, name: &'static str, panic: Option<&str>) {
        match panic {
            Some(panic) => tracing::error!(controller = name, panic, "controller panicked"),
            None => tracing::error!(controller = name, "controller returned"),
        }
        let mut ends = self.ends.0.lock();
        if ends.len() < HELD_MAX {
            let panic = panic.map(str::to_owned);
            ends.push(Ended { name, panic });
        }
    }
}

/// The message of a panic; `no message` if its payload is not text.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each life of a controller began, in seconds; every one panics after `lasts`.
    async fn begun(lasts: Duration, until: Duration) -> Vec<u64> {
        let supervisor = Supervisor::restarting();
        let (began, begun) = (Instant::now(), Arc::<Mutex<Vec<u64>>>::default());
        let ends = supervisor.ends();
        let noted = Arc::clone(&begun);
        let lives = supervisor.run("job", Arc::default(), move || {
            noted.lock().push(began.elapsed().as_secs());
            async move {
                sleep(lasts).await;
                panic!("poison");
            }
            .boxed()
        });
        assert!(tokio::time::timeout(until, lives).await.is_err());
        let panicked = Ended {
            name: "job",
            panic: Some("poison".to_owned()),
        };
        assert!(ends.list().iter().all(|ended| *ended == panicked));
        let begun = begun.lock().clone();
        assert!(ends.list().len() + 1 >= begun.len());
        begun
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_is_started_again_as_containers_are() {
        let crashes = begun(Duration::ZERO, Duration::from_secs(1000)).await;
        assert_eq!(crashes, [0, 0, 10, 30, 70, 150, 310, 610, 910]);
        let late = begun(Duration::from_secs(600), Duration::from_secs(2000)).await;
        assert_eq!(late, [0, 600, 1200, 1800]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reporting_supervisor_hides_neither_a_panic_nor_an_early_end() {
        let supervisor = Supervisor::reporting();
        let ends = supervisor.ends();
        let returns = supervisor
            .clone()
            .run("a", Arc::default(), || async {}.boxed());
        returns.await;
        let panics = || async { panic!("poison {}", 1) }.boxed();
        let panics = supervisor.run("b", Arc::default(), panics);
        let task = tokio::spawn(panics);
        assert!(task.await.unwrap_err().is_panic());
        let ended: Vec<String> = ends.list().iter().map(Ended::to_string).collect();
        assert_eq!(
            ended,
            ["controller a returned", "controller b panicked: poison 1"]
        );
    }
}
