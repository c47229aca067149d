//! EventRateLimit: how many Events clients may write in a second.

use std::num::NonZeroUsize;

use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;

use crate::admission::attributes::Attributes;
use crate::clock::nanos_between;
use crate::json::Value;
use crate::meta::object::namespace;
use crate::status::ApiError;

/// The number of buckets of a limit that does not state it.
const CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitType {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

impl LimitType {
    pub(crate) const ALL: [Self; 4] = [
        Self::Server,
        Self::Namespace,
        Self::User,
        Self::SourceAndObject,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }

    /// The bucket that an event is counted in.
    fn key(self, attributes: Attributes<'_>) -> String {
        let event = attributes.object;
        match self {
            Self::Server => String::new(),
            Self::Namespace => namespace(event).to_owned(),
            Self::User => attributes
                .user
                .map(|user| user.name.clone())
                .unwrap_or_default(),
            Self::SourceAndObject => source_and_object(event),
        }
    }
}

fn source_and_object(event: &Value) -> String {
    let text = |pointer: &str| {
        let own = event.pointer(pointer).and_then(Value::as_str);
        own.unwrap_or_default()
    };
    // The fields have other names in events.k8s.io.
    [
        ["/source/component", "/deprecatedSource/component"],
        ["/source/host", "/deprecatedSource/host"],
        ["/involvedObject/kind", "/regarding/kind"],
        ["/involvedObject/namespace", "/regarding/namespace"],
        ["/involvedObject/name", "/regarding/name"],
        ["/involvedObject/uid", "/regarding/uid"],
        ["/involvedObject/apiVersion", "/regarding/apiVersion"],
    ]
    .map(|[core, own]| match text(core) {
        "" => text(own),
        core => core,
    })
    .concat()
}

/// A limit of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) limit_type: LimitType,
    pub(crate) qps: u32,
    pub(crate) burst: u32,
    /// The number of buckets; 0 is the default.
    pub(crate) cache_size: usize,
}

/// The buckets of each limit, in the order of the configuration; those used last are kept.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<Vec<LruCache<String, Bucket>>>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    refilled: Timestamp,
}

impl Limit {
    fn buckets(&self) -> LruCache<String, Bucket> {
        LruCache::new(NonZeroUsize::new(self.cache_size).unwrap_or(CACHE_SIZE))
    }

    /// Takes a token if the bucket has any.
    fn accepts(&self, buckets: &mut LruCache<String, Bucket>, key: &str, now: Timestamp) -> bool {
        let full = f64::from(self.burst);
        let bucket = buckets.get_or_insert_mut(key.to_owned(), || Bucket {
            tokens: full,
            refilled: now,
        });
        #[expect(clippy::cast_precision_loss, reason = "a bucket is full long before")]
        let seconds = nanos_between(bucket.refilled, now) as f64 / 1e9;
        let tokens = full.min(bucket.tokens + seconds * f64::from(self.qps));
        if tokens < 1.0 {
            return false;
        }
        bucket.tokens = tokens - 1.0;
        bucket.refilled = now;
        true
    }
}

/// Counts an event, and refuses it beyond a limit. Every limit counts it.
pub(super) fn check(attributes: Attributes<'_>, dry_run: bool) -> Result<(), ApiError> {
    let limits = &attributes.state.configuration.event_limits;
    if dry_run || limits.is_empty() {
        return Ok(());
    }
    let now = attributes.state.clock.now();
    let mut buckets = attributes.state.event_buckets.0.lock();
    if buckets.is_empty() {
        *buckets = limits.iter().map(Limit::buckets).collect();
    }
    let mut refusals = Vec::new();
    for (limit, buckets) in limits.iter().zip(&mut *buckets) {
        let key = limit.limit_type.key(attributes);
        if !limit.accepts(buckets, &key, now) {
            let limit_type = limit.limit_type.as_str();
            refusals.push(format!("limit reached on type {limit_type} for key {key}"));
        }
    }
    let refusal = match refusals.as_slice() {
        [] => return Ok(()),
        [refusal] => refusal.clone(),
        refusals => format!("[{}]", refusals.join(", ")),
    };
    let message = format!("Too many requests: {refusal}");
    Err(ApiError::stated(429, "TooManyRequests", &message, None))
}
