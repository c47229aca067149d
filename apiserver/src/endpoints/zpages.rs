//! `/statusz` and `/flagz`: facts about the server as text, and as versioned objects.
//!
//! Source: apiserver `pkg/server/statusz` and `pkg/server/flagz`.

use http::header::{HeaderValue, WARNING};
use http::{HeaderMap, Response};
use jiff::Timestamp;

use super::body::ResponseBody;
use super::discovery;
use super::negotiation::{self, Accepted, MediaType};
use super::response;
use crate::admission::AdmissionPlugins;
use crate::json::{Value, json};
use crate::metrics::families::Family;
use crate::registry::core::service::ServiceRanges;

const COMPONENT: &str = "apiserver";
const GROUP: &str = "config.k8s.io";
/// The paths that `/statusz` lists.
const PATHS: [&str; 7] = [
    "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version",
];
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "text/plain"];

/// The facts that the pages show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) started: Timestamp,
    pub(crate) now: Timestamp,
    /// The authorization modes as the flag shows them.
    pub(crate) authorization: &'a str,
    /// The admission plugins that are on.
    pub(crate) plugins: AdmissionPlugins,
    /// The addresses and ports of services.
    pub(crate) service_ranges: ServiceRanges,
}

/// One of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Statusz,
    Flagz,
}

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Object {
        media: MediaType,
        version: &'static str,
    },
}

impl Page {
    /// The page at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/statusz" => Some(Self::Statusz),
            "/flagz" => Some(Self::Flagz),
            _ => None,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Statusz => "Statusz",
            Self::Flagz => "Flagz",
        }
    }

    /// The page in the form that the client accepts.
    pub(crate) fn answer(self, facts: Facts<'_>, headers: &HeaderMap) -> Response<ResponseBody> {
        match self.form(headers) {
            None => {
                let refusal = negotiation::only_accepted(&MEDIA_TYPES);
                let accepted = Accepted {
                    pretty: true,
                    ..Accepted::JSON
                };
                response::error(&refusal, accepted)
            }
            Some(Form::Text) => {
                let text = self.text(facts);
                response::whole(200, "text/plain; charset=utf-8", text)
            }
            Some(Form::Object { media, version }) => {
                let accepted = Accepted {
                    media,
                    pretty: true,
                    ..Accepted::JSON
                };
                let body = negotiation::encode(&self.object(facts, version), accepted);
                let body = body.expect("pages come as JSON or YAML");
                let (media, kind) = (media.as_str(), self.kind());
                let content_type = format!("{media};g={GROUP};v={version};as={kind}");
                let mut response = response::whole(200, &content_type, body);
                if version == "v1alpha1" {
                    let page = kind.to_lowercase();
                    let warning = format!(
                        "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
                    );
                    let warning = HeaderValue::try_from(warning).expect("the text is ASCII");
                    response.headers_mut().insert(WARNING, warning);
                }
                response
            }
        }
    }

    /// The first form that the client accepts of those there are.
    fn form(self, headers: &HeaderMap) -> Option<Form> {
        let Some(accept) = negotiation::accept_header(headers) else {
            return Some(Form::Text);
        };
        negotiation::clauses(accept).iter().find_map(|clause| {
            let parameter = |name: &str| {
                let mut own = clause.parameters.iter();
                own.find(|(own, _)| *own == name).map(|(_, value)| *value)
            };
            let is_plain = clause.parameters.iter().all(|(name, _)| *name == "q");
            let media = match clause.media {
                ("*", "*") | ("text", "plain" | "*") => return is_plain.then_some(Form::Text),
                ("application", "json") => MediaType::Json,
                ("application", "yaml") => MediaType::Yaml,
                _ => return None,
            };
            if parameter("g") != Some(GROUP) || parameter("as") != Some(self.kind()) {
                return None;
            }
            let versions = ["v1alpha1", "v1beta1"];
            let version = versions
                .into_iter()
                .find(|own| parameter("v") == Some(*own))?;
            Some(Form::Object { media, version })
        })
    }

    fn object(self, facts: Facts<'_>, version: &str) -> Value {
        let mut object = json!({
            "kind": self.kind(),
            "apiVersion": format!("{GROUP}/{version}"),
            "metadata": {"name": COMPONENT},
        });
        match self {
            Self::Statusz => {
                let (binary, emulated) = versions();
                object["startTime"] = crate::clock::rfc3339(facts.started).into();
                object["uptimeSeconds"] = uptime(facts).into();
                object["goVersion"] = go_version().into();
                object["binaryVersion"] = binary.into();
                object["emulationVersion"] = emulated.into();
                object["paths"] = json!(PATHS);
            }
            Self::Flagz => {
                let flags = flags(facts).into_iter();
                let flags =
                    flags.map(|(name, value)| (name.to_owned(), Value::String(value.into())));
                object["flags"] = Value::Object(flags.collect());
            }
        }
        object
    }

    fn text(self, facts: Facts<'_>) -> String {
        let page = self.kind().to_lowercase();
        let head = format!(
            "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no \
             formatting compatibility guarantees and is for debugging purposes only.\n"
        );
        // Upstream draws the separator at random, so that clients do not parse the text.
        match self {
            Self::Statusz => {
                let started = facts.started.strftime("%a %b %e %H:%M:%S UTC %Y");
                let up = uptime(facts);
                let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
                let (binary, emulated) = versions();
                let (go, paths) = (go_version(), PATHS.join(" "));
                format!(
                    "{head}\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
                     Go version: {go}\nBinary version: {binary}\nEmulation version: {emulated}\n\
                     Paths: {paths}\n"
                )
            }
            Self::Flagz => {
                let flags = flags(facts).into_iter();
                let lines = flags.map(|(name, value)| format!("{name}: {value}\n"));
                head + &lines.collect::<String>()
            }
        }
    }
}

/// The version of the server, and the emulated version.
fn versions() -> (&'static str, &'static str) {
    let binary = discovery::GIT_VERSION.trim_start_matches('v');
    let emulated = binary.rsplit_once('.').map_or(binary, |(minor, _)| minor);
    (binary, emulated)
}

/// Metrics of the build, of its versions and of the feature gate that can be set.
pub(crate) fn families(max_unavailable_stateful_set: bool) -> Vec<Family> {
    let version: Value = serde_json::from_str(discovery::VERSION).unwrap_or_default();
    let labels = [
        ("build_date", "buildDate"),
        ("compiler", "compiler"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("git_version", "gitVersion"),
        ("go_version", "goVersion"),
        ("major", "major"),
        ("minor", "minor"),
        ("platform", "platform"),
    ];
    let labels = labels.map(|(label, field)| (label, version[field].as_str().unwrap_or_default()));
    let mut build = Family::gauge(
        "kubernetes_build_info",
        "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    );
    build.add(&labels, 1);
    let (binary, emulation) = versions();
    let text = |field: &str| version[field].as_str().unwrap_or_default();
    let (major, minor) = ("minCompatibilityMajor", "minCompatibilityMinor");
    let min_compat = format!("{}.{}", text(major), text(minor));
    let mut info = Family::gauge(
        "version_info",
        "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.",
    );
    let labels = [
        ("binary", binary),
        ("component", "kube"),
        ("emulation", emulation),
        ("min_compat", &min_compat),
    ];
    info.add(&labels, 1);
    let mut features = Family::gauge(
        "kubernetes_feature_enabled",
        "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
    );
    let labels = [("name", "MaxUnavailableStatefulSet"), ("stage", "BETA")];
    features.add(&labels, u64::from(max_unavailable_stateful_set));
    vec![build, info, features]
}

/// The version of Go that `/version` states.
fn go_version() -> String {
    let version: Value = serde_json::from_str(discovery::VERSION).unwrap_or_default();
    version["goVersion"].as_str().unwrap_or_default().to_owned()
}

fn uptime(facts: Facts<'_>) -> i64 {
    facts.now.duration_since(facts.started).as_secs().max(0)
}

/// The flags of a kube-apiserver that describe this server too, in the order of their names.
fn flags(facts: Facts<'_>) -> Vec<(&'static str, String)> {
    let mode = facts.authorization;
    let ports = facts.service_ranges.node_ports();
    let node_ports = format!("{}-{}", ports.start(), ports.end());
    let (enabled, disabled) = facts.plugins.flags();
    let has_optional = !enabled.is_empty();
    let [enabled, disabled] = [enabled, disabled].map(|own| format!("[{}]", own.join(",")));
    let flags = [
        ("allow-privileged", "true"),
        ("authorization-mode", mode),
        ("delete-collection-workers", "1"),
        ("disable-admission-plugins", disabled.as_str()),
        ("enable-admission-plugins", enabled.as_str()),
        ("enable-priority-and-fairness", "true"),
        ("max-mutating-requests-inflight", "200"),
        ("max-requests-inflight", "400"),
        ("request-timeout", "1m0s"),
        ("service-node-port-range", node_ports.as_str()),
    ];
    let is_shown = |(name, _): &(&str, &str)| *name != "enable-admission-plugins" || has_optional;
    let flags = flags.into_iter().filter(is_shown);
    flags
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}
