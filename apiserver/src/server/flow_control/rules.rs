//! The rules of a FlowSchema: which requests it takes.

use crate::auth::{Attributes, User};
use crate::json::Value;

/// The rules of one FlowSchema.
#[derive(Debug)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

/// A name, or `*` for any.
type Pattern = String;

#[derive(Debug)]
enum Subject {
    User(Pattern),
    Group(Pattern),
    ServiceAccount { namespace: String, name: Pattern },
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Vec<Pattern>,
    groups: Vec<Pattern>,
    resources: Vec<Pattern>,
    cluster_scope: bool,
    namespaces: Vec<Pattern>,
}

#[derive(Debug)]
struct PathRule {
    verbs: Vec<Pattern>,
    /// A path, or the beginning of paths before `*`.
    urls: Vec<String>,
}

impl Rules {
    /// Reads the rules of a FlowSchema.
    pub(super) fn of(schema: &Value) -> Self {
        let rules = items(&schema["spec"]["rules"]).map(|rule| Rule {
            subjects: items(&rule["subjects"]).filter_map(subject).collect(),
            resources: items(&rule["resourceRules"]).map(resource_rule).collect(),
            paths: items(&rule["nonResourceRules"]).map(path_rule).collect(),
        });
        Self(rules.collect())
    }

    /// Whether a request of `user` is taken.
    pub(super) fn take(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let is_subject = |subject: &Subject| subject.is(user);
        let mut rules = self.0.iter();
        rules.any(|rule| rule.subjects.iter().any(is_subject) && rule.covers(attributes))
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => matches(name, &user.name),
            Self::Group(name) => user.groups.iter().any(|own| matches(name, own)),
            Self::ServiceAccount { namespace, name } => user
                .name
                .strip_prefix("system:serviceaccount:")
                .and_then(|account| account.split_once(':'))
                .is_some_and(|(own, account)| namespace == own && matches(name, account)),
        }
    }
}

impl Rule {
    fn covers(&self, attributes: &Attributes<'_>) -> bool {
        match attributes {
            Attributes::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                ..
            } => self.resources.iter().any(|rule| {
                let in_scope = match namespace.as_ref() {
                    "" => rule.cluster_scope,
                    namespace => any(&rule.namespaces, namespace),
                };
                in_scope
                    && any(&rule.verbs, verb)
                    && any(&rule.groups, group)
                    && rule.resources.iter().any(|own| {
                        own == "*"
                            || match subresource.as_ref() {
                                "" => own == resource,
                                subresource => own
                                    .split_once('/')
                                    .is_some_and(|own| own == (resource, subresource)),
                            }
                    })
            }),
            Attributes::Path { verb, path } => self.paths.iter().any(|rule| {
                let covers = |url: &String| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => url == path,
                };
                any(&rule.verbs, verb) && rule.urls.iter().any(covers)
            }),
        }
    }
}

fn matches(pattern: &Pattern, name: &str) -> bool {
    pattern == "*" || pattern == name
}

fn any(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

fn subject(own: &Value) -> Option<Subject> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(match own["kind"].as_str()? {
        "User" => Subject::User(text(&own["user"]["name"])?),
        "Group" => Subject::Group(text(&own["group"]["name"])?),
        "ServiceAccount" => Subject::ServiceAccount {
            namespace: text(&own["serviceAccount"]["namespace"])?,
            name: text(&own["serviceAccount"]["name"])?,
        },
        _ => return None,
    })
}

fn resource_rule(own: &Value) -> ResourceRule {
    ResourceRule {
        verbs: texts(&own["verbs"]),
        groups: texts(&own["apiGroups"]),
        resources: texts(&own["resources"]),
        cluster_scope: own["clusterScope"] == true,
        namespaces: texts(&own["namespaces"]),
    }
}

fn path_rule(own: &Value) -> PathRule {
    PathRule {
        verbs: texts(&own["verbs"]),
        urls: texts(&own["nonResourceURLs"]),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = items(list).filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
