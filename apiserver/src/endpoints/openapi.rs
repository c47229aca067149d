//! OpenAPI: documents of v3, one for each group version, and the one of v2.
//!
//! They are made when first asked for, from the catalog, the data in the folder of this module,
//! and the custom kinds; JSON and protobuf that was served is kept for the next client.

mod custom;
mod definitions;
mod gnostic;
mod information;
mod names;
mod operations;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderMap, Response, StatusCode};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use parking_lot::Mutex;

use self::definitions::Form;
use self::operations::Paths;
use super::body::ResponseBody;
use super::{discovery, response};
use crate::json::{Map, Value, json};
use crate::registry::catalog::{Catalog, Version};
use crate::registry::definitions::{CustomKind, Definitions, Served as ServedDefinitions};

/// Keys of the documents on service account tokens.
const ISSUER: &str = ".well-known/openid-configuration";
const KEY_SET: &str = "openid/v1/jwks";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// ETags of the documents that every server has, by key.
static BUILTIN_ETAGS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let keys = keys().into_iter();
    keys.map(|key| {
        let etag = etag_v3(&[], &key);
        (key, etag)
    })
    .collect()
});

/// The documents of a server.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    /// Documents that no custom kind changes.
    builtin: Mutex<Served>,
    generation: Mutex<Arc<Generation>>,
}

/// The documents served so far, by key and encoding; the document of v2 has the key `""`.
type Served = BTreeMap<(String, Encoding), Bytes>;

/// The custom kinds at one time, and the documents made from them on demand.
#[derive(Debug, Default)]
struct Generation {
    /// The definitions that declare them.
    definitions: Option<Arc<ServedDefinitions>>,
    custom: Vec<CustomKind>,
    index: OnceLock<Index>,
    v2_etag: OnceLock<String>,
    served: Mutex<Served>,
}

#[derive(Debug)]
struct Index {
    json: Bytes,
    etags: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Encoding {
    Json,
    Protobuf,
}

impl OpenApi {
    /// Describes the custom kinds that `definitions` declare, if these are not the ones described.
    pub(crate) fn follow(&self, definitions: &Definitions) {
        let served = definitions.served();
        let mut generation = self.generation.lock();
        let held = generation.definitions.as_ref();
        if held.is_none_or(|held| !Arc::ptr_eq(held, &served)) {
            *generation = Arc::new(Generation {
                custom: served.documented(),
                definitions: Some(served),
                ..Generation::default()
            });
        }
    }

    #[cfg(test)]
    fn set_custom(&self, kinds: Vec<CustomKind>) {
        let generation = Generation {
            custom: kinds,
            ..Generation::default()
        };
        *self.generation.lock() = Arc::new(generation);
    }

    /// The answer to a GET of `path`, if that is one of OpenAPI.
    pub(crate) fn answer(
        &self,
        path: &str,
        query: &[(String, String)],
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Response<ResponseBody>> {
        match path {
            "/openapi/v2" => return Some(self.v2(headers)),
            "/openapi/v3" => return Some(self.index()),
            _ => {}
        }
        let key = path.strip_prefix("/openapi/v3/")?;
        let hash = query.iter().find(|(name, _)| name == "hash");
        let hash = hash.map(|(_, hash)| hash.as_str());
        Some(self.v3(key, hash, headers, now))
    }

    /// `GET /openapi/v3`: where the document of each group version is, with a hash of its content.
    fn index(&self) -> Response<ResponseBody> {
        // Upstream's handler sets no type, and Go's guess at the content is this one.
        response::whole(
            200,
            "text/plain; charset=utf-8",
            self.generation().index().json.clone(),
        )
    }

    /// `GET /openapi/v3/KEY`, with `key` as in the index: `api/v1`, `apis/apps/v1`, `apis/apps`, ...
    ///
    /// What has the hash that the request names never changes, so it may be kept for a year; a
    /// request for another hash is sent to that of today.
    fn v3(
        &self,
        key: &str,
        hash: Option<&str>,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Response<ResponseBody> {
        let generation = self.generation();
        let Some(etag) = generation.index().etags.get(key) else {
            return response::empty(404);
        };
        let Some(encoding) = accepted(headers, Form::V3) else {
            return not_acceptable();
        };
        let hash = hash.filter(|hash| !hash.is_empty());
        if hash.is_some_and(|hash| hash != etag) {
            let mut response = answer(Bytes::new(), etag, encoding, Form::V3, headers);
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            let location = HeaderValue::from_str(&url(key, etag)).expect("keys are of paths");
            response.headers_mut().insert(LOCATION, location);
            return response;
        }
        let cache = match BUILTIN_ETAGS.contains_key(key) {
            true => &self.builtin,
            false => &generation.served,
        };
        let body = served(cache, key, encoding, || {
            let document = document_v3(&generation.custom, key);
            document.expect("every key of the index has a document")
        });
        let mut response = answer(body, etag, encoding, Form::V3, headers);
        if hash.is_some() {
            let forever = HeaderValue::from_static("public, immutable");
            response.headers_mut().insert(CACHE_CONTROL, forever);
            response.headers_mut().insert(EXPIRES, in_a_year(now));
        }
        response
    }

    /// `GET /openapi/v2`.
    fn v2(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let Some(encoding) = accepted(headers, Form::V2) else {
            return not_acceptable();
        };
        let generation = self.generation();
        let make = || document_v2(&generation.custom);
        let body = served(&generation.served, "", encoding, make);
        let etag = generation.v2_etag.get_or_init(|| hash_of(&make()));
        answer(body, etag, encoding, Form::V2, headers)
    }

    fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.lock())
    }
}

impl Generation {
    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut etags = BUILTIN_ETAGS.clone();
            for key in self.custom.iter().map(custom_key) {
                let etag = |key: &String| etag_v3(&self.custom, key);
                etags.entry(key).or_insert_with_key(etag);
            }
            let paths: Map = etags
                .iter()
                .map(|(key, etag)| (key.clone(), json!({"serverRelativeURL": url(key, etag)})))
                .collect();
            let json = Bytes::from(json!({"paths": paths}).to_string());
            Index { json, etags }
        })
    }
}

/// The cached document, or the document that `make` returns.
fn served(
    cache: &Mutex<Served>,
    key: &str,
    encoding: Encoding,
    make: impl FnOnce() -> Value,
) -> Bytes {
    let at = (key.to_owned(), encoding);
    if let Some(bytes) = cache.lock().get(&at) {
        return bytes.clone();
    }
    let document = make();
    let bytes = match encoding {
        Encoding::Json => Bytes::from(document.to_string()),
        Encoding::Protobuf if key.is_empty() => gnostic::encode_v2(&document),
        Encoding::Protobuf => gnostic::encode_v3(&document),
    };
    cache.lock().insert(at, bytes.clone());
    bytes
}

/// The first encoding of `Accept`, best quality first, that documents have.
fn accepted(headers: &HeaderMap, form: Form) -> Option<Encoding> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    let mut clauses: Vec<(f32, &str)> = accept
        .split(',')
        .map(|clause| {
            let (kind, parameters) = clause.split_once(';').unwrap_or((clause, ""));
            let mut parameters = parameters.split(';');
            let quality = parameters.find_map(|text| text.trim().strip_prefix("q="));
            let quality = quality.and_then(|text| text.parse().ok());
            (quality.unwrap_or(1.0), kind.trim())
        })
        .collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    let version = if form == Form::V2 { "v2" } else { "v3" };
    clauses.into_iter().find_map(|(_, kind)| {
        let kind = kind.replace("@v1.0+", ".v1.0+");
        match kind.as_str() {
            "*/*" | "application/*" | "application/json" => Some(Encoding::Json),
            kind if kind == protobuf_type(version) => Some(Encoding::Protobuf),
            _ => None,
        }
    })
}

fn protobuf_type(version: &str) -> String {
    format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf")
}

fn answer(
    body: Bytes,
    etag: &str,
    encoding: Encoding,
    form: Form,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let content_type = match (encoding, form) {
        (Encoding::Json, _) => "application/json".to_owned(),
        (Encoding::Protobuf, Form::V2) => protobuf_type("v2"),
        (Encoding::Protobuf, Form::V3) => protobuf_type("v3"),
    };
    let etag = format!("\"{etag}\"");
    let held = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let mut response = match held {
        Some(held) if held.split(',').any(|held| held.trim() == etag) => response::empty(304),
        _ => response::whole(200, &content_type, body),
    };
    let etag = HeaderValue::from_str(&etag).expect("a hash is text");
    response.headers_mut().insert(ETAG, etag);
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn not_acceptable() -> Response<ResponseBody> {
    let mut response = response::empty(406);
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn in_a_year(now: Timestamp) -> HeaderValue {
    let then = now.to_zoned(TimeZone::UTC).saturating_add(1.year());
    let text = then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
    HeaderValue::from_str(&text).expect("a date is text")
}

fn url(key: &str, etag: &str) -> String {
    format!("/openapi/v3/{key}?hash={etag}")
}

/// The keys of the documents that every server has.
fn keys() -> BTreeSet<String> {
    let groups = Catalog::builtin().groups();
    let named = groups.iter().filter(|group| !group.name.is_empty());
    let named = named.map(|group| format!("apis/{}", group.name));
    let versions = groups.iter().flat_map(|group| &group.versions);
    let versions = versions.map(|version| discovery::version_path(version)[1..].to_owned());
    let informational = ["api", "apis", "version", ISSUER, KEY_SET].map(str::to_owned);
    versions.chain(named).chain(informational).collect()
}

fn custom_key(kind: &CustomKind) -> String {
    format!("apis/{}/{}", kind.gvk.group, kind.gvk.version)
}

/// The paths of the document `key`; `None` for a document without paths.
fn builtin_paths(key: &str) -> Option<Paths> {
    let catalog = Catalog::builtin();
    let of_meta = |path: &str, tag: &str, id: &str, what: &str, kind: &str| {
        information::answering(path, tag, id, what, &format!("{META}.{kind}"))
    };
    let versions = "get available API versions";
    if key == ISSUER {
        return Some(information::issuer());
    }
    if key == KEY_SET {
        return Some(information::key_set());
    }
    let paths = match key.split('/').collect::<Vec<_>>()[..] {
        ["version"] => information::answering(
            "/version/",
            "version",
            "getCodeVersion",
            "get the version information for this server",
            "io.k8s.apimachinery.pkg.version.Info",
        ),
        ["api"] => of_meta(
            "/api/",
            "core",
            "getCoreAPIVersions",
            versions,
            "APIVersions",
        ),
        ["apis"] => of_meta("/apis/", "apis", "getAPIVersions", versions, "APIGroupList"),
        ["apis", group] => {
            let known = catalog.group(group).filter(|group| !group.name.is_empty());
            let tag = names::group_tag(&known?.name);
            let id = format!("get{}APIGroup", names::capitalized(&tag));
            let what = "get information of a group";
            of_meta(&format!("/apis/{group}/"), &tag, &id, what, "APIGroup")
        }
        ["api", version] => version_paths(catalog.version("", version))?,
        ["apis", group, version] if !group.is_empty() => {
            version_paths(catalog.version(group, version))?
        }
        _ => return None,
    };
    Some(paths)
}

fn version_paths(version: Option<&Version>) -> Option<Paths> {
    version.map(paths::of_version)
}

/// Groups that the part of the server which serves custom resources does not know.
const NOT_OF_CLIENTS: [&str; 4] = [
    "admission.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "imagepolicy.k8s.io",
];

/// The document of v3 at `key`.
fn document_v3(custom: &[CustomKind], key: &str) -> Option<Value> {
    if let Some(paths) = builtin_paths(key) {
        let info = json!({"title": "Kubernetes", "version": discovery::GIT_VERSION});
        let mut document = described_v3(info, &paths, &BTreeMap::new());
        let own = key.split_once('/').map_or("", |(_, own)| own);
        let own = own.split_once('/').unwrap_or(("", own));
        definitions::retain_versions(&mut document, |group, version| {
            group.is_empty() || (group, version) == own
        });
        document["components"]["securitySchemes"] = bearer_token();
        return Some(document);
    }
    let kinds = custom.iter().filter(|kind| custom_key(kind) == key);
    let kinds: Vec<CustomKind> = kinds.cloned().collect();
    if kinds.is_empty() {
        return None;
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    let definitions = custom::definitions_of(&kinds, Form::V3);
    let mut document = described_v3(info, &custom::paths_of(&kinds), &definitions);
    definitions::retain_versions(&mut document, |group, _| !NOT_OF_CLIENTS.contains(&group));
    Some(document)
}

fn described_v3(info: Value, paths: &Paths, custom: &BTreeMap<String, Value>) -> Value {
    let schemas = schemas(paths, custom, Form::V3);
    let mut document = json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": operations::written_paths(paths, Form::V3),
        "components": {},
    });
    if schemas != json!({}) {
        document["components"]["schemas"] = schemas;
    }
    document
}

fn etag_v3(custom: &[CustomKind], key: &str) -> String {
    hash_of(&document_v3(custom, key).expect("a listed key has a document"))
}

/// The document of v2: all paths and definitions in one.
fn document_v2(custom: &[CustomKind]) -> Value {
    let mut paths = custom::paths_of(custom);
    for key in keys() {
        paths.extend(builtin_paths(&key).expect("a listed key has paths"));
    }
    let definitions = custom::definitions_of(custom, Form::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": discovery::GIT_VERSION},
        "paths": operations::written_paths(&paths, Form::V2),
        "definitions": schemas(&paths, &definitions, Form::V2),
        "parameters": operations::shared_parameters(),
        "securityDefinitions": bearer_token(),
        "security": [{"BearerToken": []}],
    })
}

fn schemas(paths: &Paths, custom: &BTreeMap<String, Value>, form: Form) -> Value {
    let found = definitions::closure(operations::definitions_of(paths), custom);
    let written = found
        .into_iter()
        .map(|(name, schema)| (name, definitions::written(schema, form)));
    Value::Object(written.collect())
}

fn bearer_token() -> Value {
    json!({"BearerToken": {
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
        "description": "Bearer Token authentication",
    }})
}

/// 64-bit FNV-1a of a document's JSON, without holding that.
fn hash_of(document: &Value) -> String {
    struct Hasher(u64);
    impl io::Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(0xcbf2_9ce4_8422_2325);
    serde_json::to_writer(&mut hasher, document).expect("hashing cannot fail");
    format!("{:016X}", hasher.0)
}
