//! Negotiation of the representations of responses and request bodies.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::json::Value;

use bytes::Bytes;

use super::pretty;
use crate::cancellation;
use crate::meta::fields;
use crate::nesting;
use crate::schema::{protobuf, write_answer};
use crate::status::ApiError;
use crate::yaml::encode as yaml;

/// Every encoding of objects, as the messages name them.
const MEDIA_TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];
const TEXT_AND_MEDIA_TYPES: [&str; 4] = ["text/plain", JSON, YAML, PROTOBUF];
/// The encodings of watch events.
const STREAM_MEDIA_TYPES: [&str; 2] = [JSON_STREAM, PROTOBUF_STREAM];
const MEDIA_AND_STREAM_TYPES: [&str; 5] = [JSON, YAML, PROTOBUF, JSON_STREAM, PROTOBUF_STREAM];
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_STREAM: &str = "application/json;stream=watch";
/// The type of a watch's events in protobuf; those in JSON are of the type of objects.
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The encoding of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaType {
    Json,
    Yaml,
    Protobuf,
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Yaml,
    Protobuf,
}

impl MediaType {
    /// All media types; the first is the answer to a client that accepts any.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// The media types of a route, as the router's refusal lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produces {
    Objects,
    /// A list may be watched.
    Streams,
    /// Logs.
    Text,
}

/// The representation of an object that the client asks for.
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

/// Chooses the clause of `Accept` that can be served and weighs most, for a built-in resource.
///
/// Two layers of upstream have their say: the router wants one media type that it knows by name,
/// and the handler then reads the clauses with their parameters, by weight. What cannot be shown
/// as a table has no clauses that ask for one.
///
/// # Errors
/// `NotAcceptable` when no clause can be served.
pub(crate) fn accepted(
    headers: &HeaderMap,
    pretty: Option<&str>,
    produces: Produces,
    has_table: bool,
) -> Result<Accepted, ApiError> {
    // The types that the router knows, and those that it says it knows.
    let (known, available): (&[&str], &[&str]) = match produces {
        Produces::Objects => (&MEDIA_TYPES, &MEDIA_TYPES),
        Produces::Streams => (&MEDIA_TYPES, &MEDIA_AND_STREAM_TYPES),
        Produces::Text => (&TEXT_AND_MEDIA_TYPES, &TEXT_AND_MEDIA_TYPES),
    };
    if let Some(accept) = accept_header(headers) {
        routed(accept, known, available)?;
    }
    by_handler(headers, pretty, SERVER_VERSION, |_, transform| {
        has_table || transform != Transform::Table
    })
}

/// Chooses the clause for a custom resource: there is no router to ask, and only the metadata of its
/// objects has a message in protobuf.
///
/// # Errors
/// `NotAcceptableKind` when no clause can be served.
pub(crate) fn accepted_custom(
    headers: &HeaderMap,
    pretty: Option<&str>,
) -> Result<Accepted, ApiError> {
    by_handler(headers, pretty, SERVER_VERSION, |media, transform| {
        media != MediaType::Protobuf || transform != Transform::None
    })
}

/// Chooses the clause for objects that are neither shown as tables nor as protobuf.
///
/// # Errors
/// `NotAcceptableKind` when no clause can be served.
pub(crate) fn accepted_json(
    headers: &HeaderMap,
    pretty: Option<&str>,
) -> Result<Accepted, ApiError> {
    by_handler(headers, pretty, SERVER_VERSION, |media, transform| {
        media != MediaType::Protobuf && transform == Transform::None
    })
}

/// Chooses the clause where there is no router to ask and nothing to transform: for discovery.
///
/// # Errors
/// `NotAcceptableKind` when no clause can be served.
pub(crate) fn accepted_plain(
    headers: &HeaderMap,
    pretty: Option<&str>,
) -> Result<Accepted, ApiError> {
    by_handler(headers, pretty, None, |_, transform| {
        transform == Transform::None
    })
}

/// The representation of a failure: clauses that transform objects do not apply, and a client that
/// accepts none of the encodings gets indented JSON.
pub(crate) fn accepted_failure(headers: &HeaderMap, pretty: Option<&str>) -> Accepted {
    accepted_plain(headers, pretty).unwrap_or(Accepted {
        pretty: true,
        ..Accepted::JSON
    })
}

/// Whether a router that has `produced` only sends the request on.
///
/// # Errors
/// `NotAcceptable`.
pub(crate) fn routed_to(headers: &HeaderMap, produced: &[&str]) -> Result<(), ApiError> {
    accept_header(headers).map_or(Ok(()), |accept| routed(accept, produced, produced))
}

fn routed(accept: &str, produced: &[&str], available: &[&str]) -> Result<(), ApiError> {
    let is_routed = accept.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || produced.contains(&media)
    });
    if is_routed {
        return Ok(());
    }
    Err(ApiError::NotAcceptable(format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        available.join(", ")
    )))
}

pub(super) fn accept_header(headers: &HeaderMap) -> Option<&str> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.filter(|accept| !accept.trim().is_empty())
}

fn is_pretty(headers: &HeaderMap, pretty: Option<&str>) -> bool {
    match pretty.filter(|value| !value.is_empty()) {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => asks_from_a_terminal(headers),
    }
}

fn by_handler(
    headers: &HeaderMap,
    pretty: Option<&str>,
    server_version: Option<&str>,
    allows: impl Fn(MediaType, Transform) -> bool,
) -> Result<Accepted, ApiError> {
    let pretty = is_pretty(headers, pretty);
    let Some(accept) = accept_header(headers) else {
        return Ok(Accepted {
            pretty,
            ..Accepted::JSON
        });
    };
    // Most clients name one media type and nothing else.
    let mut media = MediaType::ALL.into_iter();
    let only = media.find(|media| media.as_str() == accept);
    if let Some(media) = only.filter(|media| allows(*media, Transform::None)) {
        return Ok(Accepted {
            media,
            pretty,
            ..Accepted::JSON
        });
    }
    clauses(accept)
        .iter()
        .find_map(|clause| {
            MediaType::ALL
                .into_iter()
                .filter(|media| clause.names(*media))
                .filter_map(|media| clause.representation(media, pretty, server_version))
                .find(|accepted| allows(accepted.media, accepted.transform))
        })
        .ok_or_else(|| only_accepted(&MEDIA_TYPES))
}

/// The representation of a watch's events.
///
/// # Errors
/// `NotAcceptable` for an encoding that cannot be streamed.
pub(crate) fn accepted_stream(accepted: Accepted) -> Result<Accepted, ApiError> {
    match accepted.media {
        MediaType::Json | MediaType::Protobuf => Ok(accepted),
        MediaType::Yaml => Err(only_accepted(&STREAM_MEDIA_TYPES)),
    }
}

pub(super) fn only_accepted(media_types: &[&str]) -> ApiError {
    ApiError::NotAcceptableKind(format!(
        "only the following media types are accepted: {}",
        media_types.join(", ")
    ))
}

/// The version that `sv` may name in the `Accept` of a request for a resource.
const SERVER_VERSION: Option<&str> = Some("v1");

/// A clause of `Accept`.
pub(super) struct Clause<'a> {
    pub(super) media: (&'a str, &'a str),
    weight: f32,
    pub(super) parameters: Vec<(&'a str, &'a str)>,
}

/// The clauses of `accept`, the weightiest first, wildcards behind their like.
pub(super) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    // Upstream's comparison is not an order (`*/*;q=1` and `a/b;q=0.5` precede each other), so the
    // sorting algorithm matters: a clause moves ahead while it precedes the one before it.
    for end in 1..clauses.len() {
        let mut at = end;
        while at > 0 && clauses[at].precedes(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

impl<'a> Clause<'a> {
    fn parse(clause: &'a str) -> Option<Self> {
        let mut parts = clause.trim().split(';');
        let media = match parts.next()?.split_once('/') {
            Some((_, subtype)) if subtype.contains('/') => return None,
            Some((kind, subtype)) => (kind.trim(), subtype.trim()),
            None if clause.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let (weights, parameters): (Vec<_>, Vec<_>) = parts
            .filter_map(|part| part.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim()))
            .partition(|(key, _)| *key == "q");
        let weight = weights
            .last()
            .map(|(_, value)| value.parse().unwrap_or(0.0));
        Some(Self {
            media,
            weight: weight.unwrap_or(1.0),
            parameters,
        })
    }

    fn precedes(&self, other: &Self) -> bool {
        self.weight > other.weight
            || (self.media.0 != "*" && other.media.0 == "*")
            || (self.media.1 != "*" && other.media.1 == "*")
    }

    fn names(&self, media: MediaType) -> bool {
        match self.media {
            ("*" | "application", "*") => true,
            (kind, subtype) => media.as_str().split_once('/') == Some((kind, subtype)),
        }
    }

    /// The answer's form by the parameters of `media`; `None` when the server does not offer it.
    fn representation(
        &self,
        media: MediaType,
        pretty: bool,
        server_version: Option<&str>,
    ) -> Option<Accepted> {
        let parameter = |key: &str| {
            let values = self.parameters.iter().rev();
            values
                .into_iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let streams = match parameter("stream") {
            None | Some("") => true,
            Some(schema) => schema == "watch" && media != MediaType::Yaml,
        };
        // Resources have one version of the server's own group to name.
        let named = parameter("sv").filter(|version| !version.is_empty());
        if !streams || named.is_some_and(|version| Some(version) != server_version) {
            return None;
        }
        let asked = (parameter("as"), parameter("g"), parameter("v"));
        let version = match asked.2 {
            Some("v1beta1") => "v1beta1",
            _ => "v1",
        };
        let transform = match asked {
            (None, None, None) => Transform::None,
            (Some(kind), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => match kind {
                "Table" if media == MediaType::Protobuf => return None,
                "Table" => Transform::Table,
                "PartialObjectMetadata" => Transform::PartialObjectMetadata,
                "PartialObjectMetadataList" => Transform::PartialObjectMetadataList,
                _ => return None,
            },
            _ => return None,
        };
        Some(Accepted {
            media,
            transform,
            version,
            pretty: pretty || parameter("pretty") == Some("1"),
        })
    }
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
        JSON => Ok(ContentType::Json),
        YAML => Ok(ContentType::Yaml),
        PROTOBUF => Ok(ContentType::Protobuf),
        _ => Err(ApiError::UnknownBodyFormat(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf".to_owned(),
        )),
    }
}

/// Encodes `value` as agreed.
///
/// # Errors
/// `NotAcceptableKind` for a kind without a message, where protobuf was agreed on.
pub(crate) fn encode(value: &Value, accepted: Accepted) -> Result<Bytes, ApiError> {
    let is_indented = accepted.pretty || accepted.media == MediaType::Yaml;
    if is_indented && accepted.media != MediaType::Protobuf && nesting::is_too_wide(value) {
        return Err(cancellation::timeout());
    }
    Ok(match accepted.media {
        MediaType::Protobuf => match protobuf::encode(value) {
            Some(document) => document.bytes(),
            None => return Err(unmarshalable(value)),
        },
        MediaType::Yaml => yaml::to_string(&fields::unfolded(value))
            .into_bytes()
            .into(),
        MediaType::Json if accepted.pretty => pretty::to_vec(value).into(),
        MediaType::Json => {
            let mut text = Vec::new();
            write_answer(&mut text, value);
            text.push(b'\n');
            text.into()
        }
    })
}

/// The refusal of an object that protobuf has no message for.
pub(crate) fn unmarshalable(object: &Value) -> ApiError {
    let kind = object["kind"].as_str().unwrap_or_default();
    ApiError::NotAcceptableKind(format!(
        "object *v1.{kind} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &str) -> Result<(MediaType, Transform, bool), String> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        accepted(&headers, None, Produces::Objects, true)
            .map(|accepted| (accepted.media, accepted.transform, accepted.pretty))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_has_no_table_is_not_shown_as_one() {
        let negotiated = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let accepted = accepted(&headers, None, Produces::Objects, false);
            accepted.map(|own| own.transform).ok()
        };
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(negotiated(table), None);
        let or_plain = format!("{table}, application/json");
        assert_eq!(negotiated(&or_plain), Some(Transform::None));
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(negotiated(metadata), Some(Transform::PartialObjectMetadata));
    }

    #[test]
    fn the_weightiest_clause_that_can_be_served_is_taken() {
        use MediaType::{Json, Yaml};
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let cases = [
            ("application/yaml, application/json", Yaml, Transform::None),
            (
                "application/yaml;q=0.5, application/json",
                Json,
                Transform::None,
            ),
            ("*/*, application/yaml;q=0.1", Yaml, Transform::None),
            ("application/yaml;stream=watch, */*", Json, Transform::None),
            ("application/json;stream=watch", Json, Transform::None),
            (table, Json, Transform::Table),
            (
                "application/json;as=Table;g=meta.k8s.io;v=v9, application/yaml",
                Yaml,
                Transform::None,
            ),
        ];
        for (accept, media, transform) in cases {
            let got = negotiated(accept).map(|(media, transform, _)| (media, transform));
            assert_eq!(got, Ok((media, transform)), "{accept}");
        }
        assert_eq!(
            negotiated("application/json;pretty=1").map(|got| got.2),
            Ok(true)
        );
    }

    #[test]
    fn the_router_and_the_handler_refuse_in_their_own_words() {
        let router = "406: Not Acceptable\n\nAvailable representations: application/json, \
                      application/yaml, application/vnd.kubernetes.protobuf";
        for accept in ["text/plain", "application/*", "application/cbor;q=1"] {
            assert_eq!(negotiated(accept), Err(router.to_owned()), "{accept}");
        }
        let handler = "only the following media types are accepted: application/json, \
                       application/yaml, application/vnd.kubernetes.protobuf";
        for accept in [
            "application/json;as=Nope;g=meta.k8s.io;v=v1",
            "application/json;as=Table",
            "application/json;stream=nope",
            "application/json;sv=v2",
        ] {
            assert_eq!(negotiated(accept), Err(handler.to_owned()), "{accept}");
        }
    }
}
