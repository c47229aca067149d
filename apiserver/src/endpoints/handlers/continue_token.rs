//! Page tokens: the version of the first page, and the key of the last object shown.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use crate::json::{Value, json};
use crate::meta::ResourceVersion;
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// As lenient about the bits after the last byte as Go is.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
const VERSION: &str = "meta.k8s.io/v1";

/// What `continue` holds: base64 of JSON, as upstream writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContinueToken {
    /// −1 stands for any version.
    rv: i64,
    /// The key to go on with, relative to the namespace listed.
    start: String,
}

impl ContinueToken {
    /// A token for the objects after `last` in a list of `namespace`.
    pub(super) fn after(rv: ResourceVersion, last: &ObjectKey, namespace: Option<&str>) -> Self {
        let key = match namespace {
            Some(namespace) => last.as_str().strip_prefix(&format!("{namespace}/")),
            None => None,
        };
        let start = format!("{}\0", key.unwrap_or(last.as_str()));
        let rv = i64::try_from(rv.get()).expect("a server writes fewer than 2^63 times");
        Self { rv, start }
    }

    /// Reads a token.
    ///
    /// # Errors
    /// `BadRequest` with the defect of the token.
    pub(super) fn decode(token: &str) -> Result<Self, ApiError> {
        let invalid = |why: String| {
            ApiError::BadRequest(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = BASE64.decode(token).map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) => at,
                _ => token.find('=').unwrap_or(token.len().saturating_sub(1)),
            };
            invalid(format!("illegal base64 data at input byte {at}"))
        })?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| invalid(crate::schema::syntax_error(&bytes).unwrap_or_default()))?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(invalid(format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let rv = value["rv"].as_i64().unwrap_or(0);
        if rv == 0 {
            return Err(invalid(format!(
                "incorrect encoded start resourceVersion (version {VERSION})"
            )));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(format!(
                "encoded start key empty (version {VERSION})"
            )));
        }
        // The key must stay below that of the resource, whose own it continues.
        let relative = start.strip_prefix('/').unwrap_or(start);
        if relative
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."))
        {
            return Err(invalid(start.to_owned()));
        }
        Ok(Self {
            rv,
            start: relative.to_owned(),
        })
    }

    pub(super) fn encode(&self) -> String {
        let json = json!({ "v": VERSION, "rv": self.rv, "start": self.start });
        BASE64.encode(json.to_string())
    }

    /// The token of this place at any version.
    pub(super) fn inconsistent(&self) -> Self {
        Self {
            rv: -1,
            start: self.start.clone(),
        }
    }

    /// The version to read at; `None` for any.
    pub(super) fn rv(&self) -> Option<ResourceVersion> {
        u64::try_from(self.rv).ok().map(ResourceVersion::new)
    }

    /// The first key of the next page.
    pub(super) fn start(&self, namespace: Option<&str>) -> ObjectKey {
        match namespace {
            Some(namespace) => ObjectKey::from_text(&format!("{namespace}/{}", self.start)),
            None => ObjectKey::from_text(&self.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was_made() {
        let key = ObjectKey::new(Some("ns"), "a");
        let token = ContinueToken::after(ResourceVersion::new(7), &key, Some("ns"));
        let read = ContinueToken::decode(&token.encode()).unwrap();
        assert_eq!(read, token);
        assert_eq!(read.rv(), Some(ResourceVersion::new(7)));
        assert!(read.start(Some("ns")) > key);
        assert!(read.start(Some("ns")) < ObjectKey::new(Some("ns"), "a0"));
        assert_eq!(read.inconsistent().rv(), None);
    }

    #[test]
    fn a_malformed_token_is_refused_at_its_first_fault() {
        let of = |json: &str| BASE64.encode(json);
        let prefix = "invalid continue token: continue key is not valid: ";
        let v1 = |start: &str| {
            of(&format!(
                r#"{{"v":"meta.k8s.io/v1","rv":5,"start":"{start}"}}"#
            ))
        };
        for (token, why) in [
            ("a b", "illegal base64 data at input byte 1"),
            ("abcde", "illegal base64 data at input byte 4"),
            ("YQ==", "illegal base64 data at input byte 2"),
            (v1("a/../b").as_str(), "a/../b"),
            (v1("a//b").as_str(), "a//b"),
            (v1("//a").as_str(), "//a"),
        ] {
            let error = ContinueToken::decode(token).unwrap_err();
            assert_eq!(error.to_string(), format!("{prefix}{why}"), "{token}");
        }
        assert_eq!(ContinueToken::decode(&v1("/a")).unwrap().start, "a");
    }
}
