//! Aggregated discovery: which requests get it, in which encoding, and that it may be cached.

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
    VARY,
};
use http::{Response, StatusCode};

use super::body::ResponseBody;
use super::negotiation::{Accepted, MediaType, encode};
use super::{discovery, response};
use crate::aggregator::discovery::Remote;
use crate::json::Value;
use crate::registry::catalog::Catalog;

/// The parameters that ask for it and come back with it.
const PARAMETERS: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers `/api` and `/apis` to a client that accepts the aggregated form; `None` for all else.
pub(crate) fn answer(
    (catalog, remote): (&Catalog, Option<&Remote<'_>>),
    path: &str,
    headers: &HeaderMap,
) -> Option<Response<ResponseBody>> {
    let documents = &catalog.documents;
    let remote = remote.filter(|_| path.trim_matches('/') == "apis");
    let (document, made): (fn(&Catalog) -> Value, _) = match path.trim_matches('/') {
        "api" => (discovery::aggregated_api, &documents.aggregated_api),
        "apis" => (discovery::aggregated_apis, &documents.aggregated_apis),
        _ => return None,
    };
    let media = accepted(text(headers, &ACCEPT))?;
    let encoded = || {
        let accepted = Accepted {
            media,
            ..Accepted::JSON
        };
        let mut document = document(catalog);
        if let Some(remote) = remote {
            remote.add_aggregated(&mut document);
        }
        let body = encode(&document, accepted);
        let body = body.expect("builtin.txt has the types of discovery");
        let etag = format!("\"{:016X}\"", fnv1a(&body));
        (body, etag)
    };
    let (body, etag) = match media {
        // What other servers serve changes at any time.
        MediaType::Json if remote.is_none() => made.get_or_init(encoded).clone(),
        _ => encoded(),
    };
    let held = text(headers, &IF_NONE_MATCH) == etag;
    let content_type = format!("{}{PARAMETERS}", media.as_str());
    let mut response = match held {
        true => {
            let mut response = response::whole(200, &content_type, Bytes::new());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
            response
        }
        false => response::whole(200, &content_type, body),
    };
    let headers = response.headers_mut();
    let etag = HeaderValue::from_str(&etag).expect("hexadecimal digits in quotes");
    headers.insert(ETAG, etag);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Some(response)
}

/// Whether a client accepts the aggregated form.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    accepted(text(headers, &ACCEPT)).is_some()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name);
    let value = value.and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// The encoding of the first clause that asks for the aggregated form.
///
/// Neither order nor weight of the other clauses matters: the first handler serves only this form.
fn accepted(accept: &str) -> Option<MediaType> {
    accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = match parts.next().unwrap_or_default() {
            "application/json" | "application/*" | "*/*" => MediaType::Json,
            "application/yaml" => MediaType::Yaml,
            "application/vnd.kubernetes.protobuf" => MediaType::Protobuf,
            _ => return None,
        };
        let (mut group, mut version, mut kind) = ("", "", "");
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "g" => group = value,
                "v" => version = value,
                "as" => kind = value,
                _ => {}
            }
        }
        let asked = (group, version, kind);
        (asked == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")).then_some(media)
    })
}

/// 64-bit FNV-1a: a change of the document changes it, which is all an ETag must do.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(headers: &[(http::HeaderName, &str)]) -> Option<Response<ResponseBody>> {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.parse().unwrap()));
        answer((Catalog::builtin(), None), "/apis", &headers.collect())
    }

    fn asking(version: &str) -> String {
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
    }

    #[test]
    fn it_is_chosen_by_parameters_alone() {
        let v2 = asking("v2");
        for accept in [
            v2.clone(),
            format!("{v2};profile=nopeer"),
            format!("application/json,{v2}"),
            format!("{v2};q=0.5,application/json"),
        ] {
            assert_eq!(accepted(&accept), Some(MediaType::Json), "{accept}");
        }
        for (media, subtype) in [
            (MediaType::Yaml, "yaml"),
            (MediaType::Protobuf, "vnd.kubernetes.protobuf"),
        ] {
            assert_eq!(accepted(&v2.replace("json", subtype)), Some(media));
        }
        for accept in [
            "application/json".to_owned(),
            asking("v2beta1"),
            asking("v9"),
        ] {
            assert_eq!(accepted(&accept), None, "{accept}");
        }
    }

    #[test]
    fn who_holds_the_document_gets_nothing() {
        let accept = asking("v2");
        let first = get(&[(ACCEPT, &accept)]).unwrap();
        assert_eq!(first.headers()[CONTENT_TYPE], accept);
        assert_eq!(first.headers()[VARY], "Accept");
        assert_eq!(first.headers()[CACHE_CONTROL], "public");
        let etag = first.headers()[ETAG].to_str().unwrap();
        let again = get(&[(ACCEPT, &accept), (IF_NONE_MATCH, etag)]).unwrap();
        assert_eq!(again.status(), 304);
        assert_eq!(again.headers().get(CONTENT_TYPE), None);
        let other = get(&[(ACCEPT, &accept), (IF_NONE_MATCH, "\"0\"")]).unwrap();
        assert_eq!(other.status(), 200);
    }
}
