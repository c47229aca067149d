//! Volumes of kinds that nothing mounts any more, and files that hide each other.

use std::collections::BTreeMap;

use crate::core::claim_spec::warn_of_claim_spec;
use crate::json::Value;
use crate::status::{FieldPath, quoted};
use crate::unstructured::{entries, items, text};

/// Volume sources that no kubelet mounts any more: the field, upstream's name of it, and the
/// warning.
pub const GONE_SOURCES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// The path of a file in a volume, and its source if the volume has several sources.
type File<'v> = (&'v str, String);

pub(super) fn warn_of_volumes(volumes: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    for (index, volume) in items(volumes).enumerate() {
        let path = path.index(index);
        for (source, name, why) in GONE_SOURCES {
            if !volume[source].is_null() {
                warnings.push(format!("{}: {why}", path.child(name)));
            }
            if source == "glusterfs" {
                let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
                if !claim.is_null() {
                    let path = path.child("ephemeral").child("volumeClaimTemplate");
                    warn_of_claim_spec(claim, &path.child("spec"), warnings);
                }
            }
        }
    }
    for volume in items(volumes) {
        warn_of_files(volume, warnings);
    }
}

/// Files of a volume that are at one place, or one below another.
fn warn_of_files(volume: &Value, warnings: &mut Vec<String>) {
    let name = text(&volume["name"]);
    let mut warn = |what: &str, overlap: String| {
        warnings.push(format!(
            "volume {name:?} ({what}): overlapping paths: {overlap}"
        ));
    };
    for (source, kind, field) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let own = &volume[source];
        if own["items"].is_null() {
            continue;
        }
        let what = match field {
            "" => kind.to_owned(),
            field => format!("{kind} {}", quoted(text(&own[field]))),
        };
        let mut files = Files::default();
        for item in items(&own["items"]) {
            for overlap in files.add((text(&item["path"]), String::new())) {
                warn(&what, overlap);
            }
        }
    }
    let mut files = Files::default();
    for source in items(&volume["projected"]["sources"]) {
        if entries(source).all(|(_, own)| own.is_null()) {
            warnings.push(format!(
                "volume {name:?} (Projected) has no sources provided"
            ));
            continue;
        }
        for file in files_of(source) {
            for overlap in files.add(file) {
                warnings.push(format!(
                    "volume {name:?} (Projected): overlapping paths: {overlap}"
                ));
            }
        }
    }
}

/// The files of one source of a projected volume.
fn files_of(source: &Value) -> Vec<File<'_>> {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        let own = &source[field];
        if own["items"].is_array() {
            let from = format!("{kind} {}", quoted(text(&own["name"])));
            let files = items(&own["items"]);
            return files
                .map(|item| (text(&item["path"]), from.clone()))
                .collect();
        }
    }
    let downward = &source["downwardAPI"]["items"];
    if downward.is_array() {
        let files = items(downward);
        return files
            .map(|item| (text(&item["path"]), "DownwardAPI".to_owned()))
            .collect();
    }
    let token = &source["serviceAccountToken"];
    if !token.is_null() {
        return vec![(text(&token["path"]), "ServiceAccountToken".to_owned())];
    }
    let bundle = &source["clusterTrustBundle"];
    if !bundle.is_null() {
        let name = bundle["name"].as_str();
        let name = name.unwrap_or(text(&bundle["signerName"]));
        return vec![(
            text(&bundle["path"]),
            format!("ClusterTrustBundle {name:?}"),
        )];
    }
    let certificate = &source["podCertificate"];
    let files = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let files = files.map(|(field, from)| (text(&certificate[field]), from.to_owned()));
    let files = files.into_iter();
    files.filter(|(path, _)| !path.is_empty()).collect()
}

/// Files by their paths, so that those at one place or below another are found without a walk
/// over all.
#[derive(Default)]
struct Files<'v> {
    by_path: BTreeMap<&'v str, Vec<(usize, String)>>,
    count: usize,
}

impl<'v> Files<'v> {
    /// Adds a file; which of those before it is at the same place, above or below.
    fn add(&mut self, (path, from): File<'v>) -> Vec<String> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Vec::new();
        }
        let shown = |path: &str, from: &str| match from {
            "" => quoted(path),
            from => format!("{} ({from})", quoted(path)),
        };
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let below = format!("{path}/");
        let inside = self.by_path.range(below.as_str()..);
        let inside = inside.take_while(|(other, _)| other.starts_with(&below));
        let around = above
            .chain([path])
            .filter_map(|place| self.by_path.get_key_value(place));
        let mut overlaps: Vec<_> = around
            .chain(inside)
            .flat_map(|(other, files)| files.iter().map(move |(order, from)| (order, other, from)))
            .collect();
        overlaps.sort_by_key(|(order, ..)| **order);
        let overlaps = overlaps.into_iter();
        let overlaps = overlaps
            .map(|(_, other, old)| format!("{} with {}", shown(path, &from), shown(other, old)))
            .collect();
        let order = self.count;
        self.count += 1;
        let held = self.by_path.entry(path).or_default();
        // A warning is given once, so one file of each source will do.
        if held.iter().all(|(_, other)| *other != from) {
            held.push((order, from));
        }
        overlaps
    }
}
