//! The containers of a pod's spec, as far as their lives depend on it.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec};

use super::instance::{Exit, RestartPolicy};

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on beside the others.
    Sidecar,
    Main,
}

/// One container.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) role: Role,
    restart_policy: RestartPolicy,
    restart_rules: Vec<ContainerRestartRule>,
    pub(super) has_readiness_probe: bool,
    pub(super) has_startup_probe: bool,
    pub(super) has_post_start: bool,
    pub(super) has_pre_stop: bool,
}

impl Part {
    /// All containers of `spec`, in the order in which they start.
    pub(super) fn all(spec: &PodSpec) -> Vec<Self> {
        let pod_policy = RestartPolicy::of(spec.restart_policy.as_deref());
        let init = spec.init_containers.iter().flatten().map(|container| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            let role = if sidecar { Role::Sidecar } else { Role::Init };
            (role, container)
        });
        let main = spec
            .containers
            .iter()
            .map(|container| (Role::Main, container));
        init.chain(main)
            .map(|(role, container)| Self::of(role, container, pod_policy))
            .collect()
    }

    fn of(role: Role, container: &Container, pod_policy: RestartPolicy) -> Self {
        let own_policy = container.restart_policy.as_deref();
        let restart_policy = match (role, own_policy) {
            // An init container that ended well has done its work.
            (Role::Init, None) if pod_policy == RestartPolicy::Always => RestartPolicy::OnFailure,
            (_, None) => pod_policy,
            (_, own) => RestartPolicy::of(own),
        };
        let lifecycle = container.lifecycle.as_ref();
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            role,
            restart_policy,
            restart_rules: container.restart_policy_rules.clone().unwrap_or_default(),
            has_readiness_probe: container.readiness_probe.is_some(),
            has_startup_probe: container.startup_probe.is_some(),
            has_post_start: lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some()),
            has_pre_stop: lifecycle.is_some_and(|lifecycle| lifecycle.pre_stop.is_some()),
        }
    }

    /// Whether `exit` is followed by another run.
    pub(super) fn restarts(&self, exit: Exit) -> bool {
        let ruled = self
            .restart_rules
            .iter()
            .any(|rule| rule.action == "Restart" && matches(rule, exit.code));
        ruled || self.restart_policy.restarts(exit)
    }

    /// Whether a run that the kubelet has ended, as a probe asks for, is followed by another.
    pub(super) fn restarts_when_killed(&self) -> bool {
        self.restart_policy != RestartPolicy::Never
    }
}

fn matches(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(wanted) = &rule.exit_codes else {
        return false;
    };
    let listed = wanted.values.iter().flatten().any(|value| *value == code);
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_of_the_pod_of_the_container_and_its_rules() {
        let spec: PodSpec = serde_json::from_value(json!({
            "restartPolicy": "Always",
            "initContainers": [
                { "name": "prepare" }, { "name": "proxy", "restartPolicy": "Always" },
            ],
            "containers": [
                { "name": "main" },
                { "name": "once", "restartPolicy": "Never", "restartPolicyRules": [
                    { "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } },
                ] },
            ],
        }))
        .unwrap();
        let parts = Part::all(&spec);
        let roles: Vec<Role> = parts.iter().map(|part| part.role).collect();
        assert_eq!(roles, [Role::Init, Role::Sidecar, Role::Main, Role::Main]);
        for (part, code, expected) in [
            (0, 0, false),
            (0, 1, true),
            (1, 0, true),
            (2, 0, true),
            (3, 1, false),
            (3, 42, true),
        ] {
            let exit = Exit {
                code,
                at: Timestamp::UNIX_EPOCH,
                killed: false,
            };
            assert_eq!(parts[part].restarts(exit), expected, "{part} {code}");
        }
    }
}
