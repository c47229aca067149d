//! The policy document, read and checked as upstream does.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::event::{Level, Stage};
use crate::json::{Value, json};
use crate::meta::GroupVersion;
use crate::meta::validation::dns1123_subdomain;
use crate::schema::{self, Field, FieldValidation, Object, Schema};
use crate::status::{FieldErrors, FieldPath};
use crate::yaml::decode::Yaml;

const GROUP: &str = "audit.k8s.io";
const VERSION: &str = "v1";
const KIND: &str = "Policy";
/// The place where upstream makes the scheme of audit kinds.
const SCHEME: &str = "k8s.io/apiserver/pkg/audit/scheme.go:30";

/// The reason why a policy cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

/// Rules about which requests are audited, and how much of them.
///
/// ```
/// use kubeproof_apiserver::audit::{Level, Policy};
///
/// let policy = Policy::read(b"
/// apiVersion: audit.k8s.io/v1
/// kind: Policy
/// rules:
/// - level: Metadata
///   resources: [{group: '', resources: [secrets]}]
/// - level: RequestResponse
/// ")?;
/// assert_eq!(policy.rules[1].level, Level::RequestResponse);
/// # Ok::<(), kubeproof_apiserver::audit::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The rules; the first that matches a request counts. A request that none matches is not audited.
    pub rules: Vec<Rule>,
    /// Stages without events, in addition to those of each rule.
    pub omit_stages: Vec<Stage>,
    /// Whether objects are recorded without `managedFields`, where a rule does not say.
    pub omit_managed_fields: bool,
}

/// A rule of a [`Policy`]. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The level of matching requests.
    pub level: Level,
    /// Names of users.
    pub users: Vec<String>,
    /// Groups, one of which a user must be in.
    pub user_groups: Vec<String>,
    /// Verbs.
    pub verbs: Vec<String>,
    /// Resources, by group.
    pub resources: Vec<GroupResources>,
    /// Namespaces; the empty text is that of cluster-scoped resources.
    pub namespaces: Vec<String>,
    /// Paths that name no resource. A `*` at the end matches any rest.
    pub non_resource_urls: Vec<String>,
    /// Stages without events.
    pub omit_stages: Vec<Stage>,
    /// Whether objects are recorded without `managedFields`; `None` is the policy's own setting.
    pub omit_managed_fields: Option<bool>,
}

/// Resources of an API group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResources {
    /// The group; empty for the core group, `*` for all.
    pub group: String,
    /// Resources such as `pods`, `pods/log`, `pods/*`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Names of objects.
    pub resource_names: Vec<String>,
}

/// The type of a policy, as far as it is read.
static POLICY: LazyLock<Arc<Object>> = LazyLock::new(|| {
    let text = || Schema::String("string".into());
    let texts = || Schema::list(text(), None, &[]);
    let stages = || Schema::list(Schema::String("v1.Stage".into()), None, &[]);
    let object = |name: &str, fields: Vec<(&'static str, Schema)>| {
        let fields = fields.into_iter();
        let fields = fields.map(|(name, schema)| Field::optional(name, schema));
        Arc::new(Object::custom(name, fields.collect()))
    };
    let resources = object(
        "GroupResources",
        vec![
            ("group", text()),
            ("resources", texts()),
            ("resourceNames", texts()),
        ],
    );
    let rule = object(
        "PolicyRule",
        vec![
            ("level", Schema::String("v1.Level".into())),
            ("users", texts()),
            ("userGroups", texts()),
            ("verbs", texts()),
            (
                "resources",
                Schema::list(Schema::Object(resources), None, &[]),
            ),
            ("namespaces", texts()),
            ("nonResourceURLs", texts()),
            ("omitStages", stages()),
            ("omitManagedFields", Schema::Bool),
        ],
    );
    let metadata = Schema::Object(Arc::clone(schema::object_meta()));
    object(
        KIND,
        vec![
            ("kind", text()),
            ("apiVersion", text()),
            ("metadata", metadata),
            ("rules", Schema::list(Schema::Object(rule), None, &[])),
            ("omitStages", stages()),
            ("omitManagedFields", Schema::Bool),
        ],
    )
});

impl Policy {
    /// Reads a policy in YAML or JSON. Unknown fields are logged and ignored, as upstream does.
    ///
    /// # Errors
    /// Upstream's message about the first fault.
    pub fn read(text: &[u8]) -> Result<Self, PolicyError> {
        let failed = |why: &str| PolicyError(format!("failed decoding: {why}"));
        let Yaml { json, duplicates } = Yaml::parse(text).map_err(|why| failed(&why))?;
        let json: &[u8] = if *json == *b"null" { b"{}" } else { &json };
        let stated: Value = serde_json::from_slice(json).map_err(|why| failed(&why.to_string()))?;
        check_kind(&stated)?;
        let decoded = schema::decode_json(&POLICY, json, FieldValidation::Warn);
        let decoded = decoded.map_err(|why| failed(&why.to_string()))?;
        let faults = [duplicates, decoded.warnings].concat();
        if !faults.is_empty() {
            let error = format!("strict decoding error: {}", faults.join(", "));
            tracing::warn!(error, "audit policy contains errors and is read leniently");
        }
        Self::of(&decoded.value)
    }

    /// Reads the policy in a file.
    ///
    /// # Errors
    /// Upstream's message about the file or the policy.
    pub fn read_file(path: &Path) -> Result<Self, PolicyError> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| {
            let why = format!("open {shown}: {}", go_error(&error));
            PolicyError(format!(
                "failed to read file path {:?}: {why}",
                shown.to_string()
            ))
        })?;
        Self::read(&text).map_err(|why| PolicyError(format!("{why}: from file {shown}")))
    }

    /// Takes over and checks a decoded policy.
    fn of(policy: &Value) -> Result<Self, PolicyError> {
        let mut errors = FieldErrors::new();
        let omit_stages = stages(policy, &FieldPath::new("omitStages"), &mut errors);
        let rules = policy["rules"].as_array().into_iter().flatten();
        let path = FieldPath::new("rules");
        let rules = rules
            .enumerate()
            .map(|(at, rule)| Rule::of(rule, &path.index(at), &mut errors));
        let policy = Self {
            rules: rules.collect(),
            omit_stages,
            omit_managed_fields: policy["omitManagedFields"] == true,
        };
        if !errors.is_empty() {
            return Err(PolicyError(errors.to_string()));
        }
        match policy.rules.is_empty() {
            true => Err(PolicyError("loaded illegal policy with 0 rules".to_owned())),
            false => Ok(policy),
        }
    }
}

/// Checks the kind that a document states; a missing kind is that of a policy.
fn check_kind(stated: &Value) -> Result<(), PolicyError> {
    let text = |field: &str| stated[field].as_str().unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let shown = if kind.is_empty() { KIND } else { kind };
    if api_version.is_empty() {
        // Upstream decodes into its internal version.
        let why = format!("unknown group version field {GROUP}/__internal, Kind={shown} in policy");
        return Err(PolicyError(why));
    }
    let version = GroupVersion::parse(api_version).ok_or_else(|| {
        PolicyError(format!(
            "failed decoding: couldn't get version/kind; json parse error: unexpected GroupVersion string: {api_version}"
        ))
    })?;
    if version.group == GROUP && version.version == VERSION && shown == KIND {
        return Ok(());
    }
    Err(PolicyError(format!(
        "failed decoding: no kind {shown:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
    )))
}

impl Rule {
    /// Takes over a rule; its faults go to `errors`.
    fn of(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) -> Self {
        let level = level(rule, &path.child("level"), errors);
        let non_resource_urls = texts(rule, "nonResourceURLs");
        let url_path = path.child("nonResourceURLs");
        check_urls(&non_resource_urls, &url_path, errors);
        let resources = rule["resources"].as_array().into_iter().flatten();
        let resources = resources.map(|own| GroupResources {
            group: own["group"].as_str().unwrap_or_default().to_owned(),
            resources: texts(own, "resources"),
            resource_names: texts(own, "resourceNames"),
        });
        let resources: Vec<GroupResources> = resources.collect();
        let namespaces = texts(rule, "namespaces");
        check_resources(&resources, &path.child("resources"), errors);
        let omit_stages = stages(rule, &path.child("omitStages"), errors);
        let has_resources = !resources.is_empty() || !namespaces.is_empty();
        if has_resources && !non_resource_urls.is_empty() {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&url_path, &json!(non_resource_urls), detail);
        }
        Self {
            level,
            users: texts(rule, "users"),
            user_groups: texts(rule, "userGroups"),
            verbs: texts(rule, "verbs"),
            resources,
            namespaces,
            non_resource_urls,
            omit_stages,
            omit_managed_fields: rule["omitManagedFields"].as_bool(),
        }
    }
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let items = value[field].as_array().into_iter().flatten();
    let texts = items.map(|item| item.as_str().unwrap_or_default().to_owned());
    texts.collect()
}

fn level(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) -> Level {
    let text = rule["level"].as_str().unwrap_or_default();
    if let Some(level) = Level::ALL.into_iter().find(|own| own.as_str() == text) {
        return level;
    }
    match text {
        "" => errors.required(path, ""),
        _ => errors.not_supported(path, &text.into(), &Level::ALL.map(Level::as_str)),
    }
    Level::None
}

fn stages(value: &Value, path: &FieldPath, errors: &mut FieldErrors) -> Vec<Stage> {
    let mut known = Vec::new();
    for (at, text) in texts(value, "omitStages").into_iter().enumerate() {
        match Stage::ALL.into_iter().find(|own| own.as_str() == text) {
            Some(stage) => known.push(stage),
            None => {
                let allowed = Stage::ALL.map(Stage::as_str).join(",");
                let detail = format!("allowed stages are {allowed}");
                errors.invalid(&path.index(at), &text.into(), &detail);
            }
        }
    }
    known
}

fn check_urls(urls: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    for (at, url) in urls.iter().enumerate() {
        if url == "*" {
            continue;
        }
        let value = Value::from(url.as_str());
        if !url.starts_with('/') {
            let detail = "non-resource URL rules must begin with a '/' character";
            errors.invalid(&path.index(at), &value, detail);
        }
        let body = url.strip_suffix('*').map_or(url.as_str(), |body| body);
        if body.contains('*') {
            let detail = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.invalid(&path.index(at), &value, detail);
        }
    }
}

/// Checks resources. Upstream's paths lack their indices.
fn check_resources(resources: &[GroupResources], path: &FieldPath, errors: &mut FieldErrors) {
    for own in resources {
        if !matches!(own.group.as_str(), "" | "*") {
            let faults = dns1123_subdomain(&own.group);
            if !faults.is_empty() {
                let value = own.group.as_str().into();
                errors.invalid(&path.child("group"), &value, &faults.join(","));
            }
        }
        if !own.resource_names.is_empty() && own.resources.is_empty() {
            let detail = "using resourceNames requires at least one resource";
            let value = json!(own.resource_names);
            errors.invalid(&path.child("resourceNames"), &value, detail);
        }
    }
}

/// An error of the operating system as Go words it.
fn go_error(error: &std::io::Error) -> Cow<'static, str> {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "is a directory".into(),
        _ => error.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match Policy::read(text.as_bytes()) {
            Ok(policy) => panic!("{policy:?}"),
            Err(error) => error.to_string(),
        }
    }

    fn with_rules(rules: &str) -> String {
        format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}")
    }

    #[test]
    fn a_policy_is_read_with_all_its_fields() {
        let text = with_rules(
            "
- level: None
  nonResourceURLs: [/healthz*, /version]
- level: RequestResponse
  users: [tim]
  userGroups: [testers, developers]
  verbs: [patch, delete]
  resources:
  - group: ''
  - group: apps
    resources: [deployments]
    resourceNames: [a]
  namespaces: [default, '']
  omitStages: [RequestReceived, Panic]
  omitManagedFields: false
- level: Metadata
omitStages: [ResponseStarted]
omitManagedFields: true
",
        );
        let texts =
            |list: &[&str]| -> Vec<String> { list.iter().map(|text| (*text).to_owned()).collect() };
        let want = Policy {
            rules: vec![
                Rule {
                    non_resource_urls: texts(&["/healthz*", "/version"]),
                    ..Rule::default()
                },
                Rule {
                    level: Level::RequestResponse,
                    users: texts(&["tim"]),
                    user_groups: texts(&["testers", "developers"]),
                    verbs: texts(&["patch", "delete"]),
                    resources: vec![
                        GroupResources::default(),
                        GroupResources {
                            group: "apps".to_owned(),
                            resources: texts(&["deployments"]),
                            resource_names: texts(&["a"]),
                        },
                    ],
                    namespaces: texts(&["default", ""]),
                    non_resource_urls: Vec::new(),
                    omit_stages: vec![Stage::RequestReceived, Stage::Panic],
                    omit_managed_fields: Some(false),
                },
                Rule {
                    level: Level::Metadata,
                    ..Rule::default()
                },
            ],
            omit_stages: vec![Stage::ResponseStarted],
            omit_managed_fields: true,
        };
        assert_eq!(Policy::read(text.as_bytes()), Ok(want.clone()));
        let json = Yaml::parse(text.as_bytes()).unwrap().json;
        assert_eq!(Policy::read(&json), Ok(want));
    }

    #[test]
    fn a_policy_with_unknown_fields_or_without_a_kind_is_read() {
        let text = with_rules("- level: None\n  resources:\n  - group: a.b\n    verbs: [watch]");
        assert_eq!(Policy::read(text.as_bytes()).unwrap().rules.len(), 1);
        let text = "{\"apiVersion\": \"audit.k8s.io/v1\", \"rules\": [{\"level\": \"None\"}]}";
        assert_eq!(Policy::read(text.as_bytes()).unwrap().rules.len(), 1);
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_refused_in_upstreams_words() {
        let rules = "rules: [{level: None}]";
        let internal = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy";
        let no_kind = |kind: &str, version: &str| {
            format!(
                "failed decoding: no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apiserver/pkg/audit/scheme.go:30\""
            )
        };
        let rows = [
            (String::new(), internal.to_owned()),
            (rules.to_owned(), internal.to_owned()),
            (format!("kind: Policy\n{rules}"), internal.to_owned()),
            (
                format!("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n{rules}"),
                no_kind("Policy", "audit.k8s.io/v1beta1"),
            ),
            (
                format!("apiVersion: v1\nkind: Pod\n{rules}"),
                no_kind("Pod", "v1"),
            ),
            (
                "apiVersion: audit.k8s.io/v1\nkind: Policy".to_owned(),
                "loaded illegal policy with 0 rules".to_owned(),
            ),
        ];
        for (text, want) in rows {
            assert_eq!(fault(&text), want, "{text}");
        }
        let wrong = fault(&with_rules("- level: 1"));
        assert!(wrong.starts_with("failed decoding: json: "), "{wrong}");
        assert!(wrong.contains("of type v1.Level"), "{wrong}");
    }

    #[test]
    fn a_policy_that_is_not_valid_is_refused_in_upstreams_words() {
        let stages = "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic";
        let rows = [
            ("- users: [a]", "rules[0].level: Required value"),
            (
                "- level: Always",
                "rules[0].level: Unsupported value: \"Always\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\"",
            ),
            (
                "- level: None\n- {level: None, nonResourceURLs: [logs]}",
                "rules[1].nonResourceURLs[0]: Invalid value: \"logs\": non-resource URL rules must begin with a '/' character",
            ),
            (
                "- {level: None, nonResourceURLs: ['*', /a*b]}",
                "rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule",
            ),
            (
                "- {level: None, resources: [{group: apps, resourceNames: [a]}]}",
                "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource",
            ),
            (
                "- {level: None, nonResourceURLs: [/a], namespaces: [b]}",
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs",
            ),
        ];
        for (rules, want) in rows {
            assert_eq!(fault(&with_rules(rules)), want, "{rules}");
        }
        let text = with_rules("- {level: None, omitStages: [Later]}");
        let want = format!("rules[0].omitStages[0]: Invalid value: \"Later\": {stages}");
        assert_eq!(fault(&text), want);
        let text = with_rules("- {level: None, resources: [{group: rbac/v1}]}");
        let start = "rules[0].resources.group: Invalid value: \"rbac/v1\": a lowercase RFC 1123";
        assert!(fault(&text).starts_with(start), "{}", fault(&text));
    }

    #[test]
    fn the_message_about_a_file_names_it() {
        let error = Policy::read_file(Path::new("/nowhere/policy.yaml")).unwrap_err();
        let want = "failed to read file path \"/nowhere/policy.yaml\": open /nowhere/policy.yaml: no such file or directory";
        assert_eq!(error.to_string(), want);
    }
}
