//! `kubectl describe sts`.

use jiff::Timestamp;
use kubeproof_machinery::json::Value;

use super::super::cluster::Cluster;
use super::{Command, text};
use crate::runner::step_error::StepError;

const NONE: &str = "<none>";

/// Prints the description that kubectl gives of a StatefulSet.
pub(super) async fn perform(
    cluster: Cluster<'_>,
    command: &Command<'_>,
) -> Result<Vec<String>, StepError> {
    let target = command.target(1)?;
    let api = cluster.api();
    if api.kind(&target.resource)? != "statefulset.apps" {
        let refusal = format!("describe of {} is not known here", target.resource);
        return Err(StepError::Command(refusal));
    }
    let set = api.get((&target.resource, &target.name), None).await?;
    let pods = api.list("pods").await?;
    let uid = text(&set, "/metadata/uid");
    let owned = pods["items"].as_array().into_iter().flatten();
    let owned = owned.filter(|pod| text(pod, "/metadata/ownerReferences/0/uid") == uid);
    let phases: Vec<&str> = owned.map(|pod| text(pod, "/status/phase")).collect();
    let events = api.list("events").await?;
    let events = events["items"].as_array().into_iter().flatten();
    let of_set: Vec<&Value> = events
        .filter(|event| text(event, "/involvedObject/uid") == uid)
        .collect();
    let mut lines = head(&set, &phases);
    template(&set["spec"]["template"], &mut lines);
    claims(&set["spec"]["volumeClaimTemplates"], &mut lines);
    describe_events(of_set, cluster.now(), &mut lines);
    Ok(align(&lines))
}

/// Lines as cells; those of one cell end a block of aligned ones.
type Lines = Vec<Vec<String>>;

fn put(lines: &mut Lines, cells: &[&str]) {
    lines.push(cells.iter().map(|cell| (*cell).to_owned()).collect());
}

fn head(set: &Value, phases: &[&str]) -> Lines {
    let mut lines = Lines::new();
    let created: Option<Timestamp> = text(set, "/metadata/creationTimestamp").parse().ok();
    let created = created.map(|time| time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string());
    put(&mut lines, &["Name:", text(set, "/metadata/name")]);
    put(
        &mut lines,
        &["Namespace:", text(set, "/metadata/namespace")],
    );
    put(
        &mut lines,
        &["CreationTimestamp:", &created.unwrap_or_default()],
    );
    let selector = pairs(&set["spec"]["selector"]["matchLabels"], "=").join(",");
    put(&mut lines, &["Selector:", &selector]);
    multiline(
        &mut lines,
        "Labels:",
        &pairs(&set["metadata"]["labels"], "="),
    );
    multiline(
        &mut lines,
        "Annotations:",
        &pairs(&set["metadata"]["annotations"], ": "),
    );
    let number = |path: &str| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let (desired, total) = (number("/spec/replicas"), number("/status/replicas"));
    let replicas = format!("{desired} desired | {total} total");
    put(&mut lines, &["Replicas:", &replicas]);
    put(
        &mut lines,
        &["Update Strategy:", text(set, "/spec/updateStrategy/type")],
    );
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    if let Some(partition) = rolling["partition"].as_i64() {
        put(&mut lines, &["  Partition:", &partition.to_string()]);
    }
    let count = |phase: &str| phases.iter().filter(|known| **known == phase).count();
    let (running, waiting) = (count("Running"), count("Pending"));
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
    let status =
        format!("{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed");
    put(&mut lines, &["Pods Status:", &status]);
    lines
}

/// Describes a pod template with tabs that nothing aligns, as `rollout history --revision` does.
pub(super) fn pod_template(of: &Value) -> Vec<String> {
    let mut lines = Lines::new();
    template(of, &mut lines);
    lines.iter().map(|cells| cells.join("\t")).collect()
}

fn template(template: &Value, lines: &mut Lines) {
    put(lines, &["Pod Template:"]);
    multiline(
        lines,
        "  Labels:",
        &pairs(&template["metadata"]["labels"], "="),
    );
    let annotations = pairs(&template["metadata"]["annotations"], ": ");
    if !annotations.is_empty() {
        multiline(lines, "  Annotations:", &annotations);
    }
    put(lines, &["  Containers:"]);
    let containers = template["spec"]["containers"].as_array();
    for container in containers.into_iter().flatten() {
        put(lines, &[&format!("   {}:", text(container, "/name"))]);
        put(lines, &["    Image:", text(container, "/image")]);
        let ports: Vec<&Value> = container["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let listed = |field: &str| {
            let numbered = ports.iter().map(|port| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                format!("{}/{protocol}", port[field].as_i64().unwrap_or(0))
            });
            let ports: Vec<String> = numbered.collect();
            if ports.is_empty() {
                NONE.to_owned()
            } else {
                ports.join(", ")
            }
        };
        let plural = if ports.len() > 1 { "s" } else { "" };
        put(
            lines,
            &[&format!("    Port{plural}:"), &listed("containerPort")],
        );
        put(
            lines,
            &[&format!("    Host Port{plural}:"), &listed("hostPort")],
        );
        put(lines, &["    Environment:", NONE]);
        let mounts: Vec<&Value> = container["volumeMounts"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        if mounts.is_empty() {
            put(lines, &["    Mounts:", NONE]);
        } else {
            put(lines, &["    Mounts:"]);
            for mount in mounts {
                let (path, name) = (text(mount, "/mountPath"), text(mount, "/name"));
                let access = if mount["readOnly"] == true {
                    "ro"
                } else {
                    "rw"
                };
                put(lines, &[&format!("      {path} from {name} ({access})")]);
            }
        }
    }
    for field in ["  Volumes:", "  Node-Selectors:", "  Tolerations:"] {
        put(lines, &[field, NONE]);
    }
}

fn claims(templates: &Value, lines: &mut Lines) {
    let Some(templates) = templates.as_array() else {
        put(lines, &["Volume Claims:", NONE]);
        return;
    };
    put(lines, &["Volume Claims:"]);
    for claim in templates {
        put(lines, &["  Name:", text(claim, "/metadata/name")]);
        put(
            lines,
            &["  StorageClass:", text(claim, "/spec/storageClassName")],
        );
        multiline(
            lines,
            "  Labels:",
            &pairs(&claim["metadata"]["labels"], "="),
        );
        multiline(
            lines,
            "  Annotations:",
            &pairs(&claim["metadata"]["annotations"], ": "),
        );
        put(
            lines,
            &[
                "  Capacity:",
                text(claim, "/spec/resources/requests/storage"),
            ],
        );
        let modes = claim["spec"]["accessModes"]
            .as_array()
            .into_iter()
            .flatten();
        let modes: Vec<&str> = modes.filter_map(Value::as_str).collect();
        put(
            lines,
            &["  Access Modes:", &format!("[{}]", modes.join(" "))],
        );
    }
}

fn describe_events(mut events: Vec<&Value>, now: Timestamp, lines: &mut Lines) {
    if events.is_empty() {
        put(lines, &["Events:", NONE]);
        return;
    }
    events.sort_by_key(|event| text(event, "/lastTimestamp").to_owned());
    put(lines, &["Events:"]);
    put(lines, &["  Type", "Reason", "Age", "From", "Message"]);
    put(lines, &["  ----", "------", "----", "----", "-------"]);
    for event in events {
        let since = |path: &str| {
            let time: Option<Timestamp> = text(event, path).parse().ok();
            time.map_or_else(String::new, |time| age(now.duration_since(time).as_secs()))
        };
        let mut seen = match text(event, "/eventTime") {
            "" => since("/firstTimestamp"),
            _ => since("/eventTime"),
        };
        let count = event["count"].as_i64().unwrap_or(1);
        if count > 1 {
            seen = format!("{} (x{count} over {seen})", since("/lastTimestamp"));
        }
        let event_type = format!("  {}", text(event, "/type"));
        let from = match text(event, "/source/component") {
            "" => text(event, "/reportingComponent"),
            source => source,
        };
        let reason = text(event, "/reason");
        put(
            lines,
            &[
                &event_type,
                reason,
                &seen,
                from,
                text(event, "/message").trim(),
            ],
        );
    }
}

/// A length of time in at most two units, as kubectl shortens it up to a day.
fn age(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let both = |one: String, rest: i64, unit: &str| match rest {
        0 => one,
        rest => format!("{one}{rest}{unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => both(format!("{minutes}m"), seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => both(format!("{hours}h"), minutes % 60, "m"),
        () => format!("{hours}h"),
    }
}

fn pairs(map: &Value, separator: &str) -> Vec<String> {
    let entries = map.as_object().into_iter().flatten();
    let pairs = entries.map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{key}{separator}{value}")
    });
    pairs.collect()
}

/// A field of several values, one below the other.
fn multiline(lines: &mut Lines, field: &str, values: &[String]) {
    if values.is_empty() {
        put(lines, &[field, NONE]);
    }
    let indent = &field[..field.len() - field.trim_start().len()];
    for (index, value) in values.iter().enumerate() {
        put(lines, &[if index == 0 { field } else { indent }, value]);
    }
}

/// Lines of the same number of cells that follow each other share their columns.
fn align(lines: &Lines) -> Vec<String> {
    let mut aligned = Vec::new();
    for block in lines.chunk_by(|one, next| one.len() == next.len()) {
        let width = |column: usize| {
            let cells = block.iter().map(|line| line[column].chars().count());
            cells.max().unwrap_or(0) + 2
        };
        for line in block {
            let last = line.len() - 1;
            let cells = line.iter().enumerate().map(|(column, cell)| match column {
                column if column == last => cell.clone(),
                column => format!("{cell:<width$}", width = width(column)),
            });
            aligned.push(cells.collect::<String>());
        }
    }
    aligned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_as_kubectl_shortens_them() {
        let ages = [5, 119, 120, 330, 600, 7200, 10_800, 12_600, 36_000].map(age);
        assert_eq!(
            ages,
            [
                "5s", "119s", "2m", "5m30s", "10m", "120m", "3h", "3h30m", "10h"
            ]
        );
    }

    #[test]
    fn a_line_of_one_cell_ends_a_block() {
        let mut lines = Lines::new();
        put(&mut lines, &["a:", "1"]);
        put(&mut lines, &["longer:", "2"]);
        put(&mut lines, &["alone:"]);
        put(&mut lines, &["b:", "3"]);
        assert_eq!(
            align(&lines),
            ["a:       1", "longer:  2", "alone:", "b:  3"]
        );
    }
}
