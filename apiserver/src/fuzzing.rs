//! Entries for fuzzing: each takes any bytes, and must neither panic nor hang nor need more memory
//! than a few times its input.
//!
//! An entry that needs several texts takes them as lines. What is no input for it, it ignores.

mod definitions;
mod documents;
mod requests;
mod streams;
#[cfg(test)]
mod tests;

use crate::json::Value;

/// An entry: it takes the bytes that a client may send.
pub type Entry = fn(&[u8]);

/// The entries by name, each the name of a target and of a directory of seeds.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("apply", documents::apply),
    ("cel", definitions::cel),
    ("definition", definitions::definition),
    ("field_selector", documents::field_selector),
    ("json_patch", documents::json_patch),
    ("json_path", documents::json_path),
    ("label_selector", documents::label_selector),
    ("merge_patch", documents::merge_patch),
    ("protobuf", documents::protobuf),
    ("request", requests::request),
    ("spdy", streams::spdy),
    ("strategic_merge_patch", documents::strategic_merge_patch),
    ("yaml", documents::yaml),
];

/// Runs the entry called `name`.
///
/// # Panics
/// When there is no such entry; an entry itself panics on a fault of the server only.
pub fn run(name: &str, data: &[u8]) {
    let entry = ENTRIES.iter().find(|(entry, _)| *entry == name);
    let (_, entry) = entry.expect("the entry is one of ENTRIES");
    entry(data);
}

/// The lines of an input, as far as they are UTF-8.
fn lines(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|byte| *byte == b'\n')
        .map_while(|line| std::str::from_utf8(line).ok())
}

/// A line that is a JSON object.
fn object(line: Option<&str>) -> Option<Value> {
    let value: Value = serde_json::from_str(line?).ok()?;
    value.is_object().then_some(value)
}
