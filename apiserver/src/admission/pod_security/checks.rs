//! The checks of the pod security standards.

mod restricted;

use std::collections::BTreeSet;

use crate::json::Value;
use crate::status;

const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that are harmless, and since which version they count as such.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// A breach of a standard: the forbidden setting, and its details.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl Violation {
    fn new(reason: &str, detail: String) -> Option<Self> {
        let reason = reason.to_owned();
        Some(Self { reason, detail })
    }
}

/// A pod under a version of the checks.
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    containers: Vec<&'a Value>,
    minor: u32,
}

/// Runs the checks of a level, in upstream's order.
pub(super) fn run(
    metadata: &Value,
    spec: &Value,
    minor: u32,
    is_restricted: bool,
) -> Vec<Violation> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten());
    let pod = Pod {
        metadata,
        spec,
        containers: containers.collect(),
        minor,
    };
    // Some of the restricted checks are the same ones, stricter.
    let own = |since: u32| !is_restricted || minor < since;
    let baseline = [
        pod.app_armor(),
        own(22).then(|| pod.capabilities()).flatten(),
        pod.host_namespaces(),
        own(0).then(|| pod.host_paths()).flatten(),
        pod.host_ports(),
        (minor >= 34).then(|| pod.probe_hosts()).flatten(),
        pod.privileged(),
        own(35).then(|| pod.proc_mount()).flatten(),
        pod.se_linux(),
        own(19).then(|| pod.seccomp()).flatten(),
        pod.sysctls(),
        pod.host_process(),
    ];
    let mut found: Vec<Violation> = baseline.into_iter().flatten().collect();
    if is_restricted {
        found.extend(pod.restricted());
    }
    found
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()));
    items.collect::<Vec<_>>().join(", ")
}

fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
fn named(names: &[&str]) -> String {
    let word = plural("container", "containers", names.len());
    format!("{word} {}", quoted(names))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl<'a> Pod<'a> {
    /// The names of the containers for which `is_bad` holds.
    fn bad(&self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        let containers = self.containers.iter().copied();
        let bad = containers.filter(|container| is_bad(container));
        bad.map(|container| text(&container["name"])).collect()
    }

    /// The parties that set a field: the pod, and containers by name.
    fn setters(pod: bool, containers: &[&str]) -> Vec<String> {
        let mut setters = Vec::new();
        if pod {
            setters.push("pod".to_owned());
        }
        if !containers.is_empty() {
            setters.push(named(containers));
        }
        setters
    }

    fn app_armor(&self) -> Option<Violation> {
        let mut values = BTreeSet::new();
        let mut is_bad = |context: &Value| {
            let profile = &context["appArmorProfile"];
            let kind = text(&profile["type"]);
            let bad = profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost");
            if bad {
                values.insert(kind.to_owned());
            }
            bad
        };
        let pod = is_bad(&self.spec["securityContext"]);
        let containers = self.bad(|own| is_bad(&own["securityContext"]));
        let mut setters = Self::setters(pod, &containers);
        let mut values: Vec<String> = values.into_iter().collect();
        let annotations = self.metadata["annotations"]
            .as_object()
            .into_iter()
            .flatten();
        let forbidden: Vec<String> = annotations
            .filter(|(key, value)| {
                let value = text(value);
                let allowed =
                    matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
                key.starts_with(APP_ARMOR_PREFIX) && !allowed
            })
            .map(|(key, value)| format!("{key}={}", status::quoted(text(value))))
            .collect();
        if !forbidden.is_empty() {
            setters.push(plural("annotation", "annotations", forbidden.len()).to_owned());
            values.extend(forbidden);
        }
        if setters.is_empty() {
            return None;
        }
        let reason = plural(
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
            values.len(),
        );
        let (setters, values) = (setters.join(" and "), quoted(values));
        Violation::new(
            reason,
            format!("{setters} must not set AppArmor profile type to {values}"),
        )
    }

    fn capabilities(&self) -> Option<Violation> {
        let mut added = BTreeSet::new();
        let bad = self.bad(|own| {
            let before = added.len();
            let own = own["securityContext"]["capabilities"]["add"].as_array();
            let own = own.into_iter().flatten().map(text);
            let forbidden: Vec<&str> = own.filter(|own| !CAPABILITIES.contains(own)).collect();
            added.extend(forbidden.iter().copied());
            before != added.len() || !forbidden.is_empty()
        });
        if bad.is_empty() {
            return None;
        }
        let (names, added) = (named(&bad), quoted(added));
        let detail =
            format!("{names} must not include {added} in securityContext.capabilities.add");
        Violation::new("non-default capabilities", detail)
    }

    fn host_namespaces(&self) -> Option<Violation> {
        let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
        let set: Vec<String> = fields
            .filter(|field| self.spec[*field] == true)
            .map(|field| format!("{field}=true"))
            .collect();
        match set.is_empty() {
            true => None,
            false => Violation::new("host namespaces", set.join(", ")),
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &'a Value> {
        self.spec["volumes"].as_array().into_iter().flatten()
    }

    fn host_paths(&self) -> Option<Violation> {
        let bad = self
            .volumes()
            .filter(|volume| volume["hostPath"].is_object());
        let bad: Vec<&str> = bad.map(|volume| text(&volume["name"])).collect();
        if bad.is_empty() {
            return None;
        }
        let word = plural("volume", "volumes", bad.len());
        Violation::new("hostPath volumes", format!("{word} {}", quoted(bad)))
    }

    fn host_ports(&self) -> Option<Violation> {
        let mut ports = BTreeSet::new();
        let bad = self.bad(|own| {
            let own = own["ports"].as_array().into_iter().flatten();
            let own = own.filter_map(|port| port["hostPort"].as_i64());
            let used: Vec<String> = own
                .filter(|port| *port != 0)
                .map(|p| p.to_string())
                .collect();
            ports.extend(used.iter().cloned());
            !used.is_empty()
        });
        if bad.is_empty() {
            return None;
        }
        let uses = plural("uses", "use", bad.len());
        let word = plural("hostPort", "hostPorts", ports.len());
        let ports: Vec<String> = ports.into_iter().collect();
        let detail = format!("{} {uses} {word} {}", named(&bad), ports.join(", "));
        Violation::new("hostPort", detail)
    }

    fn probe_hosts(&self) -> Option<Violation> {
        let mut hosts = BTreeSet::new();
        let handlers = [
            "/livenessProbe",
            "/readinessProbe",
            "/startupProbe",
            "/lifecycle/postStart",
            "/lifecycle/preStop",
        ];
        let bad = self.bad(|own| {
            let handlers = handlers.iter().filter_map(|pointer| own.pointer(pointer));
            let used: Vec<&str> = handlers
                .flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| &handler[kind]["host"]))
                .map(text)
                .filter(|host| !host.is_empty())
                .collect();
            hosts.extend(used.iter().copied());
            !used.is_empty()
        });
        if bad.is_empty() {
            return None;
        }
        let bad: BTreeSet<&str> = bad.into_iter().collect();
        let bad: Vec<&str> = bad.into_iter().collect();
        let uses = plural("uses", "use", bad.len());
        let word = plural(
            "probe or lifecycle host",
            "probe or lifecycle hosts",
            hosts.len(),
        );
        let detail = format!("{} {uses} {word} {}", named(&bad), quoted(hosts));
        Violation::new("probe or lifecycle host", detail)
    }

    fn privileged(&self) -> Option<Violation> {
        let bad = self.bad(|own| own["securityContext"]["privileged"] == true);
        if bad.is_empty() {
            return None;
        }
        let detail = format!(
            "{} must not set securityContext.privileged=true",
            named(&bad)
        );
        Violation::new("privileged", detail)
    }

    /// Whether the pod has its own user namespace, which versions from 1.35 on take into account.
    fn has_own_users(&self) -> bool {
        self.minor >= 35 && self.spec["hostUsers"] == false
    }

    fn proc_mount(&self) -> Option<Violation> {
        match self.has_own_users() {
            true => None,
            false => self.any_proc_mount(),
        }
    }

    fn any_proc_mount(&self) -> Option<Violation> {
        let mut kinds = BTreeSet::new();
        let bad = self.bad(|own| {
            let kind = own["securityContext"]["procMount"].as_str();
            let bad = kind.filter(|kind| *kind != "Default");
            kinds.extend(bad);
            bad.is_some()
        });
        if bad.is_empty() {
            return None;
        }
        let (names, kinds) = (named(&bad), quoted(kinds));
        let detail = format!("{names} must not set securityContext.procMount to {kinds}");
        Violation::new("procMount", detail)
    }

    fn se_linux(&self) -> Option<Violation> {
        let (mut kinds, mut user, mut role) = (BTreeSet::new(), false, false);
        let minor = self.minor;
        let mut is_bad = |context: &'a Value| {
            let own = &context["seLinuxOptions"];
            let kind = text(&own["type"]);
            let allowed = matches!(
                kind,
                "" | "container_t" | "container_init_t" | "container_kvm_t"
            ) || (minor >= 31 && kind == "container_engine_t");
            if !allowed {
                kinds.insert(kind);
            }
            let (has_user, has_role) = (
                !text(&own["user"]).is_empty(),
                !text(&own["role"]).is_empty(),
            );
            user |= has_user;
            role |= has_role;
            !allowed || has_user || has_role
        };
        let pod = is_bad(&self.spec["securityContext"]);
        let containers = self.bad(|own| is_bad(&own["securityContext"]));
        let setters = Self::setters(pod, &containers);
        if setters.is_empty() {
            return None;
        }
        let mut data = Vec::new();
        if !kinds.is_empty() {
            let word = plural("type", "types", kinds.len());
            data.push(format!("{word} {}", quoted(kinds)));
        }
        for (is_set, field) in [(user, "user"), (role, "role")] {
            if is_set {
                data.push(format!("{field} may not be set"));
            }
        }
        let (setters, data) = (setters.join(" and "), data.join("; "));
        let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {data}");
        Violation::new("seLinuxOptions", detail)
    }

    fn seccomp(&self) -> Option<Violation> {
        if self.minor < 19 {
            return self.seccomp_annotations();
        }
        let mut kinds = BTreeSet::new();
        let mut is_bad = |context: &'a Value| {
            let profile = &context["seccompProfile"];
            let kind = text(&profile["type"]);
            let bad = profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost");
            if bad {
                kinds.insert(kind);
            }
            bad
        };
        let pod = is_bad(&self.spec["securityContext"]);
        let containers = self.bad(|own| is_bad(&own["securityContext"]));
        let setters = Self::setters(pod, &containers);
        if setters.is_empty() {
            return None;
        }
        let (setters, kinds) = (setters.join(" and "), quoted(kinds));
        let detail =
            format!("{setters} must not set securityContext.seccompProfile.type to {kinds}");
        Violation::new("seccompProfile", detail)
    }

    fn seccomp_annotations(&self) -> Option<Violation> {
        let names = self.containers.iter().map(|own| text(&own["name"]));
        let keys = names.map(|name| format!("{SECCOMP_CONTAINER}{name}"));
        let keys = keys.chain([SECCOMP_POD.to_owned()]);
        let forbidden: BTreeSet<String> = keys
            .filter_map(|key| {
                let value = self.metadata["annotations"][&key].as_str()?;
                let allowed = matches!(value, "runtime/default" | "docker/default")
                    || value.starts_with("localhost/");
                (!allowed).then(|| format!("{key}={value:?}"))
            })
            .collect();
        if forbidden.is_empty() {
            return None;
        }
        let word = plural("annotation", "annotations", forbidden.len());
        let forbidden: Vec<String> = forbidden.into_iter().collect();
        let detail = format!("forbidden {word} {}", forbidden.join(", "));
        Violation::new("seccompProfile", detail)
    }

    fn sysctls(&self) -> Option<Violation> {
        let all = self.spec["securityContext"]["sysctls"].as_array();
        let all = all.into_iter().flatten().map(|own| text(&own["name"]));
        let is_allowed = |name: &str| {
            let known = SYSCTLS.iter().find(|(own, _)| *own == name);
            known.is_some_and(|(_, since)| *since <= self.minor)
        };
        let forbidden: Vec<&str> = all.filter(|name| !is_allowed(name)).collect();
        match forbidden.is_empty() {
            true => None,
            false => Violation::new("forbidden sysctls", forbidden.join(", ")),
        }
    }

    fn host_process(&self) -> Option<Violation> {
        let is_bad = |own: &Value| own["securityContext"]["windowsOptions"]["hostProcess"] == true;
        let setters = Self::setters(is_bad(self.spec), &self.bad(is_bad));
        if setters.is_empty() {
            return None;
        }
        let setters = setters.join(" and ");
        let detail =
            format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
        Violation::new("hostProcess", detail)
    }
}
