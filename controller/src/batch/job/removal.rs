//! Chooses the active pods of a job to delete when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubeproof_runtime::pod::Pod;

use super::sync_context::SyncContext;
use super::{pods, spec};
use crate::workload::pod_ranking::{Respects, compare};

/// Returns at least `count` of the active pods, in the order of deletion.
///
/// In an Indexed job the result always has pods without a valid index, and all but one of the pods
/// of each index.
pub(super) fn chosen(context: &SyncContext, count: usize) -> Vec<Arc<Pod>> {
    let (mut chosen, mut left) = if spec::is_indexed(&context.job) {
        split(context)
    } else {
        (Vec::new(), context.active.clone())
    };
    if chosen.len() < count {
        sort(&mut left);
        left.truncate(count - chosen.len());
        chosen.append(&mut left);
    }
    chosen
}

/// Splits the active pods into unwanted ones (without a valid index, or duplicates of one) and one
/// for each index.
fn split(context: &SyncContext) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut by_index: BTreeMap<usize, Vec<Arc<Pod>>> = BTreeMap::new();
    let mut unwanted = Vec::new();
    for pod in &context.active {
        match pods::index_in(pod, &context.job) {
            Some(index) => by_index.entry(index).or_default().push(pod.clone()),
            None => unwanted.push(pod.clone()),
        }
    }
    let mut wanted = Vec::new();
    for mut of_index in by_index.into_values() {
        sort(&mut of_index);
        wanted.extend(of_index.pop());
        unwanted.append(&mut of_index);
    }
    (unwanted, wanted)
}

fn sort(pods: &mut [Arc<Pod>]) {
    pods.sort_by(|a, b| compare(a, b, Respects::default()));
}
