//! Shards: the part of the runs that one of several machines does.
//!
//! - `record`: what a shard leaves, for `kubeproof merge`

pub(super) mod record;

use std::path::PathBuf;
use std::str::FromStr;

use kubeproof::explore::Plan;
use kubeproof::scenario::ScenarioFile;
use sha2::{Digest as _, Sha256};

/// The variable in which a pod of an Indexed Job has its index, which begins with 0.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";

/// One of several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// The index, from 0.
    index: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, std::env::var(JOB_INDEX).ok().as_deref())
    }
}

impl Shard {
    /// Reads `I/N`, or `job/N` with the index of the pod.
    fn read(text: &str, job_index: Option<&str>) -> Result<Self, String> {
        let wrong = || "expected I/N with I from 1 to N, or job/N".to_owned();
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let of: usize = of.parse().map_err(|_| wrong())?;
        let index = match (index, job_index) {
            ("job", None) => return Err(format!("{JOB_INDEX} is not set")),
            ("job", Some(index)) => index
                .parse()
                .map_err(|_| format!("{JOB_INDEX} is {index:?}, not a number")),
            (index, _) => {
                let number: usize = index.parse().map_err(|_| wrong())?;
                number.checked_sub(1).ok_or_else(wrong)
            }
        }?;
        if index >= of {
            return Err(format!("there is no shard {} of {of}", index + 1));
        }
        Ok(Self { index, of })
    }

    /// Returns those of `paths` whose scenarios are this shard's. A scenario costs as much as it has steps, and each shard
    /// gets about as much as the others.
    pub(super) fn of_paths(self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let cost = |path: &PathBuf| match ScenarioFile::read(path) {
            Ok(file) => file.scenario.steps.len() + 1,
            // The run reports the error.
            Err(_) => 1,
        };
        let costs: Vec<usize> = paths.iter().map(cost).collect();
        let owners = owners(&costs, self.of);
        let own = paths.iter().zip(owners);
        let own = own.filter(|(_, owner)| *owner == self.index);
        own.map(|(path, _)| path.clone()).collect()
    }

    /// Whether the case with this place is this shard's, when cases are dealt out one after the other.
    pub(super) fn is_dealt(self, place: usize) -> bool {
        place % self.of == self.index
    }
}

/// Returns the index of the shard of each case: the most expensive first, each to the shard that has the least so far.
fn owners(costs: &[usize], shards: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..costs.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(costs[*place]));
    let (mut loads, mut owners) = (vec![0; shards], vec![0; costs.len()]);
    for place in places {
        let least = (0..shards).min_by_key(|shard| loads[*shard]);
        let owner = least.expect("there is a shard");
        loads[owner] += costs[place];
        owners[place] = owner;
    }
    owners
}

/// Deals the plans of explorations out to shards.
///
/// Under virtual time every shard finds the same plans in the same order, and they are dealt out one after the other. In
/// real time requests are not the same each time, so the text of a plan decides: two shards never do the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Deal {
    shard: Option<Shard>,
    by_text: bool,
    dealt: usize,
}

impl Deal {
    /// Deals the plans out to all shards, and takes those of `shard`. If that is `None`, it takes every plan.
    pub(super) fn of(shard: Option<Shard>, by_text: bool) -> Self {
        Self {
            shard,
            by_text,
            dealt: 0,
        }
    }

    /// Whether the next plan is this shard's.
    pub(super) fn takes(&mut self, plan: &Plan) -> bool {
        let place = match self.by_text {
            true => hash(&plan.to_string()),
            false => self.dealt,
        };
        self.dealt += 1;
        self.shard.is_none_or(|shard| shard.is_dealt(place))
    }

    /// Returns those of `plans` that are this shard's.
    pub(super) fn own(&mut self, plans: Vec<Plan>) -> Vec<Plan> {
        let own = plans.into_iter();
        own.filter(|plan| self.takes(plan)).collect()
    }
}

/// Returns a number for a text, the same one on every machine.
fn hash(text: &str) -> usize {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.first_chunk().expect("a digest has 32 bytes");
    usize::try_from(u32::from_be_bytes(*bytes)).expect("numbers of 32 bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_counted_from_one_and_the_index_of_a_job_from_zero() {
        let read = |text: &str| Shard::read(text, Some("2"));
        assert_eq!(read("1/3"), Ok(Shard { index: 0, of: 3 }));
        assert_eq!(read("job/3"), read("3/3"));
        assert!(Shard::read("job/3", None).unwrap_err().contains(JOB_INDEX));
        for wrong in ["", "3", "0/3", "4/3", "job/2", "1/0", "a/3", "1/x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_case_has_one_shard_and_no_shard_has_much_more_than_another() {
        let costs: Vec<usize> = (0..100).map(|place| place * 7 % 13 + 1).collect();
        let mut loads = [0; 7];
        for (owner, cost) in owners(&costs, 7).into_iter().zip(&costs) {
            loads[owner] += cost;
        }
        let (least, most) = (loads.iter().min(), loads.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{loads:?}");
        // One long case is as much as many short ones.
        assert_eq!(owners(&[1, 1, 9, 1], 2), [1, 1, 0, 1]);
        assert_eq!(owners(&[5], 3), [0]);
    }

    #[test]
    fn plans_are_dealt_out_across_scenarios() {
        let plans: Vec<Plan> = (0..10)
            .map(|index| {
                format!("refuse create pods a{index} from c")
                    .parse()
                    .unwrap()
            })
            .collect();
        for by_text in [false, true] {
            let mut found = Vec::new();
            for index in 0..3 {
                let mut deal = Deal::of(Some(Shard { index, of: 3 }), by_text);
                let (first, second) = plans.split_at(4);
                let own = deal.own(first.to_vec()).into_iter();
                let own: Vec<Plan> = own.chain(deal.own(second.to_vec())).collect();
                assert!(by_text || own.len() == 3 || (index == 0 && own.len() == 4));
                found.extend(own.iter().map(ToString::to_string));
            }
            found.sort();
            let mut all: Vec<String> = plans.iter().map(ToString::to_string).collect();
            all.sort();
            assert_eq!(found, all);
        }
        assert_eq!(Deal::default().own(plans.clone()), plans);
    }
}
