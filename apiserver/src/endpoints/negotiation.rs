//! Which representation the client accepts, and which one its body is in.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use crate::schema::write_object;
use crate::status::ApiError;

/// How a body is encoded on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaType {
    Json,
    Yaml,
}

/// How the body of a request is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Yaml,
    Protobuf,
}

impl MediaType {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What an object is turned into before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transform {
    None,
    Table,
    PartialObjectMetadata,
    PartialObjectMetadataList,
}

/// The representation agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) media: MediaType,
    pub(crate) transform: Transform,
    /// Version of `meta.k8s.io` that the transform is of.
    pub(crate) version: &'static str,
    /// Indented JSON was asked for.
    pub(crate) pretty: bool,
}

impl Accepted {
    pub(crate) const JSON: Self = Self {
        media: MediaType::Json,
        transform: Transform::None,
        version: "v1",
        pretty: false,
    };
}

/// Chooses the first clause of `Accept` that can be served; the order counts, weights do not.
///
/// # Errors
/// `NotAcceptable` when there is none; `streams` adds the watch forms to the message.
pub(crate) fn accepted(
    headers: &HeaderMap,
    pretty: Option<&str>,
    streams: bool,
) -> Result<Accepted, ApiError> {
    let pretty = match pretty {
        Some(value) => !matches!(value, "false" | "0"),
        None => asks_from_a_terminal(headers),
    };
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
        return Ok(Accepted {
            pretty,
            ..Accepted::JSON
        });
    };
    if accept.trim().is_empty() {
        return Ok(Accepted {
            pretty,
            ..Accepted::JSON
        });
    }
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = match parts.next().unwrap_or_default() {
            "application/json" | "*/*" | "application/*" => MediaType::Json,
            "application/yaml" => MediaType::Yaml,
            _ => continue,
        };
        let (mut as_kind, mut group, mut version) = ("", "", "");
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "as" => as_kind = value,
                "g" => group = value,
                "v" => version = value,
                _ => {}
            }
        }
        let known = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
        let transform = match as_kind {
            "" => Transform::None,
            "Table" if known => Transform::Table,
            "PartialObjectMetadata" if known => Transform::PartialObjectMetadata,
            "PartialObjectMetadataList" if known => Transform::PartialObjectMetadataList,
            _ => continue,
        };
        let version = if version == "v1beta1" {
            "v1beta1"
        } else {
            "v1"
        };
        return Ok(Accepted {
            media,
            transform,
            version,
            pretty,
        });
    }
    let mut available = vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
    ];
    if streams {
        available.extend([
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ]);
    }
    Err(ApiError::NotAcceptable(format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        available.join(", ")
    )))
}

fn asks_from_a_terminal(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|agent| {
            agent.starts_with("curl")
                || agent.starts_with("Wget")
                || agent.starts_with("Mozilla/5.0")
        })
}

/// The encoding of a request's body.
///
/// # Errors
/// `UnsupportedMediaType` for anything but JSON, YAML and protobuf.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<ContentType, ApiError> {
    let header = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    match header.split(';').next().unwrap_or("").trim() {
        "" if header.trim().is_empty() => Ok(ContentType::Json),
        "application/json" => Ok(ContentType::Json),
        "application/yaml" => Ok(ContentType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(ContentType::Protobuf),
        _ => Err(ApiError::UnknownBodyFormat(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf".to_owned(),
        )),
    }
}

/// `value` encoded as agreed.
pub(crate) fn encode(value: &Value, accepted: Accepted) -> Vec<u8> {
    match accepted.media {
        MediaType::Yaml => serde_saphyr::to_string(value)
            .expect("a JSON value with string keys can be written as YAML")
            .into_bytes(),
        MediaType::Json if accepted.pretty => {
            let mut text = serde_json::to_vec_pretty(value).expect("a JSON value can be written");
            text.push(b'\n');
            text
        }
        MediaType::Json => {
            let mut text = Vec::new();
            write_object(&mut text, value);
            text.push(b'\n');
            text
        }
    }
}
