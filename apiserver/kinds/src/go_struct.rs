//! Values as upstream's internal Go structs: some faults show one, or how two differ.
//!
//! Internal structs have no JSON tags: every field is there, by its Go name, empty or not.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::json::{Map, SmolStr, Value, encoded_string, html_escape};
use crate::meta::GroupVersionKind;
use crate::schema::{Object, Schema, builtin, core_type};

/// Lines around a difference.
const CONTEXT: usize = 3;

/// Go's names of fields where they are not the JSON name with a capital.
const GO_NAMES: [(&str, &str); 41] = [
    ("apiGroup", "APIGroup"),
    ("apiGroups", "APIGroups"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cel", "CEL"),
    ("cephfs", "CephFS"),
    ("chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("chapAuthSession", "SessionCHAPAuth"),
    ("cidrs", "CIDRs"),
    ("csi", "CSI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("iscsiInterface", "ISCSIInterface"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("pdID", "PdID"),
    ("pdName", "PDName"),
    ("photonPersistentDisk", "PhotonPersistentDisk"),
    ("rbd", "RBD"),
    ("seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("sslEnabled", "SSLEnabled"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
    ("storagePolicyID", "StoragePolicyID"),
];

/// Fields that are pointers in the versioned struct, and values in the internal one.
const VALUES: [(&str, &str); 5] = [
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

/// Fields that the internal struct has, in its order; those of the versioned one that are not named
/// here follow, but for the ones in [`MOVED`].
const POD_SPEC: [&str; 13] = [
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "automountServiceAccountToken",
    "nodeName",
    "securityContext",
];
const AFTER_SECURITY: [&str; 18] = [
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "setHostnameAsFQDN",
    "affinity",
    "schedulerName",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "dnsConfig",
    "readinessGates",
    "runtimeClassName",
    "overhead",
    "enableServiceLinks",
    "topologySpreadConstraints",
    "os",
];
/// Fields of a pod's spec that the internal struct has in its security context.
const MOVED: [&str; 5] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];
const SECURITY: [&str; 13] = [
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "seccompProfile",
    "appArmorProfile",
    "seLinuxChangePolicy",
];

enum Node {
    Plain(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A struct of the core group on one line.
pub(super) fn shown(kind: &str, value: &Value) -> String {
    shown_as(core_type(kind), value)
}

/// The value of a field of `kind` in version 1 of `group`, on one line.
pub(super) fn shown_field(group: &str, kind: &str, fields: &[&str], value: &Value) -> String {
    let gvk = GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    let mut at = builtin(&gvk);
    for name in fields {
        at = at.and_then(|object| match &object.field(name)?.schema {
            Schema::Object(own) => Some(own),
            _ => None,
        });
    }
    at.map_or_else(|| value.to_string(), |object| shown_as(object, value))
}

/// A struct on one line.
pub(super) fn shown_as(kind: &Object, value: &Value) -> String {
    let mut text = String::new();
    write_line(&mut text, &structure(kind, value));
    text
}

/// How the sources of two volumes differ, the fields that upstream's internal struct has being
/// those of the specs in `names`.
pub(super) fn diff_sources(names: &[&str], old: &Value, new: &Value) -> String {
    let spec = core_type("PersistentVolumeSpec");
    let lines = |value: &Value| {
        let fields = names.iter().filter_map(|name| {
            let field = spec.field(name)?;
            let node = node(&field.schema, &value[*name], field.pointer);
            Some((go_name(name), node))
        });
        let mut lines = vec![String::new()];
        write_lines(&mut lines, &Node::Map(fields.collect()), 0);
        lines
    };
    unified(&lines(old), &lines(new))
}

/// How two structs of the core group differ, in the unified format; empty if they do not.
pub(super) fn diff(kind: &str, old: &Value, new: &Value) -> String {
    let lines = |value: &Value| {
        let mut lines = vec![String::new()];
        write_lines(&mut lines, &structure(core_type(kind), value), 0);
        lines
    };
    unified(&lines(old), &lines(new))
}

/// Go's name of a field of `kind`, which some kinds have for themselves.
fn field_name(kind: &str, name: &str) -> String {
    let own = match (kind, name) {
        ("AzureDiskVolumeSource", "diskURI") => "DataDiskURI",
        ("GlusterfsPersistentVolumeSource" | "GlusterfsVolumeSource", "endpoints") => {
            "EndpointsName"
        }
        ("RBDPersistentVolumeSource" | "RBDVolumeSource", name) => match name {
            "image" => "RBDImage",
            "monitors" => "CephMonitors",
            "pool" => "RBDPool",
            "user" => "RadosUser",
            name => return go_name(name),
        },
        (_, name) => return go_name(name),
    };
    own.to_owned()
}

fn go_name(name: &str) -> String {
    if let Some((_, own)) = GO_NAMES.iter().find(|(json, _)| *json == name) {
        return (*own).to_owned();
    }
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn structure(kind: &Object, value: &Value) -> Node {
    match &*kind.name {
        "LabelSelector" | "ObjectMeta" => return tagged(kind, value),
        "PodSpec" => return pod_spec(kind, value),
        _ => {}
    }
    let mut fields = Vec::new();
    for field in kind.fields() {
        let own = &value[&*field.name];
        let embeds = [
            "PersistentVolumeClaimTemplate",
            "ResourceClaimTemplateSpec",
            "PodTemplateSpec",
            "JobTemplateSpec",
        ];
        if embeds.contains(&&*kind.name) && field.name == "metadata" {
            // Embedded with its own tags.
            if let (Schema::Object(meta), Value::Object(_)) = (&field.schema, own)
                && let Node::Map(meta) = tagged(meta, own)
            {
                fields.extend(meta);
            }
            continue;
        }
        let pointer = field.pointer && !VALUES.contains(&(&*kind.name, &*field.name));
        fields.push((
            field_name(&kind.name, &field.name),
            node(&field.schema, own, pointer),
        ));
    }
    if &*kind.name == "Volume" {
        // The internal struct has this one earlier.
        let at = |name: &str| fields.iter().position(|(own, _)| own == name);
        if let (Some(from), Some(to)) = (at("Quobyte"), at("FlexVolume")) {
            let moved = fields.remove(from);
            fields.insert(to, moved);
        }
    }
    Node::Map(fields)
}

/// A struct that upstream shares with its clients, and so has JSON's names and omissions.
fn tagged(kind: &Object, value: &Value) -> Node {
    let fields = kind.fields().iter().filter_map(|field| {
        let own = value.get(&*field.name)?;
        let node = match (&field.schema, own) {
            (Schema::Object(kind), Value::Object(_)) => tagged(kind, own),
            (Schema::Array(array), Value::Array(items)) => match &array.items {
                Schema::Object(kind) => {
                    Node::List(items.iter().map(|item| tagged(kind, item)).collect())
                }
                _ => plain(own),
            },
            _ => plain(own),
        };
        Some((field.name.to_string(), node))
    });
    Node::Map(fields.collect())
}

fn pod_spec(kind: &Object, value: &Value) -> Node {
    let skipped = |name: &str| MOVED.contains(&name) || name == "serviceAccount";
    let named: Vec<&str> = POD_SPEC.iter().chain(&AFTER_SECURITY).copied().collect();
    let rest = kind.fields().iter().map(|field| &*field.name);
    let rest = rest.filter(|name| !named.contains(name) && !skipped(name));
    let names: Vec<&str> = named.iter().copied().chain(rest).collect();
    let of = |kind: &Object, value: &Value, name: &str| {
        let field = kind.field(name)?;
        let node = node(&field.schema, &value[name], field.pointer);
        Some((go_name(name), node))
    };
    let fields = names.into_iter().filter_map(|name| {
        if name != "securityContext" || value[name].is_null() {
            return of(kind, value, name);
        }
        let own = core_type("PodSecurityContext");
        let moved = MOVED.iter().filter_map(|name| of(kind, value, name));
        let security = SECURITY.iter();
        let security = security.filter_map(|field| of(own, &value[name], field));
        Some((go_name(name), Node::Map(moved.chain(security).collect())))
    });
    Node::Map(fields.collect())
}

fn node(schema: &Schema, value: &Value, pointer: bool) -> Node {
    let null = || Node::Plain("null".to_owned());
    match (schema, value) {
        (Schema::Array(_) | Schema::Map(_), Value::Null) => null(),
        (_, Value::Null) if pointer => null(),
        (Schema::Array(array), Value::Array(items)) => {
            let items = items.iter().map(|item| node(&array.items, item, false));
            Node::List(items.collect())
        }
        (Schema::Map(map), Value::Object(entries)) => {
            let entry = |(name, value): (&SmolStr, &Value)| {
                (name.to_string(), node(&map.values, value, false))
            };
            Node::Map(entries.iter().map(entry).collect())
        }
        (Schema::Object(kind), value) => structure(kind, value),
        (Schema::String(_), Value::Null) => Node::Plain("\"\"".to_owned()),
        (Schema::Bool, Value::Null) => Node::Plain("false".to_owned()),
        (Schema::Int32 | Schema::Int64 | Schema::Float | Schema::IntOrString, Value::Null) => {
            Node::Plain("0".to_owned())
        }
        (Schema::Quantity, Value::Null) => Node::Plain("\"0\"".to_owned()),
        (_, value) => plain(value),
    }
}

/// A value as its JSON is.
fn plain(value: &Value) -> Node {
    match value {
        Value::Array(items) => Node::List(items.iter().map(plain).collect()),
        Value::Object(entries) => {
            let entry = |(name, value): (&SmolStr, &Value)| (name.to_string(), plain(value));
            Node::Map(Map::iter(entries).map(entry).collect())
        }
        value => Node::Plain(html_escape(&value.to_string()).into_owned()),
    }
}

fn write_line(text: &mut String, node: &Node) {
    match node {
        Node::Plain(own) => text.push_str(own),
        Node::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                write_line(text, item);
            }
            text.push(']');
        }
        Node::Map(entries) => {
            text.push('{');
            for (index, (name, value)) in entries.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                text.push_str(&format!("{}:", encoded_string(name)));
                write_line(text, value);
            }
            text.push('}');
        }
    }
}

/// Writes `node` at the end of the last line, and its children on lines of their own.
fn write_lines(lines: &mut Vec<String>, node: &Node, depth: usize) {
    let push = |lines: &mut Vec<String>, text: &str| {
        lines
            .last_mut()
            .expect("there is a first line")
            .push_str(text);
    };
    let (brackets, count) = match node {
        Node::Plain(text) => return push(lines, text),
        Node::List(items) => (["[", "]"], items.len()),
        Node::Map(entries) => (["{", "}"], entries.len()),
    };
    push(lines, brackets[0]);
    for index in 0..count {
        let indent = " ".repeat(depth + 1);
        match node {
            Node::List(items) => {
                lines.push(indent);
                write_lines(lines, &items[index], depth + 1);
            }
            Node::Map(entries) => {
                let (name, value) = &entries[index];
                lines.push(format!("{indent}{}: ", encoded_string(name)));
                write_lines(lines, value, depth + 1);
            }
            Node::Plain(_) => {}
        }
        if index + 1 < count {
            push(lines, ",");
        }
    }
    if count > 0 {
        lines.push(" ".repeat(depth));
    }
    push(lines, brackets[1]);
}

/// A line of a comparison: kept, removed or added.
#[derive(Clone, Copy)]
struct Step<'a> {
    mark: char,
    line: &'a str,
    /// How many lines of each side come before.
    at: (usize, usize),
}

/// A stretch of `len` lines that is the same on both sides.
struct Block {
    old: usize,
    new: usize,
    len: usize,
}

/// From this number of lines on, frequent lines do not count as matches.
const MANY: usize = 200;

/// The places of each line of `new` that may begin a match.
fn places(new: &[String]) -> BTreeMap<&str, Vec<usize>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= MANY {
        places.retain(|_, own| own.len() <= new.len() / 100 + 1);
    }
    places
}

/// The longest stretch that both ranges share, the earliest of those.
fn longest(
    (old, new): (&[String], &[String]),
    places: &BTreeMap<&str, Vec<usize>>,
    within: &(Range<usize>, Range<usize>),
) -> Block {
    let (rows, columns) = within;
    let mut best = Block {
        old: rows.start,
        new: columns.start,
        len: 0,
    };
    let mut ending: BTreeMap<usize, usize> = BTreeMap::new();
    for i in rows.clone() {
        let mut next = BTreeMap::new();
        let found = places.get(old[i].as_str()).into_iter().flatten();
        for &j in found.filter(|j| columns.contains(j)) {
            let before = j.checked_sub(1).and_then(|j| ending.get(&j));
            let len = before.copied().unwrap_or(0) + 1;
            next.insert(j, len);
            if len > best.len {
                best = Block {
                    old: i + 1 - len,
                    new: j + 1 - len,
                    len,
                };
            }
        }
        ending = next;
    }
    while best.old > rows.start
        && best.new > columns.start
        && old[best.old - 1] == new[best.new - 1]
    {
        (best.old, best.new, best.len) = (best.old - 1, best.new - 1, best.len + 1);
    }
    while best.old + best.len < rows.end
        && best.new + best.len < columns.end
        && old[best.old + best.len] == new[best.new + best.len]
    {
        best.len += 1;
    }
    best
}

/// Returns the common blocks of two texts, as Python's `difflib` aligns them.
fn blocks(old: &[String], new: &[String]) -> Vec<Block> {
    let places = places(new);
    let mut found = Vec::new();
    let mut open = vec![(0..old.len(), 0..new.len())];
    while let Some(within) = open.pop() {
        let block = longest((old, new), &places, &within);
        if block.len == 0 {
            continue;
        }
        let (rows, columns) = within;
        open.push((rows.start..block.old, columns.start..block.new));
        open.push((
            block.old + block.len..rows.end,
            block.new + block.len..columns.end,
        ));
        found.push(block);
    }
    found.sort_by_key(|block| block.old);
    found
}

fn steps<'a>(old: &'a [String], new: &'a [String]) -> Vec<Step<'a>> {
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    let end = Block {
        old: old.len(),
        new: new.len(),
        len: 0,
    };
    for block in blocks(old, new).into_iter().chain([end]) {
        for (at, line) in old.iter().enumerate().take(block.old).skip(i) {
            steps.push(Step {
                mark: '-',
                line,
                at: (at, j),
            });
        }
        for (at, line) in new.iter().enumerate().take(block.new).skip(j) {
            steps.push(Step {
                mark: '+',
                line,
                at: (block.old, at),
            });
        }
        for ahead in 0..block.len {
            let at = (block.old + ahead, block.new + ahead);
            let line = &old[at.0];
            steps.push(Step {
                mark: ' ',
                line,
                at,
            });
        }
        (i, j) = (block.old + block.len, block.new + block.len);
    }
    steps
}

fn unified(old: &[String], new: &[String]) -> String {
    let steps = steps(old, new);
    let mut changes = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.mark != ' ');
    let mut text = String::new();
    let mut next = changes.next().map(|(index, _)| index);
    while let Some(first) = next {
        let mut last = first;
        next = None;
        for (index, _) in changes.by_ref() {
            if index - last > 2 * CONTEXT + 1 {
                next = Some(index);
                break;
            }
            last = index;
        }
        let hunk = &steps[first.saturating_sub(CONTEXT)..(last + 1 + CONTEXT).min(steps.len())];
        let count = |mark: char| {
            hunk.iter()
                .filter(|step| [' ', mark].contains(&step.mark))
                .count()
        };
        let range = |before: usize, count: usize| match count {
            0 => format!("{before},0"),
            1 => format!("{}", before + 1),
            _ => format!("{},{count}", before + 1),
        };
        let (i, j) = hunk[0].at;
        let (i, j) = (range(i, count('-')), range(j, count('+')));
        text.push_str(&format!("@@ -{i} +{j} @@\n"));
        for step in hunk {
            text.push_str(&format!("{}{}\n", step.mark, step.line));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_difference_is_shown_with_three_lines_around() {
        let spec =
            |class: &str| json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class});
        let text = diff("PersistentVolumeClaimSpec", &spec("a"), &spec("b"));
        let want = "@@ -8,7 +8,7 @@\n   \"Requests\": null\n  },\n  \"VolumeName\": \"\",\n- \"StorageClassName\": \"a\",\n+ \"StorageClassName\": \"b\",\n  \"VolumeMode\": null,\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n";
        assert_eq!(text, want);
    }

    #[test]
    fn a_struct_on_one_line_has_every_field() {
        let profile = json!({"type": "RuntimeDefault", "localhostProfile": "x"});
        let want = r#"{"Type":"RuntimeDefault","LocalhostProfile":"x"}"#;
        assert_eq!(shown("SeccompProfile", &profile), want);
    }
}
