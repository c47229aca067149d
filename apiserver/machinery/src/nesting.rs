//! Documents that nest deeply: up to Go's limit of 10,000 levels, on stacks with room for them.
//!
//! Walks over values are recursive: decoding, validation, comparison, writing, cloning, dropping. An
//! ordinary thread has room for a few hundred levels, so the limit of `serde_json`, 128 levels,
//! holds there. A request whose body nests deeper continues on a stack of its own (see [`Roomy`]).
//! Once such an object is stored, whatever could meet it does. A deep value never leaves a deep
//! stack: a stored object keeps only its text, and a call that is given up is dropped on one.

mod reader;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use serde::Deserialize;
use serde::de::Error;
use serde_json::de::{Deserializer, SliceRead};

use crate::json::Value;

pub(crate) use reader::{Fault, Reader};

/// The first character of a string that holds encoded JSON; no JSON text begins with it.
pub(crate) const AT_REST: char = '\0';

/// Returns the JSON of an encoded string; `None` for any other value.
pub fn resting(text: &Value) -> Option<&str> {
    text.as_str()?.strip_prefix(AT_REST)
}

/// The deepest document that Go's decoders read.
pub const DEPTH_MAX: usize = 10_000;

/// The depth up to which an ordinary stack has room for a document, with some levels to spare: a
/// patch may add a few.
const SHALLOW_MAX: usize = 100;

/// The deepest document that `serde_json` reads with its own limit.
const SERDE_DEPTH_MAX: usize = 127;

/// How many levels a JSON patch may add to a shallow object. The sum stays below the limit of
/// `serde_json`.
const ADDED_MAX: usize = 20;

/// Bytes of stack for the deepest document: the most expensive walk takes less than half of them.
const NEEDED_BYTES: usize = 256 << 20;

/// Bytes of a stack that is made for a request. Untouched pages take no memory.
const STACK_BYTES: usize = 512 << 20;

/// How many bytes of indentation an answer may have.
const INDENTATION_BYTES_MAX: usize = 64 << 20;

/// The fault of a document that nests deeper than its reader allows.
pub const TOO_DEEP: &str = "exceeded max depth";

/// Whether an object is stored that nests deeply, in any server of the process.
static STORED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the work of this thread runs on a deep stack.
    static ROOM: Cell<bool> = const { Cell::new(false) };
    /// Whether the request that is polled on this thread needs a deep stack.
    static WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with room for values that nest [`DEPTH_MAX`] levels deep.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            ROOM.set(self.0);
        }
    }
    stacker::maybe_grow(NEEDED_BYTES, STACK_BYTES, || {
        let _reset = Reset(ROOM.replace(true));
        work()
    })
}

/// Runs `work` on a stack of at least `bytes`.
pub fn with_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(bytes, bytes, work)
}

/// Runs `work` on a stack with room for objects that nest 10,000 levels deep.
///
/// Callers that read the values of such objects need it: clones, comparisons and drops of a
/// [`Value`] are recursive.
pub fn on_deep_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(NEEDED_BYTES, STACK_BYTES, work)
}

/// Runs `work` with room for deep values if any are stored.
pub fn where_stored<T>(work: impl FnOnce() -> T) -> T {
    match STORED.load(Ordering::Acquire) {
        true => with_room(work),
        false => work(),
    }
}

/// Whether the caller runs on a stack for deep values.
pub fn has_room() -> bool {
    ROOM.get()
}

/// Whether there is room for a deep value, on a deep stack or on one that happens to be large.
pub fn fits_here() -> bool {
    has_room() || stacker::remaining_stack().is_some_and(|bytes| bytes >= NEEDED_BYTES)
}

/// A future that continues on a deep stack on request, or when deep objects are stored.
pub struct Roomy<F> {
    /// `None` only while it is dropped.
    future: Option<Pin<Box<F>>>,
    is_deep: bool,
}

impl<F> Roomy<F> {
    /// Wraps a future, which starts on the stack of its caller.
    pub fn new(future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            is_deep: false,
        }
    }

    /// The part of a request that runs elsewhere, with the stack that the request has here.
    pub fn part(future: F, is_deep: bool) -> Self {
        let mut part = Self::new(future);
        part.is_deep = is_deep;
        part
    }
}

fn run<T>(is_deep: bool, work: impl FnOnce() -> T) -> T {
    match is_deep {
        true => with_room(work),
        false => where_stored(work),
    }
}

impl<F: Future> Future for Roomy<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let outer = WANTED.replace(false);
        let is_deep = self.is_deep;
        let future = self
            .future
            .as_mut()
            .expect("it is held until it is dropped");
        let polled = run(is_deep, || future.as_mut().poll(context));
        self.is_deep |= WANTED.replace(outer);
        polled
    }
}

impl<F> Drop for Roomy<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        run(self.is_deep, || drop(future));
    }
}

/// Continues on a deep stack if `is_deep`.
pub async fn make_room(is_deep: bool) {
    if !is_deep || has_room() {
        return;
    }
    WANTED.set(true);
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A value whose parts may hold deep ones: it is dropped on a stack with room for them.
#[derive(Debug)]
pub struct Sheltered<T>(Option<Box<T>>);

impl<T> Sheltered<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T> Deref for Sheltered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().expect("it is held until it is dropped")
    }
}

impl<T> Drop for Sheltered<T> {
    fn drop(&mut self) {
        let held = self.0.take();
        where_stored(|| drop(held));
    }
}

/// Reads a JSON document, as deeply nested as the stack allows.
///
/// # Errors
/// The text is not such a document, or nests too deeply.
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    read(json, |deserializer| T::deserialize(deserializer))
}

/// Reads a JSON document with `read_value`, as deeply nested as the stack allows.
///
/// # Errors
/// The text is not such a document, or nests too deeply.
pub fn read<'de, T>(
    json: &'de [u8],
    read_value: impl FnOnce(&mut Deserializer<SliceRead<'de>>) -> serde_json::Result<T>,
) -> serde_json::Result<T> {
    // Whatever the reader passes over is followed without recursion, and so without a limit.
    if nests_deeper_than(DEPTH_MAX, json) {
        return Err(serde_json::Error::custom(TOO_DEEP));
    }
    let mut deserializer = Deserializer::from_slice(json);
    if has_room() {
        deserializer.disable_recursion_limit();
    }
    let value = read_value(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a document that this server has written. The caller has room for it: `StoredObject` sees to
/// that.
///
/// # Errors
/// The text is not such a document.
pub fn from_own<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    read_own(json, |deserializer| T::deserialize(deserializer))
}

/// Reads a document that this server has written with `read_value`, as [`from_own`] does.
///
/// # Errors
/// The text is not such a document.
pub(crate) fn read_own<'de, T>(
    json: &'de [u8],
    read_value: impl FnOnce(&mut Deserializer<SliceRead<'de>>) -> serde_json::Result<T>,
) -> serde_json::Result<T> {
    let mut deserializer = Deserializer::from_slice(json);
    deserializer.disable_recursion_limit();
    let value = read_value(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Whether values of a JSON text are nested more than `limit` levels deep.
pub(crate) fn nests_deeper_than(limit: usize, json: &[u8]) -> bool {
    if json.len() <= limit {
        return false;
    }
    // Counted in bytes, of which many are added at a time; no chunk has more of them than a byte holds.
    let is_opening = |byte: &u8| u8::from(matches!(byte, b'{' | b'['));
    let in_chunk = |chunk: &[u8]| usize::from(chunk.iter().map(is_opening).sum::<u8>());
    let opening: usize = json.chunks(255).map(in_chunk).sum();
    opening > limit && depth_up_to(limit, json) > limit
}

/// The depth of a JSON text, or some number above `limit`.
fn depth_up_to(limit: usize, json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
                if deepest > limit {
                    break;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
    }
    deepest
}

/// Whether a JSON document nests more deeply than this stack has room for.
pub(crate) fn exceeds_stack(json: &[u8]) -> bool {
    let deepest = match has_room() {
        true => DEPTH_MAX,
        false => SERDE_DEPTH_MAX,
    };
    nests_deeper_than(deepest, json)
}

/// Whether a JSON document needs a deep stack. One that no decoder reads does not.
pub fn is_deep_json(json: &[u8]) -> bool {
    nests_deeper_than(SHALLOW_MAX, json) && !nests_deeper_than(DEPTH_MAX, json)
}

/// Whether an object that a JSON patch is applied to may need a deep stack afterwards. Each
/// operation may put a value as many levels deeper as its path has segments.
pub fn may_deepen(patch: &[u8]) -> bool {
    let segments = patch.iter().filter(|byte| **byte == b'/').count();
    segments > ADDED_MAX || nests_deeper_than(ADDED_MAX, patch)
}

/// Whether a YAML document may need a deep stack. A level of a block takes an indicator or a column
/// of indentation, at which a list may stand in a map.
pub fn may_nest_yaml(yaml: &[u8]) -> bool {
    let is_json = yaml.trim_ascii_start().starts_with(b"{");
    if is_json && !nests_deeper_than(SHALLOW_MAX, yaml) {
        return false;
    }
    let opening = yaml.iter().filter(|byte| matches!(byte, b'{' | b'['));
    let block = |line: &[u8]| {
        let indentation = line.iter().take_while(|byte| **byte == b' ').count();
        let indicators = line
            .iter()
            .filter(|byte| matches!(byte, b'-' | b'?' | b':'));
        2 * indentation + indicators.count()
    };
    let lines = yaml.split(|byte| matches!(byte, b'\n' | b'\r'));
    opening.count() + lines.map(block).max().unwrap_or_default() > SHALLOW_MAX
}

/// Whether JSON in a protobuf document may need a deep stack. JSON strings are not distinguished
/// from the bytes around them.
pub fn may_nest_protobuf(message: &[u8]) -> bool {
    let mut depth = 0_usize;
    message.iter().any(|byte| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > SHALLOW_MAX
    })
}

/// How deeply a value nests once it is written. The caller has room for it.
pub fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or_default(),
        Value::String(_) => {
            resting(value).map_or(0, |json| depth_up_to(usize::MAX, json.as_bytes()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Whether the indentation of a value that is written a member a line takes too many bytes. It grows
/// with the square of the depth.
pub fn is_too_wide(value: &Value) -> bool {
    has_room() && indentation(value, 1) > INDENTATION_BYTES_MAX
}

fn indentation(value: &Value, depth: usize) -> usize {
    let line = |value| 2 * depth + indentation(value, depth + 1);
    match value {
        Value::Array(items) => items.iter().map(line).sum(),
        Value::Object(fields) => fields.values().map(line).sum(),
        Value::String(_) => resting(value).map_or(0, |fields| {
            let below = depth_up_to(usize::MAX, fields.as_bytes());
            fields.len() / 8 * (depth + below)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Whether a value that is about to be stored nests deeply. From then on, whatever may meet it runs
/// on a deep stack.
pub fn note_stored(value: &Value) -> bool {
    let is_deep = has_room() && depth_of(value) > SHALLOW_MAX;
    if is_deep {
        STORED.store(true, Ordering::Release);
    }
    is_deep
}

#[cfg(test)]
mod tests;
