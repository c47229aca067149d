//! Watches that the informers of several controllers share, as those of client-go do in a `SharedInformerFactory`: the
//! server serves one watch of a resource instead of one for each controller, and each event is read once.
//!
//! Each informer keeps a store of its own. Controllers with a single loop have watches of their own, because they take in
//! events only between two steps.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use kube::Client;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::{Failed, Undecoded, Url, undecoded};

/// The number of events that an informer may be behind. One that is further behind begins a watch of its own.
const BEHIND_MAX: usize = 512;

/// The number of events that may wait for an informer before the watch waits, too.
const WAITING_MAX: usize = 128;

/// The time between two looks at whether the informers have caught up.
const PACE: Duration = Duration::from_millis(1);

/// The number of those looks, after which the watch goes on without an informer that is behind, or ends if one has not
/// heard of a list.
const LOOKS_MAX: usize = 5000;

tokio::task_local! {
    static SHARED: SharedWatches;
}

/// The watches that controllers have together; clones share them.
#[derive(Clone, Debug)]
pub struct SharedWatches {
    /// The watches to come; None once they have begun.
    joinable: Arc<Mutex<Option<Vec<SharedWatch>>>>,
    /// The number of controllers that have not begun yet.
    joining: watch::Sender<usize>,
}

/// The watch of the objects of a URL that `config` selects.
#[derive(Debug)]
struct SharedWatch {
    url: String,
    config: watcher::Config,
    events: broadcast::Sender<Event<Undecoded>>,
}

impl Default for SharedWatches {
    fn default() -> Self {
        Self {
            joinable: Arc::new(Mutex::new(Some(Vec::new()))),
            joining: watch::Sender::new(0),
        }
    }
}

impl SharedWatches {
    /// Runs `work`. The informers that it runs when it is first polled share their watches; later ones have watches of
    /// their own, such as those of a controller that is started again.
    pub fn shared_by<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let joining = Joining::new(&self.joining);
        let shared = self.clone();
        async move {
            let mut work = pin!(work);
            let first = poll_fn(|cx| {
                let poll = || work.as_mut().poll(cx);
                Poll::Ready(SHARED.sync_scope(shared.clone(), poll))
            });
            let first = first.await;
            drop(joining);
            match first {
                Poll::Ready(output) => output,
                Poll::Pending => work.await,
            }
        }
    }

    /// Begins the watches once all work of [`SharedWatches::shared_by`] has been polled, and runs them with `client` for
    /// as long as they have informers.
    pub async fn run(self, client: Client) {
        let mut joining = self.joining.subscribe();
        // The sender lives as long as `self`.
        let _ = joining.wait_for(|joining| *joining == 0).await;
        let watches = self.joinable.lock().take().unwrap_or_default();
        join_all(watches.into_iter().map(|watch| watch.run(client.clone()))).await;
    }

    fn subscribe(
        &self,
        url: &str,
        config: &watcher::Config,
    ) -> Option<broadcast::Receiver<Event<Undecoded>>> {
        let mut joinable = self.joinable.lock();
        let watches = joinable.as_mut()?;
        let known = watches
            .iter()
            .find(|watch| watch.url == url && watch.config == *config);
        if let Some(known) = known {
            return Some(known.events.subscribe());
        }
        let (events, reader) = broadcast::channel(BEHIND_MAX);
        watches.push(SharedWatch {
            url: url.to_owned(),
            config: config.clone(),
            events,
        });
        Some(reader)
    }
}

impl SharedWatch {
    /// Runs until there are no informers, or one does not hear of a list that begins.
    async fn run(mut self, client: Client) {
        let url = Url(mem::take(&mut self.url));
        let mut watched = undecoded(client, &url, self.config.clone());
        let mut looks_left = LOOKS_MAX;
        loop {
            let event = tokio::select! {
                event = watched.next() => event,
                () = self.events.closed() => return,
            };
            let event = match event {
                Some(Ok(event)) => event,
                // It is logged, and the watch begins again.
                Some(Err(Failed)) => continue,
                None => return,
            };
            let is_init = matches!(event, Event::Init);
            if self.events.send(event).is_err() {
                return;
            }
            if is_init {
                // A list has what was written before its informer heard that it begins. So it begins only then.
                let mut looks_left = LOOKS_MAX;
                self.wait_until(0, &mut looks_left).await;
                if !self.events.is_empty() {
                    return;
                }
            }
            self.wait_until(WAITING_MAX, &mut looks_left).await;
            if self.events.len() <= WAITING_MAX {
                looks_left = LOOKS_MAX;
            } else {
                // So that the other informers are not left behind, too.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until at most `waiting_max` events wait for an informer, or no looks are left.
    async fn wait_until(&self, waiting_max: usize, looks_left: &mut usize) {
        while self.events.len() > waiting_max && *looks_left > 0 {
            *looks_left -= 1;
            tokio::time::sleep(PACE).await;
        }
    }
}

/// Counts work as joining until it is dropped.
struct Joining(watch::Sender<usize>);

impl Joining {
    fn new(joining: &watch::Sender<usize>) -> Self {
        joining.send_modify(|joining| *joining += 1);
        Self(joining.clone())
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        self.0.send_modify(|joining| *joining -= 1);
    }
}

/// The events of the shared watch of `url`; None if the work that is polled shares no watches, or is polled again.
///
/// The stream ends when it has missed an event, or the watch has ended.
pub(super) fn subscribe(
    url: &Url,
    config: &watcher::Config,
) -> Option<BoxStream<'static, Event<Undecoded>>> {
    let reader = SHARED.try_with(|shared| shared.subscribe(&url.0, config));
    let events = stream::unfold(reader.ok()??, |mut reader| async {
        match reader.recv().await {
            Ok(event) => Some((event, reader)),
            Err(RecvError::Lagged(_) | RecvError::Closed) => None,
        }
    });
    Some(events.boxed())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::{self, Either, select};
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::task::yield_now;

    use super::super::{Decoded, shared_events};
    use super::*;

    fn map(name: Value) -> Value {
        json!({ "metadata": { "name": name, "resourceVersion": "3" } })
    }

    /// A server without streaming lists that lists what `items` returns for the number of lists before. The first watch
    /// brings a ConfigMap `watched`; the others bring nothing.
    fn server(items: impl Fn(usize) -> Vec<Value> + Send + 'static) -> (Client, Arc<AtomicUsize>) {
        let lists = Arc::new(AtomicUsize::new(0));
        let (counted, mut watches) = (Arc::clone(&lists), 0);
        let answer = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let (mut code, refused) = (200, r#"{"code":422,"message":"no","status":"Failure"}"#);
            let text = if query.contains("sendInitialEvents") {
                code = 422;
                Some(refused.to_owned())
            } else if query.contains("watch") {
                watches += 1;
                let object = map(json!("watched"));
                (watches == 1).then(|| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"))
            } else {
                let items = items(counted.fetch_add(1, Ordering::Relaxed));
                Some(json!({ "metadata": { "resourceVersion": "3" }, "items": items }).to_string())
            };
            let response = text.map(|text| {
                let response = Response::builder().status(code);
                response.body(Body::from(text.into_bytes())).unwrap()
            });
            async {
                match response {
                    Some(response) => Ok::<_, Infallible>(response),
                    None => pending().await,
                }
            }
        });
        (Client::new(answer, "default"), lists)
    }

    fn one_item(_: usize) -> Vec<Value> {
        vec![map(json!("listed"))]
    }

    /// The words of the first `count` events.
    async fn read(client: Client, count: usize) -> Vec<String> {
        let events = shared_events::<ConfigMap>(Api::all(client), watcher::Config::default());
        let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
        let words = events.take(count).map(|event| match event {
            Ok(Event::Init) => "begin".to_owned(),
            Ok(Event::InitApply(map) | Event::Apply(map)) => name(&map),
            Ok(Event::InitDone) => "end".to_owned(),
            Ok(Event::Delete(_)) => "deleted".to_owned(),
            Err(_) => "failed".to_owned(),
        });
        words.collect().await
    }

    /// Runs the shared watches until `work` ends.
    async fn beside<T>(shared: SharedWatches, client: Client, work: impl Future<Output = T>) -> T {
        // They end when their readers have.
        let watches = async {
            shared.run(client).await;
            pending().await
        };
        match select(pin!(work), pin!(watches)).await {
            Either::Left((output, _)) => output,
            Either::Right((never, _)) => never,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_begins_together_shares_a_watch() {
        let (client, lists) = server(one_item);
        let shared = SharedWatches::default();
        let readers = [(); 3].map(|()| shared.shared_by(read(client.clone(), 4)));
        for seen in beside(shared, client, join_all(readers)).await {
            assert_eq!(seen, ["begin", "listed", "end", "watched"]);
        }
        assert_eq!(lists.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn watches_of_other_objects_and_later_ones_are_not_shared() {
        let (client, lists) = server(one_item);
        let shared = SharedWatches::default();
        let later = async {
            yield_now().await;
            read(client.clone(), 3).await
        };
        let labelled = async {
            let config = watcher::Config::default().labels("a=b");
            let events = shared_events::<ConfigMap>(Api::all(client.clone()), config);
            events.take(3).count().await
        };
        let work = future::join3(
            shared.shared_by(read(client.clone(), 3)),
            shared.shared_by(later),
            shared.shared_by(labelled),
        );
        beside(shared, client.clone(), work).await;
        assert_eq!(lists.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_too_far_behind_begins_with_a_list_of_its_own() {
        const MANY: usize = BEHIND_MAX + 100;
        let many = |_| {
            (0..MANY)
                .map(|index| map(json!(index.to_string())))
                .collect()
        };
        let (client, lists) = server(many);
        let shared = SharedWatches::default();
        let slow = async {
            let events =
                shared_events::<ConfigMap>(Api::all(client.clone()), watcher::Config::default());
            let mut events = pin!(events);
            let first = events.next().await;
            tokio::time::sleep(Duration::from_mins(1)).await;
            let begun_again = events.next().await;
            let rest = events.take(MANY + 1).count().await;
            (is_begin(first), is_begin(begun_again), rest)
        };
        let work = future::join(
            shared.shared_by(read(client.clone(), MANY + 2)),
            shared.shared_by(slow),
        );
        let began = tokio::time::Instant::now();
        let (seen, slow) = beside(shared, client.clone(), work).await;
        assert_eq!(seen.last().map(String::as_str), Some("end"));
        assert_eq!(slow, (true, true, MANY + 1));
        assert_eq!(lists.load(Ordering::Relaxed), 2);
        assert_eq!(
            began.elapsed().as_secs(),
            60,
            "the other one did not wait for it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_list_begins_before_each_reader_has_heard_of_it() {
        let (client, lists) = server(one_item);
        let shared = SharedWatches::default();
        let slow = async {
            let api = Api::<Decoded<ConfigMap>>::all(client.clone());
            let events = shared_events(api, watcher::Config::default());
            tokio::time::sleep(Duration::from_mins(1)).await;
            events.take(4).count().await
        };
        let work = future::join(
            shared.shared_by(read(client.clone(), 4)),
            shared.shared_by(slow),
        );
        let (seen, slow) = beside(shared, client.clone(), work).await;
        assert_eq!(seen, ["begin", "begin", "listed", "end"]);
        assert_eq!((slow, lists.load(Ordering::Relaxed)), (4, 2));
    }

    fn is_begin(event: Option<Result<Event<Arc<ConfigMap>>, super::super::Failed>>) -> bool {
        matches!(event, Some(Ok(Event::Init)))
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_object_that_cannot_be_decoded_a_reader_lists_by_itself() {
        let items = |lists| {
            let name = if lists == 0 {
                json!(7)
            } else {
                json!("second")
            };
            vec![map(json!("first")), map(name)]
        };
        let (client, lists) = server(items);
        let shared = SharedWatches::default();
        let reader = shared.shared_by(read(client.clone(), 6));
        let seen = beside(shared, client, reader).await;
        assert_eq!(seen, ["begin", "first", "begin", "first", "second", "end"]);
        assert_eq!(lists.load(Ordering::Relaxed), 2);
    }
}
