//! Failure zones: how badly each is disrupted, and how fast its nodes may be emptied.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kubeproof_runtime::clock::later;

/// The interval between evictions of nodes in a zone, ...
const INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// ... and the interval when most nodes of a large zone have failed.
const SECONDARY_INTERVAL: SignedDuration = SignedDuration::from_secs(100);
/// The most nodes of a zone that is not large.
const LARGE_ZONE_NODES: usize = 50;
/// The most failed nodes that never disrupt a zone in part.
const FEW_NODES: usize = 2;

/// How a zone is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Initial,
    Normal,
    Partial,
    Full,
}

impl State {
    /// 55 % of failed nodes are a partial disruption.
    fn of(ready: usize, failed: usize) -> Self {
        if ready == 0 && failed > 0 {
            Self::Full
        } else if failed > FEW_NODES && failed * 100 >= (ready + failed) * 55 {
            Self::Partial
        } else {
            Self::Normal
        }
    }

    /// The least time between two nodes; none when no node may be emptied.
    fn interval(self, nodes: usize) -> Option<SignedDuration> {
        match self {
            Self::Initial | Self::Normal | Self::Full => Some(INTERVAL),
            Self::Partial if nodes > LARGE_ZONE_NODES => Some(SECONDARY_INTERVAL),
            Self::Partial => None,
        }
    }
}

struct Zone {
    state: State,
    interval: Option<SignedDuration>,
    /// The next node may be emptied from then on.
    free: Timestamp,
    /// Nodes to be emptied, in order.
    waiting: VecDeque<String>,
}

/// The change that the states of all zones call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// No change.
    None,
    /// Every node of every zone has just failed: the control plane is presumed at fault, and
    /// nothing is evicted.
    EnterMasterDisruption,
    /// Some node is ready again: all nodes get a new grace period.
    ExitMasterDisruption,
}

/// All zones, by region and zone.
#[derive(Default)]
pub(super) struct Zones {
    zones: BTreeMap<String, Zone>,
}

/// The zone of a node, empty when its labels name none.
pub(super) fn zone_of(node: &Node) -> String {
    let labels = node.metadata.labels.as_ref();
    let label = |name: &str, beta: &str| {
        let labels = labels?;
        labels.get(name).or_else(|| labels.get(beta)).cloned()
    };
    let region = label(
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/region",
    );
    let zone = label(
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/zone",
    );
    match (region, zone) {
        (None, None) => String::new(),
        (region, zone) => {
            let (region, zone) = (region.unwrap_or_default(), zone.unwrap_or_default());
            format!("{region}:\0:{zone}")
        }
    }
}

impl Zones {
    fn zone(&mut self, name: &str) -> &mut Zone {
        self.zones.entry(name.to_owned()).or_insert_with(|| Zone {
            state: State::Initial,
            interval: Some(INTERVAL),
            free: Timestamp::MIN,
            waiting: VecDeque::new(),
        })
    }

    /// Queues the node for eviction; returns whether it was not queued before.
    pub(super) fn add(&mut self, zone: &str, node: &str) -> bool {
        let zone = self.zone(zone);
        let is_new = !zone.waiting.iter().any(|waiting| waiting == node);
        if is_new {
            zone.waiting.push_back(node.to_owned());
        }
        is_new
    }

    /// The node need not be emptied any more.
    pub(super) fn remove(&mut self, zone: &str, node: &str) {
        self.zone(zone).waiting.retain(|waiting| waiting != node);
    }

    /// The nodes whose turn it is, and when the next one's comes.
    pub(super) fn due(&mut self, now: Timestamp) -> (Vec<String>, Option<Timestamp>) {
        let mut due = Vec::new();
        let mut next: Option<Timestamp> = None;
        for zone in self.zones.values_mut() {
            let Some(interval) = zone.interval else {
                continue;
            };
            if zone.free <= now
                && let Some(node) = zone.waiting.pop_front()
            {
                due.push(node);
                zone.free = later(now, interval);
            }
            if !zone.waiting.is_empty() {
                next = Some(next.map_or(zone.free, |next| next.min(zone.free)));
            }
        }
        (due, next)
    }

    /// Judges the zones by how many nodes of each are ready and how many are not.
    pub(super) fn judge(
        &mut self,
        counts: &BTreeMap<String, (usize, usize)>,
        now: Timestamp,
    ) -> Turn {
        let states: BTreeMap<&str, State> = counts
            .iter()
            .map(|(zone, (ready, failed))| (zone.as_str(), State::of(*ready, *failed)))
            .collect();
        for zone in counts.keys() {
            self.zone(zone);
        }
        self.zones.retain(|zone, _| counts.contains_key(zone));
        let all_are = states.values().all(|state| *state == State::Full);
        let all_were = self.zones.values().all(|zone| zone.state == State::Full);
        if all_are && all_were {
            return Turn::None;
        }
        if all_are {
            for zone in self.zones.values_mut() {
                zone.state = State::Full;
                zone.interval = None;
            }
            return Turn::EnterMasterDisruption;
        }
        for (name, zone) in &mut self.zones {
            let Some(state) = states.get(name.as_str()) else {
                continue;
            };
            if zone.state == *state && !all_were {
                continue;
            }
            let (ready, failed) = counts[name];
            let interval = state.interval(ready + failed);
            // Nodes that already wait continue at the new pace.
            if let Some(interval) = interval.filter(|_| zone.interval != interval)
                && zone.free > now
            {
                zone.free = later(now, interval);
            }
            zone.interval = interval;
            zone.state = *state;
        }
        if all_were {
            Turn::ExitMasterDisruption
        } else {
            Turn::None
        }
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn counts(zones: &[(&str, usize, usize)]) -> BTreeMap<String, (usize, usize)> {
        zones
            .iter()
            .map(|(zone, ready, failed)| ((*zone).to_owned(), (*ready, *failed)))
            .collect()
    }

    #[test]
    fn nodes_of_a_zone_are_emptied_one_in_ten_seconds() {
        let mut zones = Zones::default();
        for node in ["a", "b", "a"] {
            zones.add("", node);
        }
        assert_eq!(zones.due(at(0)), (vec!["a".to_owned()], Some(at(10))));
        assert_eq!(zones.due(at(5)), (Vec::new(), Some(at(10))));
        zones.add("far", "c");
        let both = vec!["b".to_owned(), "c".to_owned()];
        assert_eq!(zones.due(at(10)), (both, None));
    }

    #[test]
    fn a_small_zone_that_failed_for_the_most_part_keeps_its_pods() {
        let table = [
            // ready, failed, whether nodes are emptied
            (2, 1, true),
            (1, 2, true),
            (2, 3, false),
            (3, 3, true),
            (0, 3, true),
            (30, 40, true),
        ];
        for (ready, failed, emptied) in table {
            let mut zones = Zones::default();
            // Another zone is well, so that this is not about the control plane.
            zones.judge(&counts(&[("z", ready, failed), ("well", 1, 0)]), at(0));
            zones.add("z", "a");
            let (due, _) = zones.due(at(0));
            assert_eq!(
                due.len(),
                usize::from(emptied),
                "{ready} ready, {failed} not"
            );
        }
    }

    #[test]
    fn nothing_is_emptied_while_no_node_is_ready() {
        let mut zones = Zones::default();
        assert_eq!(zones.judge(&counts(&[("", 2, 0)]), at(0)), Turn::None);
        let failed = counts(&[("", 0, 2)]);
        assert_eq!(zones.judge(&failed, at(5)), Turn::EnterMasterDisruption);
        assert_eq!(zones.judge(&failed, at(10)), Turn::None);
        zones.add("", "a");
        assert_eq!(zones.due(at(10)), (Vec::new(), None));
        let back = counts(&[("", 1, 1)]);
        assert_eq!(zones.judge(&back, at(15)), Turn::ExitMasterDisruption);
        assert_eq!(zones.due(at(15)).0, ["a"]);
    }

    #[test]
    fn zones_are_told_apart_by_region_and_zone() {
        let node = |labels: serde_json::Value| -> Node {
            from_value(serde_json::json!({"metadata": {"labels": labels}})).unwrap()
        };
        assert_eq!(zone_of(&node(serde_json::json!({}))), "");
        let labels = serde_json::json!({"topology.kubernetes.io/region": "r",
            "failure-domain.beta.kubernetes.io/zone": "z"});
        assert_eq!(zone_of(&node(labels)), "r:\0:z");
    }
}
