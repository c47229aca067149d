//! Which of the points of a run are tried: all, or those in situations of which an exploration has not tried enough.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use kubeproof_apiserver::fault::Point;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

/// The number of points that are tried with each kind of fault.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Points {
    /// Every point.
    #[default]
    All,
    /// The first point of each situation.
    Covering,
    /// At most this many runs: the first points of all situations, then the second ones, and so on.
    AtMost(usize),
}

impl FromStr for Points {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "covering" => Ok(Self::Covering),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::AtMost(number)),
                _ => Err("expected `all`, `covering` or a number of runs".to_owned()),
            },
        }
    }
}

impl Points {
    /// Chooses among `all`, which has the situation of each.
    pub(super) fn choose<S: Ord, T>(self, all: Vec<(S, T)>) -> Vec<T> {
        let mut counts = BTreeMap::new();
        let ranked: Vec<(usize, T)> = all
            .into_iter()
            .map(|(situation, one)| {
                let count = counts.entry(situation).or_insert(0_usize);
                *count += 1;
                (*count - 1, one)
            })
            .collect();
        // All points of ranks below `whole` are taken, and `of_next` of that rank, spread evenly.
        let (whole, of_next) = match self {
            Self::All => (usize::MAX, 0),
            Self::Covering => (1, 0),
            Self::AtMost(max) => within(max, &ranked),
        };
        let next = ranked.iter().filter(|(rank, _)| *rank == whole).count();
        let (mut place, mut taken) = (0, 0);
        let chosen = ranked.into_iter().filter_map(|(rank, one)| {
            if rank == whole {
                let is_taken = taken < of_next && place * of_next >= taken * next;
                place += 1;
                taken += usize::from(is_taken);
                return is_taken.then_some(one);
            }
            (rank < whole).then_some(one)
        });
        chosen.collect()
    }
}

/// Returns the number of ranks of which everything is among the first `max`, and how many of the next rank are.
fn within<T>(max: usize, ranked: &[(usize, T)]) -> (usize, usize) {
    let mut left = max;
    for rank in 0.. {
        let size = ranked.iter().filter(|(own, _)| *own == rank).count();
        if size == 0 || size > left {
            return (rank, left.min(size));
        }
        left -= size;
    }
    unreachable!("some rank is empty")
}

/// The situation of a client at a point: its request or event, the condition of the object, and its knowledge of the object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Situation {
    from: String,
    verb: String,
    resource: String,
    condition: String,
    cache: Cache,
}

/// The knowledge that a client has of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cache {
    /// It does not watch such objects.
    Unwatched,
    /// Each of its writes.
    Current,
    /// Not all of its writes.
    Behind,
}

/// The resource, the namespace and the name of an object.
type Key = (String, String, String);

/// Returns the situation at each of `points`, of which `journal` has the writes before and since.
pub(super) fn situations(points: &[Point], journal: &[JournalEntry]) -> Vec<Situation> {
    let mut writes: BTreeMap<Key, Vec<&JournalEntry>> = BTreeMap::new();
    for entry in journal {
        let resource = match entry.gvr.group.as_str() {
            "" => entry.gvr.resource.clone(),
            group => format!("{}.{group}", entry.gvr.resource),
        };
        let text = |field: &str| entry.object["metadata"][field].as_str();
        let text = |field: &str| text(field).unwrap_or_default().to_owned();
        let key = (resource, text("namespace"), text("name"));
        writes.entry(key).or_default().push(entry);
    }
    let watched = points.iter().filter(|point| point.event.is_some());
    let watched: BTreeSet<(&str, &str)> = watched
        .map(|point| (point.from.as_str(), resource(point)))
        .collect();
    let begin = points.first().map(|point| point.after_rv);
    let begin = begin.unwrap_or_default();
    // The version up to which a client knows an object.
    let mut delivered: BTreeMap<(String, Key), ResourceVersion> = BTreeMap::new();
    let situation = |point: &Point| {
        let key = (
            resource(point).to_owned(),
            point.namespace.clone().unwrap_or_default(),
            point.name.clone().unwrap_or_default(),
        );
        let all = writes.get(&key).map_or(&[][..], Vec::as_slice);
        let so_far = &all[..all.partition_point(|entry| entry.rv <= point.after_rv)];
        let cache = match watched.contains(&(point.from.as_str(), resource(point))) {
            false => Cache::Unwatched,
            true => {
                let client = (point.from.clone(), key);
                let known = delivered.get(&client).copied().unwrap_or(begin);
                let news = so_far.iter().filter(|entry| entry.rv > known).count();
                let expected = usize::from(point.event.is_some());
                if point.event.is_some() {
                    delivered.insert(client, point.after_rv);
                }
                match news > expected {
                    true => Cache::Behind,
                    false => Cache::Current,
                }
            }
        };
        let verb = point
            .event
            .map_or(point.verb.as_str(), |event| event.as_str());
        let present = so_far
            .last()
            .filter(|entry| entry.event != EventType::Deleted);
        Situation {
            from: point.from.clone(),
            verb: verb.to_owned(),
            resource: point.resource.clone(),
            condition: condition(present.map(|entry| &*entry.object)),
            cache,
        }
    };
    points.iter().map(situation).collect()
}

/// The resource of a point without its part, such as `status`.
fn resource(point: &Point) -> &str {
    point.resource.split('/').next().unwrap_or_default()
}

/// The condition of an object, as its own controller reports it by the conventions of the API.
fn condition(object: Option<&Value>) -> String {
    let Some(object) = object else {
        return "absent".to_owned();
    };
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let mut words = Vec::new();
    if metadata["deletionTimestamp"].is_string() {
        words.push("being deleted".to_owned());
    }
    let observed = status["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| Some(observed) < metadata["generation"].as_i64()) {
        words.push("not observed".to_owned());
    }
    if let Some(phase) = status["phase"].as_str() {
        words.push(phase.to_owned());
    }
    let ready = |field: &str| status[field].as_i64();
    let ready = ready("readyReplicas").or_else(|| ready("availableReplicas"));
    if let (Some(wanted), Some(ready)) = (spec["replicas"].as_i64(), ready) {
        words.push(match ready.cmp(&wanted) {
            Ordering::Less => "too few ready".to_owned(),
            Ordering::Equal => "as many ready as wanted".to_owned(),
            Ordering::Greater => "too many ready".to_owned(),
        });
    }
    let text = |own: &Value, field: &str| own[field].as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<String> = conditions
        .map(|own| format!("{}={}", text(own, "type"), text(own, "status")))
        .collect();
    conditions.sort();
    words.extend(conditions);
    match words.is_empty() {
        true => "present".to_owned(),
        false => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kubeproof_apiserver::meta::GroupVersionResource;
    use kubeproof_machinery::json::json;

    use super::*;

    fn chosen(points: Points, all: &str) -> String {
        let all: Vec<(char, String)> = all
            .char_indices()
            .map(|(index, letter)| (letter, format!("{letter}{index} ")))
            .collect();
        points.choose(all).concat()
    }

    #[test]
    fn situations_are_covered_before_a_second_point_of_one_is_tried() {
        let all = "aabacb";
        assert_eq!(chosen(Points::All, all), "a0 a1 b2 a3 c4 b5 ");
        assert_eq!(chosen(Points::Covering, all), "a0 b2 c4 ");
        assert_eq!(chosen(Points::AtMost(2), all), "a0 c4 ");
        assert_eq!(chosen(Points::AtMost(3), all), "a0 b2 c4 ");
        assert_eq!(chosen(Points::AtMost(4), all), "a0 a1 b2 c4 ");
        assert_eq!(chosen(Points::AtMost(5), all), "a0 a1 b2 c4 b5 ");
        assert_eq!(chosen(Points::AtMost(9), all), "a0 a1 b2 a3 c4 b5 ");
        assert_eq!("5".parse(), Ok(Points::AtMost(5)));
        assert!("0".parse::<Points>().is_err());
    }

    fn written(rv: u64, object: Value) -> JournalEntry {
        JournalEntry {
            rv: ResourceVersion::new(rv),
            time: Timestamp::UNIX_EPOCH,
            gvr: GroupVersionResource {
                group: "example.com".to_owned(),
                version: "v1".to_owned(),
                resource: "shops".to_owned(),
            },
            event: EventType::Modified,
            user_agent: "operator".into(),
            object: object.into(),
            previous: None,
        }
    }

    fn point(event: Option<EventType>, resource: &str, after_rv: u64) -> Point {
        Point {
            verb: "update".to_owned(),
            resource: resource.to_owned(),
            namespace: Some("default".to_owned()),
            name: Some("a".to_owned()),
            from: "operator".to_owned(),
            event,
            calls_webhooks: false,
            nth: 0,
            after_rv: ResourceVersion::new(after_rv),
        }
    }

    #[test]
    fn a_situation_is_what_happened_so_far_and_what_was_delivered_to_the_client() {
        let shop = |phase: &str| {
            json!({
                "metadata": {"name": "a", "namespace": "default"},
                "status": {"phase": phase},
            })
        };
        let journal = [
            written(1, shop("New")),
            written(4, shop("Open")),
            written(6, shop("Closed")),
        ];
        let delivered = Some(EventType::Modified);
        let points = [
            point(None, "shops.example.com/status", 2),
            point(None, "shops.example.com", 5),
            point(delivered, "shops.example.com", 5),
            point(None, "shops.example.com", 5),
            point(None, "configmaps", 7),
        ];
        let seen: Vec<String> = situations(&points, &journal)
            .into_iter()
            .map(|own| format!("{} {} {:?}", own.verb, own.condition, own.cache))
            .collect();
        let expected = [
            "update New Current",
            "update Open Behind",
            "MODIFIED Open Current",
            "update Open Current",
            "update absent Unwatched",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_condition_of_an_object_is_read_from_its_status() {
        assert_eq!(condition(None), "absent");
        assert_eq!(condition(Some(&json!({"data": {}}))), "present");
        let set = json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "readyReplicas": 1},
        });
        assert_eq!(condition(Some(&set)), "not observed too few ready");
        let shop = json!({
            "metadata": {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"observedGeneration": 2, "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "Available", "status": "True"},
            ]},
        });
        assert_eq!(
            condition(Some(&shop)),
            "being deleted Available=True Ready=False"
        );
    }
}
