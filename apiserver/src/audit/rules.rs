//! The choice of a rule for a request.

use super::event::{Level, Stage};
use super::policy::{GroupResources, Policy, Rule};

/// A request as rules see it, with its user once that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestAttributes<'a> {
    /// Name and groups of the user; `None` before authentication.
    pub(crate) user: Option<(&'a str, &'a [String])>,
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    /// `None` for a path that names no resource.
    pub(crate) resource: Option<ResourceAttributes<'a>>,
}

/// The resource of a request; parts that are absent are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// How a request is audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestAuditConfig {
    pub(super) level: Level,
    pub(super) omit_stages: Vec<Stage>,
    pub(super) omit_managed_fields: bool,
}

impl Policy {
    /// How a request is audited by the first rule that matches it.
    pub(super) fn evaluate(&self, attributes: &RequestAttributes<'_>) -> RequestAuditConfig {
        let rule = self.rules.iter().find(|rule| rule.matches(attributes));
        let (level, own_stages, own_fields) = match rule {
            Some(rule) => (
                rule.level,
                rule.omit_stages.as_slice(),
                rule.omit_managed_fields,
            ),
            None => (Level::None, [].as_slice(), None),
        };
        RequestAuditConfig {
            level,
            omit_stages: [&self.omit_stages, own_stages].concat(),
            omit_managed_fields: own_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn matches(&self, attributes: &RequestAttributes<'_>) -> bool {
        let is_user = self.users.is_empty()
            || attributes
                .user
                .is_some_and(|(name, _)| has(&self.users, name));
        let is_member = self.user_groups.is_empty()
            || attributes.user.is_some_and(|(_, groups)| {
                groups.iter().any(|group| has(&self.user_groups, group))
            });
        let is_verb = self.verbs.is_empty() || has(&self.verbs, attributes.verb);
        if !(is_user && is_member && is_verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return attributes
                .resource
                .is_some_and(|resource| self.matches_resource(&resource));
        }
        if !self.non_resource_urls.is_empty() {
            let mut urls = self.non_resource_urls.iter();
            return attributes.resource.is_none()
                && urls.any(|url| matches_path(url, attributes.path));
        }
        true
    }

    fn matches_resource(&self, attributes: &ResourceAttributes<'_>) -> bool {
        if !self.namespaces.is_empty() && !has(&self.namespaces, attributes.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|own| own.matches(attributes))
    }
}

impl GroupResources {
    fn matches(&self, attributes: &ResourceAttributes<'_>) -> bool {
        if self.group != "*" && self.group != attributes.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !has(&self.resource_names, attributes.name) {
            return false;
        }
        let below = attributes.subresource;
        self.resources.iter().any(|own| match own.split_once('/') {
            _ if own == "*" => true,
            // Upstream lets `pods/*` match pods themselves, too.
            Some((resource, "*")) => resource == attributes.resource,
            Some((_, _)) if below.is_empty() => false,
            Some((resource, subresource)) => {
                (resource == "*" || resource == attributes.resource) && subresource == below
            }
            None => own == attributes.resource && below.is_empty(),
        })
    }
}

fn matches_path(url: &str, path: &str) -> bool {
    url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|own| own == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: ResourceAttributes<'static> = ResourceAttributes {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "default",
        name: "busybox",
    };

    /// Requests by name.
    fn attributes(name: &str) -> RequestAttributes<'static> {
        static GROUPS: std::sync::LazyLock<Vec<String>> =
            std::sync::LazyLock::new(|| vec!["humans".to_owned(), "auditors".to_owned()]);
        let tim = Some(("tim", GROUPS.as_slice()));
        let of = |resource: ResourceAttributes<'static>| RequestAttributes {
            user: tim,
            verb: "get",
            path: "/api",
            resource: Some(resource),
        };
        match name {
            "pod" => of(PODS),
            "pod log" => of(ResourceAttributes {
                subresource: "log",
                ..PODS
            }),
            "role" => of(ResourceAttributes {
                group: "rbac.authorization.k8s.io",
                resource: "clusterroles",
                namespace: "",
                name: "edit",
                ..PODS
            }),
            "no user" => RequestAttributes {
                user: None,
                ..of(PODS)
            },
            "path" => RequestAttributes {
                user: tim,
                verb: "get",
                path: "/logs/kubelet.log",
                resource: None,
            },
            other => panic!("{other}"),
        }
    }

    /// Whether a rule, in YAML, matches each of the requests that are named.
    #[test]
    fn a_rule_matches_as_upstreams_does() {
        let all = ["pod", "pod log", "role", "no user", "path"];
        let rows: &[(&str, &[&str])] = &[
            ("", &all),
            ("users: [tim]", &["pod", "pod log", "role", "path"]),
            ("users: [tom]", &[]),
            (
                "userGroups: [nobody, humans]",
                &["pod", "pod log", "role", "path"],
            ),
            ("userGroups: [nobody]", &[]),
            ("users: [tom], userGroups: [humans]", &[]),
            ("verbs: [get]", &all),
            ("verbs: [list]", &[]),
            ("verbs: ['*']", &[]),
            ("namespaces: [default]", &["pod", "pod log", "no user"]),
            ("namespaces: ['']", &["role"]),
            ("resources: [{group: ''}]", &["pod", "pod log", "no user"]),
            (
                "resources: [{group: '*'}]",
                &["pod", "pod log", "role", "no user"],
            ),
            ("resources: [{resources: [pods]}]", &["pod", "no user"]),
            ("resources: [{resources: [pods/log]}]", &["pod log"]),
            (
                "resources: [{resources: [pods/*]}]",
                &["pod", "pod log", "no user"],
            ),
            ("resources: [{resources: ['*/log']}]", &["pod log"]),
            ("resources: [{resources: ['*/scale']}]", &[]),
            (
                "resources: [{resources: ['*']}]",
                &["pod", "pod log", "no user"],
            ),
            (
                "resources: [{resources: [pods], resourceNames: [busybox]}]",
                &["pod", "no user"],
            ),
            (
                "resources: [{resources: ['*'], resourceNames: [edit]}]",
                &[],
            ),
            (
                "resources: [{group: '*', resources: ['*'], resourceNames: [edit]}]",
                &["role"],
            ),
            (
                "resources: [{group: apps}, {group: rbac.authorization.k8s.io}], namespaces: ['']",
                &["role"],
            ),
            (
                "resources: [{group: rbac.authorization.k8s.io}], namespaces: [default]",
                &[],
            ),
            ("nonResourceURLs: ['*']", &["path"]),
            ("nonResourceURLs: [/logs*]", &["path"]),
            ("nonResourceURLs: [/logs/kubelet.log]", &["path"]),
            ("nonResourceURLs: [/logs]", &[]),
            ("nonResourceURLs: [/api*]", &[]),
        ];
        for (rule, want) in rows {
            let text = format!(
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: Metadata, {rule}}}]"
            );
            let policy = Policy::read(text.as_bytes()).unwrap();
            let matched = all
                .into_iter()
                .filter(|name| policy.evaluate(&attributes(name)).level == Level::Metadata);
            assert_eq!(matched.collect::<Vec<_>>(), *want, "{rule}");
        }
    }

    #[test]
    fn the_first_rule_counts_and_without_one_nothing_is_audited() {
        let text = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Request, users: [tim], resources: [{group: ''}], omitStages: [Panic], omitManagedFields: false}
- {level: Metadata, verbs: [get], resources: [{group: '*'}]}
- {level: RequestResponse, resources: [{group: '*'}]}
";
        let policy = Policy::read(text.as_bytes()).unwrap();
        let config = |level, stages: &[Stage], omit_managed_fields| RequestAuditConfig {
            level,
            omit_stages: stages.to_vec(),
            omit_managed_fields,
        };
        let received = Stage::RequestReceived;
        let rows = [
            (
                "pod",
                config(Level::Request, &[received, Stage::Panic], false),
            ),
            ("role", config(Level::Metadata, &[received], true)),
            ("path", config(Level::None, &[received], true)),
        ];
        for (name, want) in rows {
            assert_eq!(policy.evaluate(&attributes(name)), want, "{name}");
        }
    }
}
