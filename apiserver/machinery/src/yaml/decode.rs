//! YAML bodies, read as Go's decoder for YAML 1.1 reads them and made JSON of.

mod fault;
mod json;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;

use bytes::Bytes;
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use crate::json::{Map, Value};
use crate::nesting;
use crate::status::quoted;
pub use json::json_object;

/// The namespace of YAML's own tags.
const TAGS: &str = "tag:yaml.org,2002:";

/// The nesting limit of values on an ordinary stack, where JSON is not read any deeper either.
const SHALLOW_MAX: usize = 120;

/// Aliases are not limited in documents of at most this many values.
const UNLIMITED_VALUES: usize = 1000;
/// Nor are they if they stand for at most this many values.
const UNLIMITED_ALIASED: usize = 100;
/// In documents with fewer values than the first number, aliases may stand for 99 % of the values; with more than the
/// second, for 10 %.
const ALIAS_RATIO_RANGE: (f64, f64) = (400_000.0, 4_000_000.0);

/// Whether all of Go's decoders read a plain scalar as a text, so that it needs no quotes. Some of
/// the decoders know dates and sexagesimal numbers.
pub(crate) fn reads_as_text(plain: &str) -> bool {
    let is_text = matches!(scalar::resolve(plain, None, true), Ok(Value::String(_)));
    is_text && plain != "<<" && !scalar::is_date(plain) && !scalar::is_sexagesimal(plain)
}

/// A YAML document as JSON.
pub struct Yaml {
    /// The document as JSON.
    pub json: Bytes,
    /// The messages about duplicate keys; the last value of a key counts.
    pub duplicates: Vec<String>,
}

impl Yaml {
    /// A document that is JSON already.
    pub fn json(json: Bytes) -> Self {
        Self {
            json,
            duplicates: Vec::new(),
        }
    }

    /// Reads the first document of a text and ignores later documents.
    ///
    /// # Errors
    /// The message of Go's decoder.
    pub fn parse(yaml: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(yaml).map_err(|_| "yaml: invalid leading UTF-8 octet")?;
        let mut reader = Reader::new(text);
        let root = reader.document()?;
        Ok(Self {
            json: root.to_string().into(),
            duplicates: reader.duplicates,
        })
    }

    /// Reads all documents of a text, each with the messages about its duplicate keys.
    ///
    /// # Errors
    /// The message of Go's decoder.
    pub fn documents(text: &str) -> Result<Vec<(Value, Vec<String>)>, String> {
        let mut reader = Reader::new(text);
        let mut documents = Vec::new();
        loop {
            match reader.next()? {
                (Event::StreamEnd, _) => return Ok(documents),
                (Event::StreamStart | Event::DocumentEnd, _) => {}
                (Event::DocumentStart(..), _) => {
                    reader.anchors.clear();
                    (reader.decoded, reader.aliased) = (0, 0);
                }
                (event, span) => {
                    let document = reader.value(event, span)?;
                    documents.push((document, std::mem::take(&mut reader.duplicates)));
                }
            }
        }
    }
}

/// Faults of a document as Go's decoder lists them.
pub fn unmarshal_errors(faults: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", faults.join("\n  "))
}

/// An anchored value, with the number of values in it.
struct Anchored {
    value: Value,
    size: usize,
}

struct Reader<'y> {
    text: &'y str,
    events: Parser<'y, StrInput<'y>>,
    anchors: BTreeMap<usize, Anchored>,
    /// The values of the document so far, with aliases expanded.
    decoded: usize,
    /// The values that aliases stand for.
    aliased: usize,
    duplicates: Vec<String>,
}

impl<'y> Reader<'y> {
    fn new(text: &'y str) -> Self {
        let deepest = match nesting::fits_here() {
            true => nesting::DEPTH_MAX,
            false => SHALLOW_MAX,
        };
        let options = granit_parser::options! {
            flow_nesting_limit: deepest,
            block_nesting_limit: deepest,
        };
        Self {
            text,
            events: Parser::new_from_str_with_options(text, options),
            anchors: BTreeMap::new(),
            decoded: 0,
            aliased: 0,
            duplicates: Vec::new(),
        }
    }

    fn document(&mut self) -> Result<Value, String> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
                event => return self.value(event, span),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'y>, Span), String> {
        loop {
            match self.events.next_event() {
                // Other users of the parser turn comments on, so that they must be expected.
                Some(Ok((Event::Anchor(..) | Event::Comment(..), _))) => {}
                Some(Ok(found)) => return Ok(found),
                Some(Err(error)) => return Err(fault::message(&error, self.text)),
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn value(&mut self, event: Event<'y>, span: Span) -> Result<Value, String> {
        let before = self.decoded;
        self.count(1, 0)?;
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let itself = "yaml: anchor value contains itself";
                let size = self.anchors.get(&anchor).ok_or(itself)?.size;
                self.count(size, size)?;
                return Ok(self.anchors[&anchor].value.clone());
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let suffix = tag.as_deref().and_then(|tag| tag.suffix_in_namespace(TAGS));
                (anchor, scalar::resolve(&text, suffix.as_deref(), is_plain)?)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.value(event, span)?),
                    }
                }
                (anchor, Value::Array(items))
            }
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping()?),
            _ => return Err(fault::at("did not find expected node content", span)),
        };
        if anchor > 0 {
            let anchored = Anchored {
                value: value.clone(),
                size: self.decoded - before,
            };
            self.anchors.insert(anchor, anchored);
        }
        Ok(value)
    }

    fn mapping(&mut self) -> Result<Value, String> {
        let mut entries = Map::new();
        loop {
            let (event, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(entries)),
                found => found,
            };
            let is_merge =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let key = self.value(event, span)?;
            let (event, span) = self.next()?;
            let line = span.start.line();
            let value = self.value(event, span)?;
            if is_merge {
                self.merge(&mut entries, value, line)?;
                continue;
            }
            let (name, shown) = key_of(&key, &value)?;
            self.insert(&mut entries, name, value, &shown, line);
        }
    }

    fn insert(
        &mut self,
        entries: &mut Map,
        name: String,
        value: Value,
        shown: &dyn Display,
        line: usize,
    ) {
        if entries.insert(name, value).is_some() {
            let duplicate = format!("line {line}: key {shown} already set in map");
            self.duplicates.push(duplicate);
        }
    }

    /// Takes over the entries of the maps that a `<<` names.
    fn merge(&mut self, entries: &mut Map, value: Value, line: usize) -> Result<(), String> {
        let maps = match value {
            // Of several maps, the first takes precedence.
            Value::Array(maps) => maps.into_iter().rev().collect(),
            map => vec![map],
        };
        for map in maps {
            let Value::Object(map) = map else {
                let message = "yaml: map merge requires map or sequence of maps as the value";
                return Err(message.to_owned());
            };
            for (name, value) in map {
                let shown = quoted(&name);
                self.insert(entries, name.to_string(), value, &shown, line);
            }
        }
        Ok(())
    }

    /// Counts values, some of which an alias stands for.
    fn count(&mut self, decoded: usize, aliased: usize) -> Result<(), String> {
        self.decoded += decoded;
        self.aliased += aliased;
        match is_excessive(self.aliased, self.decoded) {
            true => Err("yaml: document contains excessive aliasing".to_owned()),
            false => Ok(()),
        }
    }
}

/// Whether aliases stand for too many of the values of a document.
///
/// Source: `decoder.unmarshal` and `allowedAliasRatio` of `go.yaml.in/yaml/v2`.
fn is_excessive(aliased: usize, decoded: usize) -> bool {
    if aliased <= UNLIMITED_ALIASED || decoded <= UNLIMITED_VALUES {
        return false;
    }
    let (aliased, decoded) = (aliased as f64, decoded as f64);
    let (low, high) = ALIAS_RATIO_RANGE;
    let part = ((decoded - low) / (high - low)).clamp(0.0, 1.0);
    aliased / decoded > 0.99 - 0.89 * part
}

/// A key as JSON has it, and as Go prints it.
fn key_of(key: &Value, value: &Value) -> Result<(String, String), String> {
    Ok(match key {
        Value::String(name) => (name.to_string(), quoted(name)),
        Value::Bool(_) | Value::Number(_) => (key.to_string(), key.to_string()),
        Value::Null => {
            return Err(format!(
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"
            ));
        }
        Value::Array(_) | Value::Object(_) => return Err(format!("yaml: invalid map key: {key}")),
    })
}
