//! YAML bodies, read as Go's decoder reads them.

use bytes::Bytes;
use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::options::DuplicateKeyPolicy;

/// A YAML document as JSON.
pub(super) struct Yaml {
    pub(super) json: Bytes,
    /// What is to be said of the first key that is there twice; the last one counts.
    pub(super) duplicates: Vec<String>,
}

impl Yaml {
    /// A document that is JSON already.
    pub(super) fn json(json: Bytes) -> Self {
        Self {
            json,
            duplicates: Vec::new(),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The message of Go's parser.
    pub(super) fn parse(yaml: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(yaml).map_err(|_| "yaml: invalid leading UTF-8 octet")?;
        let mut duplicates = Vec::new();
        let mut parsed: Result<Value, _> = serde_saphyr::from_str(text);
        if let Err(error) = &parsed
            && let Error::DuplicateMappingKey { key, location } = error.without_snippet()
        {
            let key = key.as_deref().unwrap_or_default();
            let line = location.line();
            duplicates.push(format!("line {line}: key {key:?} already set in map"));
            let options = serde_saphyr::options! {
                duplicate_keys: DuplicateKeyPolicy::LastWins,
            };
            parsed = serde_saphyr::from_str_with_options(text, options);
        }
        let value = parsed.map_err(|error| match error.location() {
            // Go's parser names the line before the one at fault.
            Some(place) => format!(
                "yaml: line {}: did not find expected key",
                place.line().saturating_sub(1)
            ),
            None => "yaml: did not find expected node content".to_owned(),
        })?;
        Ok(Self {
            json: value.to_string().into(),
            duplicates,
        })
    }
}

/// Faults of a document as Go's decoder lists them.
pub(super) fn unmarshal_errors(faults: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", faults.join("\n  "))
}
