//! Feeds stores with the events of watches.
//!
//! There are two ways. An [`Informer`](super::informer::Informer) takes in every event at once and
//! calls an event handler, which adds keys to a work queue. A controller with a single loop merges
//! its [`Watches`] instead, and takes in all pending events between two steps: no event changes its
//! stores during a step.
//!
//! Where controllers run on several threads, their informers share [watches](SharedWatches).

mod list_watch;
mod shared;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::decode_cache::{Decoded, Undecoded, Url, try_map};
use super::retry::retry_after;

use list_watch::list_watch;

pub use shared::SharedWatches;

/// The number of watch events that a controller applies before it acts.
const BATCH_EVENTS_MAX: usize = 1024;

/// The seconds that a watch asks for. An idle cluster under virtual time does little but begin watches anew: with kube's
/// 290 seconds that was half of the work of a scenario.
const WATCH_SECONDS: u32 = 3600;

/// The delay of a watch begins anew with the first failure that comes more than this after the watch was made, or after
/// the delay last began anew.
///
/// Source: `defaultBackoffReset` of client-go's reflector. A list that succeeds changes nothing.
const RESET: Duration = Duration::from_secs(120);

/// A failed attempt to list or watch. It is logged, and repeated after a delay.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// The events of a watch of the objects that `config` selects.
///
/// The watch begins with a list. Failures are logged; the delay grows with each failure, up to a reset.
pub fn events<K>(
    api: Api<Decoded<K>>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<Arc<K>>, Failed>> + Send + 'static
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let url = Url(api.resource_url().to_owned());
    let config = config.timeout(WATCH_SECONDS);
    typed(objects(api.into(), url, config, decode::<K>))
}

/// The events of [`events`], of objects that are decoded for the caller alone. A caller that keeps little of each object
/// spends no memory on the rest.
pub fn transient_events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<Arc<K>>, Failed>> + Send + 'static
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let url = Url(api.resource_url().to_owned());
    let config = config.timeout(WATCH_SECONDS);
    typed(objects(api.into(), url, config, decode_anew::<K>))
}

/// The events of [`events`], from a watch that is shared if [`SharedWatches::shared_by`] says so. The stream has to be
/// read at once.
pub(super) fn shared_events<K>(
    api: Api<Decoded<K>>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<Arc<K>>, Failed>> + Send + 'static
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let url = Url(api.resource_url().to_owned());
    let config = config.timeout(WATCH_SECONDS);
    typed(shared_objects(api.into(), url, config, decode::<K>))
}

fn typed<K: Send + Sync + 'static>(
    events: BoxStream<'static, Result<Event<Object>, Failed>>,
) -> impl Stream<Item = Result<Event<Arc<K>>, Failed>> + Send + 'static {
    events.map(|event| {
        let is_k = |object: Object| object.downcast().expect("`decode` makes this type");
        event.and_then(|event| try_map(event, |object| Ok(is_k(object))))
    })
}

fn decode<K>(text: &Undecoded) -> serde_json::Result<Object>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    text.decode::<K>().map(|object| object as Object)
}

fn decode_anew<K>(text: &Undecoded) -> serde_json::Result<Object>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    text.decode_anew::<K>()
        .map(|object| Arc::new(object) as Object)
}

/// An object of the type that a watch is of.
type Object = Arc<dyn Any + Send + Sync>;

/// Decodes an object into the type that a watch is of.
type Decode = fn(&Undecoded) -> serde_json::Result<Object>;

/// The events of [`events`], for all types the same machine code.
fn objects(
    client: Client,
    url: Url,
    config: watcher::Config,
    decode: Decode,
) -> BoxStream<'static, Result<Event<Object>, Failed>> {
    let path = url.0.clone();
    let events = patient(move || {
        list_watch(client.clone(), &url, config.clone()).map(move |event| {
            let undecodable = |error| watcher::Error::WatchFailed(kube::Error::SerdeError(error));
            try_map(event?, |text| decode(&text)).map_err(undecodable)
        })
    });
    logged(events, path)
}

/// The events of [`shared_events`], for all types the same machine code.
fn shared_objects(
    client: Client,
    url: Url,
    config: watcher::Config,
    decode: Decode,
) -> BoxStream<'static, Result<Event<Object>, Failed>> {
    let shared = shared::subscribe(&url, &config);
    let own = move || objects(client, url, config, decode);
    let Some(shared) = shared else {
        return own();
    };
    let decoded = shared.map(move |event| try_map(event, |text| decode(&text)));
    // After an object that cannot be decoded, too, the watch of its own begins with a list.
    let decoded = decoded.take_while(|event| std::future::ready(event.is_ok()));
    let decoded = decoded.map(|event| event.map_err(|_| Failed));
    let own = stream::once(async move { own() }).flatten();
    decoded.chain(own).boxed()
}

/// The events of a watch, before their objects are decoded.
fn undecoded(
    client: Client,
    url: &Url,
    config: watcher::Config,
) -> BoxStream<'static, Result<Event<Undecoded>, Failed>> {
    let (path, url) = (url.0.clone(), url.clone());
    let events = patient(move || list_watch(client.clone(), &url, config.clone()));
    logged(events, path)
}

/// Logs the failures of the watch of `path`.
fn logged<K: Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    path: String,
) -> BoxStream<'static, Result<Event<K>, Failed>> {
    let logged = events.map(move |event| {
        event.map_err(|error| {
            tracing::warn!(resource = path, error = message(&error), "watch failed");
            Failed
        })
    });
    logged.boxed()
}

/// The watches of a controller with a single loop, merged; `U` says what an event is of.
pub struct Watches<U> {
    client: Client,
    streams: SelectAll<BoxStream<'static, U>>,
}

impl<U: Send + 'static> Watches<U> {
    /// No watches yet; those of [`Watches::watch`] will use `client`.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            streams: SelectAll::new(),
        }
    }

    /// Adds a watch of all objects of a kind.
    #[must_use]
    pub fn watch<K>(self, update: fn(Event<Arc<K>>) -> U) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut this = self;
        let events = events(Api::all(this.client.clone()), watcher::Config::default());
        this.push(events.filter_map(move |event| std::future::ready(event.ok().map(update))));
        this
    }

    /// Adds a stream of updates.
    pub fn push(&mut self, updates: impl Stream<Item = U> + Send + 'static) {
        self.streams.push(updates.boxed());
    }

    /// Waits for one update.
    ///
    /// Cancel safety: an update is taken only by the poll that returns it.
    pub async fn next(&mut self) -> U {
        match self.streams.next().await {
            Some(update) => update,
            None => std::future::pending().await,
        }
    }

    /// Waits for one update, then takes the others that are pending.
    ///
    /// Cancel safety: an update is taken only by the poll that returns it.
    pub async fn next_batch(&mut self) -> Vec<U> {
        let mut batch = vec![self.next().await];
        self.drain(&mut batch);
        batch
    }

    /// Takes the pending updates, without waiting.
    pub fn drain(&mut self, batch: &mut Vec<U>) {
        while batch.len() < BATCH_EVENTS_MAX {
            let Some(Some(update)) = self.streams.next().now_or_never() else {
                return;
            };
            batch.push(update);
        }
    }
}

/// The events of the watch that `start` begins, which waits longer after each failure, and begins to do so anew as
/// [`RESET`] says.
///
/// kube's own backoff begins anew with each event. An attempt to list is an event, so a server that is away would be asked
/// every 800 ms for as long as it is.
///
/// After the server was unreachable, another server may answer, whose resourceVersions start anew:
/// the watch then restarts with a list. (Upstream's informers continue from the version they know,
/// and receive nothing until the new server has reached it.)
///
/// It also restarts after an object that cannot be decoded: to go on without it would look like its deletion.
fn patient<K, S>(
    start: impl Fn() -> S + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static
where
    K: Send + 'static,
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
{
    let begin = (start().boxed(), start, Failures::new(), false);
    stream::unfold(
        begin,
        |(mut events, start, mut failures, is_failed)| async move {
            if is_failed {
                tokio::time::sleep(failures.delay()).await;
            }
            let event = events.next().await?;
            if let Err(error) = &event {
                failures.add();
                if is_unreachable(error) || is_undecodable(error) {
                    events = start().boxed();
                }
            }
            let is_failed = event.is_err();
            Some((event, (events, start, failures, is_failed)))
        },
    )
}

/// The failures of a watch since it was made, or since its delay began anew.
struct Failures {
    number: u32,
    since: Instant,
}

impl Failures {
    fn new() -> Self {
        Self {
            number: 0,
            since: Instant::now(),
        }
    }

    fn add(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.since) > RESET {
            (self.number, self.since) = (0, now);
        }
        self.number += 1;
    }

    /// The time until the next attempt.
    fn delay(&self) -> Duration {
        retry_after(self.number)
    }
}

/// The status that the server returned, or else the error with its causes.
fn message(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => format!("{} {}", status.code, status.message),
        other => with_causes(other),
    }
}

/// An error and its causes, without those that its own message includes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !shown.contains(&text) {
            shown = format!("{shown}: {text}");
        }
        cause = next.source();
    }
    shown
}

/// Whether nothing that speaks HTTP has answered.
fn is_unreachable(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchStartFailed(kube::Error::Service(_) | kube::Error::HyperError(_))
    )
}

/// Whether an object, or the line of an event, is not what it should be.
fn is_undecodable(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchFailed(kube::Error::SerdeError(_))
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(name: &str) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        Arc::new(object)
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_although_each_attempt_begins_with_an_event() {
        let attempt = || {
            let failed = watcher::Error::NoResourceVersion;
            [Ok(Event::<Arc<ConfigMap>>::Init), Err(failed)]
        };
        let events = move || stream::iter((0..4).flat_map(move |_| attempt()));
        let mut events = std::pin::pin!(patient(events).take(8));
        let (began, mut begun) = (tokio::time::Instant::now(), Vec::new());
        while let Some(event) = events.next().await {
            if event.is_ok() {
                begun.push(began.elapsed().as_millis());
            }
        }
        assert_eq!(begun, [0, 800, 2400, 5600]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_grows_although_lists_succeed_and_begins_anew_after_two_minutes() {
        let begun = |seconds: &'static [u64]| async move {
            let events = move || {
                stream::iter(seconds).flat_map(|&seconds| {
                    let failed = Err(watcher::Error::NoResourceVersion);
                    let later = stream::once(async move {
                        tokio::time::sleep(Duration::from_secs(seconds)).await;
                        failed
                    });
                    stream::iter([Ok(Event::<Arc<ConfigMap>>::Init), Ok(Event::InitDone)])
                        .chain(later)
                })
            };
            let (began, mut begun) = (Instant::now(), Vec::new());
            let mut events = std::pin::pin!(patient(events).take(3 * seconds.len()));
            while let Some(event) = events.next().await {
                if matches!(event, Ok(Event::Init)) {
                    begun.push(began.elapsed().as_millis());
                }
            }
            begun
        };
        assert_eq!(begun(&[10, 10, 10]).await, [0, 10_800, 22_400]);
        // The second failure comes 119.8 s after the watch was made, or 120.8 s.
        assert_eq!(begun(&[1, 118, 1]).await[2], 1_800 + 118_000 + 1_600);
        assert_eq!(begun(&[1, 119, 1]).await[2], 1_800 + 119_000 + 800);
        // A watch that does nothing but fail, too.
        let begun = begun(&[0; 12]).await;
        let delays: Vec<u128> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(delays[5..], [25_600, 30_000, 30_000, 30_000, 800, 1_600]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_server_that_cannot_be_reached_the_watch_begins_with_a_list() {
        let lives = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let begun = Arc::clone(&lives);
        let events = move || {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let refused = || kube::Error::Service("connection refused".into());
            let gone = || kube::core::Status::failure("gone", "Expired").with_code(410);
            stream::iter([
                Ok(Event::<Arc<ConfigMap>>::Init),
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(
                    gone().boxed(),
                ))),
                Err(watcher::Error::InitialListFailed(refused())),
                Ok(Event::InitDone),
                Err(watcher::Error::WatchStartFailed(refused())),
                Ok(Event::Apply(map("unseen"))),
            ])
        };
        let seen: Vec<_> = patient(events).take(6).collect().await;
        let inits = seen.iter().filter(|event| matches!(event, Ok(Event::Init)));
        assert_eq!(inits.count(), 2);
        assert_eq!(lives.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_with_an_object_that_cannot_be_decoded_is_repeated() {
        let lists = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let answer = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let attempt = lists.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = if attempt == 0 { "7" } else { r#""a""# };
            let text = format!(
                concat!(
                    r#"{{"type":"ADDED","object":{{"metadata":{{"name":"first","resourceVersion":"1"}}}}}}"#,
                    "\n",
                    r#"{{"type":"ADDED","object":{{"metadata":{{"name":{name},"resourceVersion":"2"}}}}}}"#,
                    "\n",
                    r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"3","#,
                    r#""annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
                    "\n",
                ),
                name = name
            );
            let body = kube::client::Body::from(text.into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        let api = Api::all(Client::new(answer, "default"));
        let events = events::<ConfigMap>(api, watcher::Config::default());
        let seen: Vec<String> = events
            .take(7)
            .map(|event| match event {
                Ok(Event::Init) => "list".to_owned(),
                Ok(Event::InitApply(map)) => map.metadata.name.clone().unwrap_or_default(),
                Ok(Event::InitDone) => "listed".to_owned(),
                Ok(_) => "changed".to_owned(),
                Err(Failed) => "failed".to_owned(),
            })
            .collect()
            .await;
        assert_eq!(
            seen,
            ["list", "first", "failed", "list", "first", "a", "listed"]
        );
    }

    #[test]
    fn an_error_is_shown_with_what_it_leaves_to_its_causes() {
        let refused = std::io::Error::other("connection refused");
        let service = kube::Error::Service(Box::new(kube::Error::ReadEvents(refused)));
        assert_eq!(
            message(&watcher::Error::WatchStartFailed(service)),
            "failed to start watching object: ServiceError: Error reading events stream: connection refused"
        );
        let refused = kube::core::Status::failure("no", "Forbidden").with_code(403);
        let refused = watcher::Error::InitialListFailed(kube::Error::Api(refused.boxed()));
        assert_eq!(message(&refused), "403 no");
    }
}
