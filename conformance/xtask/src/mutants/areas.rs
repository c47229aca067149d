//! The code that is changed, by the rows of the report.

use std::path::Path;

use super::tree;

/// A row of the report.
pub(crate) struct Area {
    pub(crate) title: &'static str,
    /// Beginnings of paths from the root of the workspace.
    paths: &'static [&'static str],
    /// Whether these are workload controllers or code that only those share.
    pub(crate) is_workload: bool,
}

/// The rows. A file belongs to the first that fits.
pub(crate) const AREAS: [Area; 11] = [
    Area {
        title: "StatefulSet",
        paths: &["controller/src/apps/statefulset"],
        is_workload: true,
    },
    Area {
        title: "Advanced StatefulSet",
        paths: &["controller/src/kruise/advanced_statefulset"],
        is_workload: true,
    },
    Area {
        title: "CloneSet",
        paths: &["controller/src/kruise/cloneset"],
        is_workload: true,
    },
    Area {
        title: "Deployment, ReplicaSet, ReplicationController",
        paths: &[
            "controller/src/apps/deployment",
            "controller/src/apps/replicaset",
            "controller/src/core/replication_controller.rs",
        ],
        is_workload: true,
    },
    Area {
        title: "DaemonSet",
        paths: &["controller/src/apps/daemonset"],
        is_workload: true,
    },
    Area {
        title: "Job, CronJob",
        paths: &["controller/src/batch/"],
        is_workload: true,
    },
    Area {
        title: "garbage collector",
        paths: &["controller/src/garbage_collector"],
        is_workload: true,
    },
    Area {
        title: "shared by workload controllers",
        paths: &[
            "controller/src/workload/",
            "controller/runtime/src/controller_ref.rs",
            "controller/runtime/src/expectations.rs",
            "controller/runtime/src/int_or_percent.rs",
            "controller/runtime/src/named_expectations.rs",
            "controller/runtime/src/pod.rs",
            "controller/runtime/src/version_expectations.rs",
        ],
        is_workload: true,
    },
    Area {
        title: "shared by OpenKruise's workload controllers",
        paths: &[
            "controller/src/kruise/container_hash.rs",
            "controller/src/kruise/in_place",
            "controller/src/kruise/lifecycle.rs",
            "controller/src/kruise/pod_readiness.rs",
            "controller/src/kruise/pod_writes.rs",
            "controller/src/kruise/refresh.rs",
            "controller/src/kruise/revision.rs",
            "controller/src/kruise/status_write.rs",
            "controller/src/kruise/update_sort.rs",
        ],
        is_workload: true,
    },
    Area {
        title: "OpenKruise's images, node daemon and gates",
        paths: &["controller/src/kruise"],
        is_workload: false,
    },
    Area {
        title: "nodes",
        paths: &[
            "controller/node/src/",
            "controller/src/core/node_lifecycle",
            "controller/src/core/pod_garbage_collector.rs",
            "controller/src/core/taint_eviction",
        ],
        is_workload: false,
    },
];

/// Schemas of definitions are compared with upstream's by a test of their own, and no controller reads them.
const EXCLUDED: [&str; 1] = ["controller/src/kruise/api/schema.rs"];

/// The index of the area that a file belongs to.
pub(crate) fn of(file: &str) -> Option<usize> {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    if is_test || EXCLUDED.contains(&file) {
        return None;
    }
    let fits = |area: &Area| area.paths.iter().any(|path| file.starts_with(path));
    AREAS.iter().position(fits)
}

/// Whether a file is of workload controllers.
pub(crate) fn is_workload(file: &str) -> bool {
    of(file).is_some_and(|area| AREAS[area].is_workload)
}

/// The files of all areas, in the order of the areas.
///
/// # Errors
/// A directory cannot be listed.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for file in tree::files(&root.join("controller"))? {
        let file = format!("controller/{file}");
        if file.ends_with(".rs")
            && let Some(area) = of(&file)
        {
            found.push((area, file));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_area_has_files_and_tests_belong_to_none() {
        let files = files(&crate::root()).unwrap();
        for (index, area) in AREAS.iter().enumerate() {
            let fits = files.iter().any(|file| of(file) == Some(index));
            assert!(fits, "{} has no files", area.title);
            for path in area.paths {
                let has_files = files.iter().any(|file| file.starts_with(path));
                assert!(has_files, "nothing is at {path}");
            }
        }
        assert_eq!(
            of("controller/src/apps/statefulset/reconcile/tests.rs"),
            None
        );
        assert_eq!(of("controller/src/core/services.rs"), None);
    }
}
