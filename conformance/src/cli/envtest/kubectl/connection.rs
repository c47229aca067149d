//! The connection to the server: the kubeconfig's chosen context, with the flags laid over it.
//!
//! Source: client-go `tools/clientcmd/client_config.go`.

use std::time::Duration;

use http::header::{ACCEPT, WARNING};
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use kubeproof_apiserver::warning_text;
use kubeproof_machinery::json::{Value, from_value, json};

use super::failure::{Failure, Refused, unanswered};
use super::kubeconfig::{Files, Merged};
use crate::cli::out;
use crate::cli::pflag::Parsed;

/// The server that a command talks to.
pub(super) struct Connection {
    client: Client,
    /// The address, as failures name it.
    host: String,
    /// The namespace of the flag or the context.
    pub(super) namespace: String,
    /// Whether a flag names the namespace.
    pub(super) has_namespace_flag: bool,
    timeout: Option<Duration>,
    fails_on_warnings: bool,
}

/// A successful response.
pub(super) struct Answered {
    pub(super) body: Vec<u8>,
}

impl Answered {
    pub(super) fn json(&self) -> Result<Value, Refused> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Refused::Unanswered(Failure::error(format_args!(
                "the server's response cannot be read: {error}"
            )))
        })
    }
}

impl Connection {
    pub(super) async fn open(flags: &Parsed) -> Result<Self, Failure> {
        let files = Files::load(flags.text("kubeconfig"))?;
        files.require()?;
        let timeout = timeout(flags.text("request-timeout").unwrap_or_default())?;
        let (kubeconfig, namespace) = chosen(&files.merged(), flags)?;
        let unusable = |error: &dyn std::fmt::Display| Failure::error(error);
        let kubeconfig: Kubeconfig = from_value(kubeconfig).map_err(|error| unusable(&error))?;
        let config = crate::cli::kubeconfig::current(kubeconfig).await;
        let config = config.map_err(|error| unusable(&error))?;
        let authority = config.cluster_url.authority();
        let host = authority.map(ToString::to_string).unwrap_or_default();
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        Ok(Self {
            client,
            host,
            namespace,
            has_namespace_flag: flags.text("namespace").is_some(),
            timeout,
            fails_on_warnings: flags.is_on("warnings-as-errors"),
        })
    }

    /// Reads a path of the server.
    pub(super) async fn read(&self, path: &str, accept: &'static str) -> Result<Answered, Refused> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| Refused::Unanswered(Failure::error(error)))?;
        self.send(request, accept).await
    }

    /// Sends a request. The server's warnings go to standard error.
    pub(super) async fn send(
        &self,
        request: Request<Vec<u8>>,
        accept: &'static str,
    ) -> Result<Answered, Refused> {
        let mut request = request.map(Body::from);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let answered = self.answered(request);
        match self.timeout {
            None => answered.await,
            Some(limit) => match tokio::time::timeout(limit, answered).await {
                Ok(answered) => answered,
                Err(_) => Err(Refused::Unanswered(Failure(
                    "Unable to connect to the server: net/http: request canceled \
                     (Client.Timeout exceeded while awaiting headers)"
                        .to_owned(),
                ))),
            },
        }
    }

    async fn answered(&self, request: Request<Body>) -> Result<Answered, Refused> {
        let lost = |error: &(dyn std::error::Error + 'static)| {
            Refused::Unanswered(unanswered(&self.host, error))
        };
        let response = self.client.send(request).await;
        let response = response.map_err(|error| lost(&error))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| lost(&error))?;
        let body = body.to_bytes();
        let warnings = head.headers.get_all(WARNING).iter();
        let warnings: Vec<String> = warnings.filter_map(warning_text).collect();
        for warning in &warnings {
            out::note(&format!("Warning: {warning}"));
        }
        if !head.status.is_success() {
            return Err(Refused::of(head.status.as_u16(), &body));
        }
        if self.fails_on_warnings && !warnings.is_empty() {
            let word = match warnings.len() {
                1 => "warning",
                _ => "warnings",
            };
            return Err(Refused::Unanswered(Failure::error(format_args!(
                "{} {word} received",
                warnings.len()
            ))));
        }
        Ok(Answered { body: body.into() })
    }
}

/// Reads `--request-timeout`: whole seconds, or a number with a unit. Zero is no limit.
fn timeout(text: &str) -> Result<Option<Duration>, Failure> {
    let limit = match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => crate::cli::pflag::duration(text),
    };
    match limit {
        Some(limit) => Ok((!limit.is_zero()).then_some(limit)),
        None => Err(Failure::error(format_args!(
            "invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a \
             corresponding time unit (e.g. 1s | 2m | 3h)"
        ))),
    }
}

/// Returns a kubeconfig with one context, and the namespace.
fn chosen(merged: &Merged, flags: &Parsed) -> Result<(Value, String), Failure> {
    let context_name = flags.text("context").unwrap_or(&merged.current_context);
    let context = match merged.contexts.get(context_name) {
        Some(context) => context.clone(),
        None if context_name.is_empty() => json!({}),
        None => {
            return Err(Failure(format!(
                "Error in configuration: context was not found for specified context: {context_name}"
            )));
        }
    };
    let field = |name: &str| context[name].as_str().unwrap_or_default();
    let cluster_name = flags.text("cluster").unwrap_or(field("cluster"));
    let cluster = match merged.clusters.get(cluster_name) {
        Some(cluster) => cluster.clone(),
        None if cluster_name.is_empty() || flags.text("server").is_some() => json!({}),
        None => {
            return Err(Failure::error(format_args!(
                "no server found for cluster {cluster_name:?}"
            )));
        }
    };
    let user_name = flags.text("user").unwrap_or(field("user"));
    let user = match merged.users.get(user_name) {
        Some(user) => user.clone(),
        None if user_name.is_empty() => json!({}),
        None => {
            return Err(Failure::error(format_args!(
                "auth info {user_name:?} does not exist"
            )));
        }
    };
    let namespace = flags.text("namespace").unwrap_or(field("namespace"));
    let namespace = match namespace {
        "" => "default",
        namespace => namespace,
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "chosen", "cluster": laid_over_cluster(cluster, flags)}],
        "users": [{"name": "chosen", "user": laid_over_user(user, flags)}],
        "contexts": [{"name": "chosen",
            "context": {"cluster": "chosen", "user": "chosen", "namespace": namespace}}],
        "current-context": "chosen",
    });
    Ok((config, namespace.to_owned()))
}

fn laid_over_cluster(mut cluster: Value, flags: &Parsed) -> Value {
    for field in ["server", "tls-server-name"] {
        if let Some(text) = flags.text(field) {
            cluster[field] = text.into();
        }
    }
    if let Some(path) = flags.text("certificate-authority") {
        cluster["certificate-authority"] = path.into();
        cluster["certificate-authority-data"] = Value::Null;
    }
    if flags.is_set("insecure-skip-tls-verify") {
        let skip = flags.is_on("insecure-skip-tls-verify");
        cluster["insecure-skip-tls-verify"] = skip.into();
        if skip {
            cluster["certificate-authority"] = Value::Null;
            cluster["certificate-authority-data"] = Value::Null;
        }
    }
    let server = match cluster["server"].as_str() {
        Some(server) if !server.is_empty() => server,
        _ => "http://localhost:8080",
    };
    if !server.contains("://") {
        let authority = ["certificate-authority", "certificate-authority-data"];
        let has_authority = authority.iter().any(|field| cluster[*field].is_string());
        let is_insecure = cluster["insecure-skip-tls-verify"] == true;
        let scheme = match has_authority || is_insecure {
            true => "https",
            false => "http",
        };
        cluster["server"] = format!("{scheme}://{server}").into();
    } else {
        cluster["server"] = server.into();
    }
    cluster
}

fn laid_over_user(mut user: Value, flags: &Parsed) -> Value {
    for (flag, field, other) in [
        (
            "client-certificate",
            "client-certificate",
            "client-certificate-data",
        ),
        ("client-key", "client-key", "client-key-data"),
        ("token", "token", "tokenFile"),
        ("username", "username", ""),
        ("password", "password", ""),
        ("as", "as", ""),
        ("as-uid", "as-uid", ""),
    ] {
        if let Some(text) = flags.text(flag) {
            user[field] = text.into();
            if !other.is_empty() {
                user[other] = Value::Null;
            }
        }
    }
    let groups = flags.all("as-group");
    if !groups.is_empty() {
        user["as-groups"] = groups.into();
    }
    user
}

#[cfg(test)]
mod tests {
    use super::super::flags::{Line, read};
    use super::*;

    fn flags(text: &str) -> Parsed {
        match read(text.split_whitespace().map(str::to_owned)) {
            Ok(Line::Command(_, parsed)) => parsed,
            _ => panic!("{text}"),
        }
    }

    fn merged() -> Merged {
        let mut merged = Merged {
            current_context: "one".to_owned(),
            ..Merged::default()
        };
        let context = json!({"cluster": "c", "user": "u", "namespace": "n"});
        merged.contexts.insert("one".to_string(), context);
        let cluster = json!({"server": "https://s", "certificate-authority-data": "x"});
        merged.clusters.insert("c".to_string(), cluster);
        let user = json!({"client-certificate-data": "x", "client-key-data": "y"});
        merged.users.insert("u".to_string(), user);
        merged
    }

    #[test]
    fn flags_are_laid_over_the_chosen_context() {
        let line =
            "get --certificate-authority=/ca --client-key=/key --as a --as-group=g --as-group=h";
        let (config, namespace) = chosen(&merged(), &flags(line)).unwrap();
        assert_eq!(namespace, "n");
        let cluster = json!({"server": "https://s", "certificate-authority": "/ca",
            "certificate-authority-data": null});
        assert_eq!(config["clusters"][0]["cluster"], cluster);
        let user = json!({"client-certificate-data": "x", "client-key": "/key", "client-key-data": null,
            "as": "a", "as-groups": ["g", "h"]});
        assert_eq!(config["users"][0]["user"], user);
    }

    #[test]
    fn without_a_kubeconfig_the_flags_suffice() {
        let of = |line: &str| {
            let (config, namespace) = chosen(&Merged::default(), &flags(line)).unwrap();
            assert_eq!(namespace, "default");
            config["clusters"][0]["cluster"]["server"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(of("get"), "http://localhost:8080");
        assert_eq!(of("get -s 127.0.0.1:1"), "http://127.0.0.1:1");
        assert_eq!(
            of("get -s 127.0.0.1:1 --certificate-authority=/ca"),
            "https://127.0.0.1:1"
        );
    }

    #[test]
    fn names_without_an_entry_are_refused() {
        for (line, why) in [
            (
                "get --context no",
                "Error in configuration: context was not found for specified context: no",
            ),
            (
                "get --cluster no",
                "error: no server found for cluster \"no\"",
            ),
            ("get --user no", "error: auth info \"no\" does not exist"),
        ] {
            let failure = chosen(&merged(), &flags(line)).unwrap_err();
            assert_eq!(failure.0, why);
        }
    }

    #[test]
    fn timeouts_are_seconds_or_have_a_unit() {
        assert_eq!(timeout("0"), Ok(None));
        assert_eq!(timeout("5"), Ok(Some(Duration::from_secs(5))));
        assert_eq!(timeout("1m5s"), Ok(Some(Duration::from_secs(65))));
        assert!(timeout("soon").is_err());
    }
}
