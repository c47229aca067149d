//! The durations of a machine's work: containers are created one by one, and cleanup takes time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_runtime::pod::Pod;

use super::{Kubelet, Record};
use crate::Pace;
use crate::container_spec;
use crate::lifecycle::Step;
use crate::pace::after;

/// The machine's pending work for a pod.
#[derive(Default)]
pub(super) struct UnderWay {
    /// The start times of the containers being created.
    containers: BTreeMap<String, Timestamp>,
    /// The end of the pod's cleanup.
    release: Option<Timestamp>,
}

impl Kubelet {
    /// Returns the part of `step` that is due now; the rest takes the machine more time.
    pub(super) fn due(&self, pod: &Pod, record: &mut Record, step: Step) -> Step {
        let (Some(pace), now) = (self.timings.pace, self.now()) else {
            return step;
        };
        match step {
            Step::Start(names) if names.is_empty() => Step::Start(names),
            Step::Start(names) => {
                let first = after(now, pace.sandbox);
                match self.made(pod, record, &names, first) {
                    Ok(made) => Step::Start(made),
                    Err(at) => Step::Wait(Some(at)),
                }
            }
            Step::Launch(names) => match self.made(pod, record, &names, now) {
                Ok(made) => Step::Launch(made),
                Err(at) => Step::Wait(Some(at)),
            },
            Step::Release => {
                let relist = after(now, pace.until_relist(now));
                let under_way = record.under_way.get_or_insert_default();
                let at = *under_way.release.get_or_insert(relist);
                match now >= at {
                    true => Step::Release,
                    false => Step::Wait(Some(at)),
                }
            }
            Step::Wait(wake) => {
                if let Some(under_way) = &mut record.under_way {
                    under_way.containers.clear();
                }
                record.under_way.take_if(|own| own.release.is_none());
                Step::Wait(wake)
            }
            step => step,
        }
    }

    /// Returns the containers of `names` that are created by now, or else the time of the next one.
    /// The first begins at `begin` if none is in progress.
    fn made(
        &self,
        pod: &Pod,
        record: &mut Record,
        names: &[String],
        begin: Timestamp,
    ) -> Result<Vec<String>, Timestamp> {
        let now = self.now();
        let Some(pace) = self.timings.pace else {
            return Ok(names.to_vec());
        };
        let under_way = &mut record.under_way.get_or_insert_default().containers;
        under_way.retain(|name, _| names.contains(name));
        for name in names {
            let free = under_way.values().max().map_or(begin, |at| begin.max(*at));
            under_way
                .entry(name.clone())
                .or_insert_with(|| after(free, cost(pace, pod, name)));
        }
        let made = names.iter().filter(|name| under_way[*name] <= now);
        let made: Vec<String> = made.cloned().collect();
        if made.is_empty() {
            return Err(under_way.values().min().copied().unwrap_or(now));
        }
        under_way.retain(|name, _| !made.contains(name));
        Ok(made)
    }
}

/// Returns how long it takes to create the container `name`.
fn cost(pace: Pace, pod: &Pod, name: &str) -> Duration {
    let pulls = container_spec::container(pod, name)
        .is_some_and(|(_, own)| own.image_pull_policy.as_deref() == Some("Always"));
    match pulls {
        true => pace.pull + pace.create,
        false => pace.create,
    }
}
