//! Questions to a running API server.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use ureq::tls::{TlsConfig, TlsProvider};

use super::json::Json;

/// A server's answer to a GET.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// HTTP status code.
    pub(crate) status: u16,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// The body.
    pub(crate) body: String,
}

/// An API server.
pub(crate) trait Server {
    /// Sends a GET for `path` that accepts the media type `accept`.
    ///
    /// # Errors
    /// No answer.
    fn ask(&self, path: &str, accept: &str) -> anyhow::Result<Answer>;

    /// The JSON document at `path`.
    ///
    /// # Errors
    /// No answer, another status than 200, or no JSON.
    fn document(&self, path: &str, accept: &str) -> anyhow::Result<Json> {
        let answer = self.ask(path, accept)?;
        ensure!(
            answer.status == 200,
            "GET {path}: {} {}",
            answer.status,
            answer.body
        );
        Json::parse(&answer.body).with_context(|| format!("GET {path}: the body is not JSON"))
    }
}

/// A server at a URL, asked with a token. Its certificate is not verified.
pub(crate) struct Remote {
    agent: ureq::Agent,
    url: String,
    token: String,
}

impl Remote {
    /// A server at `url`.
    pub(crate) fn new(url: &str, token: &str) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .disable_verification(true)
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            url: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
        }
    }
}

impl Server for Remote {
    fn ask(&self, path: &str, accept: &str) -> anyhow::Result<Answer> {
        let url = format!("{}{path}", self.url);
        let request = self.agent.get(&url).header("Accept", accept);
        let request = request.header("Authorization", format!("Bearer {}", self.token));
        let mut response = request.call().with_context(|| format!("GET {url}"))?;
        let warnings = response.headers().get_all("Warning").iter();
        let warnings = warnings.map(|value| warning(value.to_str()?));
        let warnings = warnings.collect::<anyhow::Result<_>>()?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(u64::MAX);
        Ok(Answer {
            status,
            warnings,
            body: body
                .read_to_string()
                .with_context(|| format!("GET {url}"))?,
        })
    }
}

/// The text of the header `299 - "TEXT"`.
fn warning(header: &str) -> anyhow::Result<String> {
    let quoted = header
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'));
    let Some((text, _)) = quoted else {
        bail!("the Warning header {header:?} has no quoted text");
    };
    Ok(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// A server with prepared answers, for tests.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Canned(std::collections::BTreeMap<String, Answer>);

#[cfg(test)]
impl Canned {
    /// Answers `body` to requests for `path`, for tables to those for `path` and ` as=Table`.
    pub(crate) fn with(mut self, path: &str, body: &str) -> Self {
        let answer = Answer {
            status: 200,
            warnings: Vec::new(),
            body: body.to_owned(),
        };
        self.0.insert(path.to_owned(), answer);
        self
    }

    /// Adds a warning to the answer for `path`.
    pub(crate) fn warning(mut self, path: &str, text: &str) -> Self {
        let answer = self.0.get_mut(path).unwrap();
        answer.warnings.push(text.to_owned());
        self
    }

    /// Answers a failure with `message` to requests for `path`.
    pub(crate) fn failing(self, path: &str, message: &str) -> Self {
        let mut own = self.with(path, &serde_json::json!({"message": message}).to_string());
        own.0.get_mut(path).unwrap().status = 400;
        own
    }
}

#[cfg(test)]
impl Server for Canned {
    fn ask(&self, path: &str, accept: &str) -> anyhow::Result<Answer> {
        let key = match accept.contains("as=Table") {
            true => format!("{path} as=Table"),
            false => path.to_owned(),
        };
        let answer = self.0.get(&key);
        answer.cloned().with_context(|| format!("{key} is unknown"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_what_stands_between_the_quotes() {
        let text = warning(r#"299 - "v1 \"Endpoints\" is deprecated""#).unwrap();
        assert_eq!(text, r#"v1 "Endpoints" is deprecated"#);
        assert!(warning("299 - none").is_err());
    }
}
