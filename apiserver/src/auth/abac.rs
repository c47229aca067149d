//! Permissions by a file of policies, the mode ABAC.
//!
//! Source: `pkg/auth/authorizer/abac`.

use std::sync::Arc;

use super::{AUTHENTICATED, Attributes, User};
use crate::json::{Value, json};
use crate::request::Decision;
use crate::schema;

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
const KIND: &str = "Policy";

/// The reason why a file of policies cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error reading policy file {path}, line {line}: {text}: {why}")]
pub struct AbacPolicyError {
    path: String,
    line: usize,
    text: String,
    why: String,
}

/// The policies of a file, as of `--authorization-policy-file`.
#[derive(Clone, Debug, Default)]
pub struct AbacPolicy(Arc<[Policy]>);

/// A policy: the subject, and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    path: String,
}

impl AbacPolicy {
    /// Reads `text`, of which each line is a policy in JSON, a comment or blank. Errors name the
    /// file `path`.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn read(path: &str, text: &[u8]) -> Result<Self, AbacPolicyError> {
        let text = String::from_utf8_lossy(text);
        let lines = text.lines().enumerate();
        let stated = lines.filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let policies = stated.map(|(index, line)| {
            let failed = |why: String| AbacPolicyError {
                path: path.to_owned(),
                line: index + 1,
                text: line.to_owned(),
                why,
            };
            let value: Value = serde_json::from_str(line).map_err(|error| {
                let why = schema::syntax_error(line.as_bytes());
                let why = why.unwrap_or_else(|| error.to_string());
                failed(format!(
                    "couldn't get version/kind; json parse error: {why}"
                ))
            })?;
            match value.is_object() {
                true => Ok(Policy::of(&value)),
                false => Err(failed("a policy is an object".to_owned())),
            }
        });
        let policies: Result<Vec<Policy>, AbacPolicyError> = policies.collect();
        Ok(Self(policies?.into()))
    }

    /// Decides by the first policy that matches.
    pub(super) fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let allows = |policy: &Policy| policy.is_for(user) && policy.covers(attributes);
        match self.0.iter().any(allows) {
            true => Decision::Allowed(String::new()),
            false => Decision::NoOpinion("No policy matched.".to_owned()),
        }
    }

    /// The rules by which `user` has permissions in `namespace`.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> Vec<Value> {
        let own = self
            .0
            .iter()
            .filter(|policy| policy.is_for(user) && is_any_or(&policy.namespace, namespace));
        own.flat_map(|policy| {
            let verbs = match policy.readonly {
                true => json!(["get", "list", "watch"]),
                false => json!(["*"]),
            };
            let resource = (!policy.resource.is_empty()).then(|| {
                json!({
                    "verbs": verbs, "apiGroups": [policy.api_group], "resources": [policy.resource],
                })
            });
            let path = (!policy.path.is_empty())
                .then(|| json!({ "verbs": verbs, "nonResourceURLs": [policy.path] }));
            resource.into_iter().chain(path)
        })
        .collect()
    }
}

impl Policy {
    /// Reads a policy, of the only version or of the time before versions.
    fn of(value: &Value) -> Self {
        let is_versioned = value["apiVersion"] == VERSION && value["kind"] == KIND;
        let spec = if is_versioned { &value["spec"] } else { value };
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let mut policy = Self {
            user: text("user"),
            group: text("group"),
            readonly: spec["readonly"] == true,
            api_group: text("apiGroup"),
            resource: text("resource"),
            namespace: text("namespace"),
            path: text("nonResourcePath"),
        };
        let is_anyone = !is_versioned && policy.user.is_empty() && policy.group.is_empty();
        if is_anyone || policy.user == "*" || policy.group == "*" {
            policy.user = String::new();
            AUTHENTICATED.clone_into(&mut policy.group);
        }
        if !is_versioned {
            let is_everything = policy.namespace.is_empty() && policy.resource.is_empty();
            policy.path = if is_everything { "*" } else { "" }.to_owned();
            "*".clone_into(&mut policy.api_group);
            for field in [&mut policy.namespace, &mut policy.resource] {
                if field.is_empty() {
                    "*".clone_into(field);
                }
            }
        }
        policy
    }

    fn is_for(&self, user: &User) -> bool {
        let of_user = self.user.is_empty() || self.user == user.name;
        let of_group = self.group.is_empty() || user.is_in(&self.group);
        of_user && of_group && !(self.user.is_empty() && self.group.is_empty())
    }

    fn covers(&self, attributes: &Attributes<'_>) -> bool {
        if self.readonly && !matches!(attributes.verb(), "get" | "list" | "watch") {
            return false;
        }
        match attributes {
            Attributes::Path { path, .. } => match self.path.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => self.path == *path,
            },
            Attributes::Resource {
                group,
                resource,
                namespace,
                ..
            } => {
                is_any_or(&self.namespace, namespace)
                    && is_any_or(&self.resource, resource)
                    && is_any_or(&self.api_group, group)
            }
        }
    }
}

fn is_any_or(pattern: &str, text: &str) -> bool {
    pattern == "*" || pattern == text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# Those of the time before versions:
{"user":"admin"}
{"user":"reader","readonly":true,"resource":"pods","namespace":"a"}

{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"devs","namespace":"*","resource":"deployments","apiGroup":"apps"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/api*","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","group":"ops","namespace":"b","resource":"*","apiGroup":"*"}}
"#;

    #[test]
    fn policies_decide_by_subject_verb_and_resource() {
        let policy = AbacPolicy::read("f", FILE.as_bytes()).unwrap();
        let rows = [
            ("admin", "delete /secrets x", true),
            ("admin", "get :/metrics", true),
            ("reader", "get /pods a", true),
            ("reader", "delete /pods a", false),
            ("reader", "get /pods b", false),
            ("reader", "get /secrets a", false),
            ("reader", "get :/metrics", false),
            ("reader", "get :/apis/apps", true),
            ("reader", "post :/apis/apps", false),
            ("x,devs", "create apps/deployments z", true),
            ("x,devs", "create /deployments z", false),
            ("x", "create apps/deployments z", false),
            ("jane,ops", "create /pods b", true),
            ("jane", "create /pods b", false),
            ("joe,ops", "create /pods b", false),
        ];
        for (subject, action, want) in rows {
            let mut names = subject.split(',').map(str::to_owned);
            let user = User {
                name: names.next().unwrap(),
                groups: names.chain([AUTHENTICATED.to_owned()]).collect(),
                ..User::default()
            };
            let (verb, rest) = action.split_once(' ').unwrap();
            let verb = verb.into();
            let attributes = match rest.strip_prefix(':') {
                Some(path) => Attributes::Path {
                    verb,
                    path: path.into(),
                },
                None => {
                    let (group, rest) = rest.split_once('/').unwrap();
                    let (resource, namespace) = rest.split_once(' ').unwrap();
                    Attributes::Resource {
                        verb,
                        group: group.into(),
                        version: "v1".into(),
                        resource: resource.into(),
                        subresource: "".into(),
                        namespace: namespace.into(),
                        name: "".into(),
                        selectors: super::super::Selectors::default(),
                    }
                }
            };
            let decision = policy.decide(&user, &attributes);
            assert_eq!(decision.is_allowed(), want, "{subject} {action}");
            let reason = if want { "" } else { "No policy matched." };
            assert_eq!(decision.reason(), reason);
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let refused = AbacPolicy::read("f", b"{}\n# x\n{\"user\"}\n").unwrap_err();
        let text = "error reading policy file f, line 3: {\"user\"}: couldn't get version/kind; json \
                    parse error: invalid character '}' after object key";
        assert_eq!(refused.to_string(), text);
    }
}
