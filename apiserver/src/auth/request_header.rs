//! The user that a proxy in front of the server names in headers.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::{State, User};
use crate::request::options::is_well_escaped;
use crate::x509::{Authorities, Certificate, Usage};

/// The headers that are removed from every request.
const STANDARD: [HeaderName; 3] = [
    HeaderName::from_static("x-remote-user"),
    HeaderName::from_static("x-remote-uid"),
    HeaderName::from_static("x-remote-group"),
];
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// The proxies that may name the user of a request, and the headers in which they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Common names of the certificates of proxies; if empty, every certificate of the authorities
    /// is a proxy's.
    pub allowed_names: Vec<String>,
    /// Headers of which the first that is present has the user name: `X-Remote-User`.
    pub username_headers: Vec<String>,
    /// Headers of which the first that is present has the uid: `X-Remote-Uid`.
    pub uid_headers: Vec<String>,
    /// Headers whose values are groups: `X-Remote-Group`.
    pub group_headers: Vec<String>,
    /// Prefixes of the headers whose values are extra: `X-Remote-Extra-`.
    pub extra_header_prefixes: Vec<String>,
}

/// [`RequestHeaders`] with the authorities of the proxies' certificates.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    pub(crate) headers: RequestHeaders,
    pub(crate) authorities: Authorities,
}

impl Proxies {
    /// The user that the headers of a proxy's request name; `None` if they name none.
    ///
    /// # Errors
    /// The reason why the certificate is not a proxy's.
    pub(super) fn user(
        &self,
        state: &State,
        chain: &[CertificateDer<'static>],
        headers: &HeaderMap,
    ) -> Result<Option<User>, String> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Ok(None);
        };
        let leaf = Certificate::read(leaf)?;
        let now = state.clock.now();
        self.authorities
            .verify(&leaf, intermediates, Usage::Client, now)?;
        let name = leaf.subject().common_name;
        let allowed = &self.headers.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&name) {
            return Err(format!(
                "x509: subject with cn={name} is not in the allowed list"
            ));
        }
        Ok(self.named(headers))
    }

    fn named(&self, headers: &HeaderMap) -> Option<User> {
        let all = |name: &String| {
            let values = headers.get_all(name.trim().to_ascii_lowercase());
            let values: Vec<String> = values.iter().map(super::impersonation::text).collect();
            values
        };
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| all(name).into_iter().next());
            values.find(|value| !value.is_empty())
        };
        let own = &self.headers;
        let name = first(&own.username_headers)?;
        let groups = own.group_headers.iter().flat_map(all);
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &own.extra_header_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for header in headers.keys() {
                let Some(key) = header.as_str().strip_prefix(&prefix) else {
                    continue;
                };
                let key = match is_well_escaped(key) {
                    true => percent_decode_str(key).decode_utf8_lossy().into_owned(),
                    false => key.to_owned(),
                };
                let values = extra.entry(key).or_default();
                values.extend(all(&header.as_str().to_owned()));
            }
        }
        Some(User {
            name,
            uid: first(&own.uid_headers).unwrap_or_default(),
            groups: groups.filter(|group| !group.is_empty()).collect(),
            extra,
        })
    }
}

/// Removes the headers by which proxies name users, so that nothing behind authentication sees them.
pub(crate) fn clear(headers: &mut HeaderMap, proxies: Option<&Proxies>) {
    for name in &STANDARD {
        headers.remove(name);
    }
    remove_prefixed(headers, STANDARD_EXTRA);
    let Some(Proxies { headers: own, .. }) = proxies else {
        return;
    };
    let names = own.username_headers.iter().chain(&own.uid_headers);
    for name in names.chain(&own.group_headers) {
        headers.remove(name.trim().to_ascii_lowercase());
    }
    for prefix in &own.extra_header_prefixes {
        remove_prefixed(headers, &prefix.to_ascii_lowercase());
    }
}

fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let prefixed = headers.keys();
    let prefixed = prefixed.filter(|name| name.as_str().starts_with(prefix));
    // Without such headers, the vector does not allocate.
    for name in prefixed.cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
}
