//! The containers of a pod's spec, reduced to the fields that affect their lifecycle.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, EphemeralContainer, PodSpec};
use kubeproof_runtime::pod::{Pod, SharedPodSpec};

use super::restart_policy::{Exit, RestartPolicy};

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An init container, which ends before the next container starts.
    Init,
    /// An init container that keeps running with the main containers.
    Sidecar,
    Main,
    /// A container added to an existing pod for debugging; it runs once.
    Ephemeral,
}

/// The list of a pod's spec that holds a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Init,
    Main,
    Ephemeral,
}

impl List {
    /// Returns the name of the field in the spec.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Main => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }
}

/// Returns all containers of `spec` in the order of their start, with the ephemeral ones last.
pub(super) fn containers(spec: &PodSpec) -> impl Iterator<Item = (List, Cow<'_, Container>)> {
    let init = spec.init_containers.iter().flatten();
    let init = init.map(|own| (List::Init, Cow::Borrowed(own)));
    let main = spec.containers.iter();
    let main = main.map(|own| (List::Main, Cow::Borrowed(own)));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|own| (List::Ephemeral, Cow::Owned(as_container(own))));
    init.chain(main).chain(ephemeral)
}

/// Returns a container of a pod by its name, and its list.
pub(super) fn container<'a>(pod: &'a Pod, name: &str) -> Option<(List, Cow<'a, Container>)> {
    let mut all = containers(pod.spec.as_ref()?);
    all.find(|(_, container)| container.name == name)
}

/// A container as the spec of its pod had it when it was created. Pods share the spec.
pub(super) struct SharedContainer {
    pod: SharedPodSpec,
    /// The place among all containers of the spec, in the order of their start.
    index: usize,
}

impl SharedContainer {
    /// The container at `index` among all [`containers`] of the spec `pod`.
    pub(super) fn of(pod: &SharedPodSpec, index: usize) -> Self {
        Self {
            pod: pod.clone(),
            index,
        }
    }

    /// Returns the container's spec.
    pub(super) fn spec(&self) -> Cow<'_, Container> {
        let mut all = containers(&self.pod);
        let own = all.nth(self.index);
        let (_, own) = own.expect("the index is of this spec, which never changes");
        own
    }
}

/// Converts an ephemeral container to a container; they share these fields.
fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let own = ephemeral.clone();
    Container {
        args: own.args,
        command: own.command,
        env: own.env,
        env_from: own.env_from,
        image: own.image,
        image_pull_policy: own.image_pull_policy,
        name: own.name,
        security_context: own.security_context,
        stdin: own.stdin,
        stdin_once: own.stdin_once,
        termination_message_path: own.termination_message_path,
        termination_message_policy: own.termination_message_policy,
        tty: own.tty,
        volume_devices: own.volume_devices,
        volume_mounts: own.volume_mounts,
        working_dir: own.working_dir,
        ..Container::default()
    }
}

/// One container of a pod's spec.
#[derive(Clone, Debug)]
pub(super) struct ContainerSpec {
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

impl ContainerSpec {
    /// Returns all containers of `spec`, in the order of their start.
    pub(super) fn all(spec: &PodSpec) -> Vec<Self> {
        let pod_policy = RestartPolicy::of(spec.restart_policy.as_deref());
        containers(spec)
            .map(|(list, container)| {
                let sidecar = container.restart_policy.as_deref() == Some("Always");
                let role = match list {
                    List::Init if sidecar => Role::Sidecar,
                    List::Init => Role::Init,
                    List::Main => Role::Main,
                    List::Ephemeral => Role::Ephemeral,
                };
                Self::of(role, &container, pod_policy)
            })
            .collect()
    }

    fn of(role: Role, container: &Container, pod_policy: RestartPolicy) -> Self {
        let own_policy = container.restart_policy.as_deref();
        let restart_policy = match (role, own_policy) {
            // An init container with exit code 0 has completed.
            (Role::Init, None) if pod_policy == RestartPolicy::Always => RestartPolicy::OnFailure,
            (Role::Ephemeral, _) => RestartPolicy::Never,
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

    /// Returns whether a change of the image restarts the container.
    pub(super) fn restarts_for_image(&self) -> bool {
        matches!(self.role, Role::Main | Role::Sidecar)
    }

    /// Returns whether the pod's readiness depends on the container.
    pub(super) fn counts_for_readiness(&self) -> bool {
        matches!(self.role, Role::Main | Role::Sidecar)
    }

    /// Returns whether another run follows `exit`.
    pub(super) fn restarts(&self, exit: Exit) -> bool {
        let ruled = self
            .restart_rules
            .iter()
            .any(|rule| rule.action == "Restart" && matches(rule, exit.code));
        ruled || self.restart_policy.restarts(exit)
    }

    /// Returns whether another run follows when the kubelet kills the container after a failed
    /// probe.
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
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn a_shared_container_keeps_what_each_list_had() {
        let spec: PodSpec = from_value(json!({
            "initContainers": [{ "name": "prepare", "image": "a" }],
            "containers": [{ "name": "main", "image": "b" }],
            "ephemeralContainers": [{ "name": "debug", "image": "c" }],
        }))
        .unwrap();
        let mut pod = SharedPodSpec::from(spec);
        let shared = [0, 1, 2].map(|index| SharedContainer::of(&pod, index));
        pod.containers[0].image = Some("changed".to_owned());
        let init = pod.init_containers.as_mut().unwrap();
        init.insert(0, Container::default());
        let ephemeral = pod.ephemeral_containers.as_mut().unwrap();
        ephemeral.insert(0, EphemeralContainer::default());
        let expected = [("prepare", "a"), ("main", "b"), ("debug", "c")];
        for (shared, (name, image)) in shared.iter().zip(expected) {
            let own = shared.spec();
            assert_eq!(
                (own.name.as_str(), own.image.as_deref()),
                (name, Some(image))
            );
        }
    }

    #[test]
    fn policies_of_the_pod_of_the_container_and_its_rules() {
        let spec: PodSpec = from_value(json!({
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
        let container_specs = ContainerSpec::all(&spec);
        let roles: Vec<Role> = container_specs
            .iter()
            .map(|container_spec| container_spec.role)
            .collect();
        assert_eq!(roles, [Role::Init, Role::Sidecar, Role::Main, Role::Main]);
        for (container_spec, code, expected) in [
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
            assert_eq!(
                container_specs[container_spec].restarts(exit),
                expected,
                "{container_spec} {code}"
            );
        }
    }
}
