//! From the replicas that metrics ask for to those that the autoscaler's limits allow: stabilization windows, scaling
//! policies, and the least and the greatest number.
//!
//! Source: `pkg/controller/podautoscaler/horizontal.go` of Kubernetes, from `stabilizeRecommendation` on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};

/// The stabilization window of a scale-down whose behavior states none.
pub(super) const DOWNSCALE_STABILIZATION: i32 = 300;
/// Without a behavior, one step at most doubles the replicas, ...
const SCALE_UP_FACTOR: i32 = 2;
/// ... but may always reach this number.
const SCALE_UP_MINIMUM: i32 = 4;

/// The memory of an autoscaler, which is lost when the controller restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// The replicas that metrics have asked for.
    recommendations: Vec<(i32, Timestamp)>,
    /// By how many replicas the target grew, and when.
    ups: Vec<(i32, Timestamp)>,
    /// By how many replicas the target shrank, and when.
    downs: Vec<(i32, Timestamp)>,
}

/// Reason and message of a condition.
pub(super) type Why = (&'static str, &'static str);

/// The replicas within all limits, and what limited them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Normalized {
    pub(super) replicas: i32,
    /// For the condition `AbleToScale`.
    pub(super) stabilized: Why,
    /// For the condition `ScalingLimited`.
    pub(super) limit: Why,
    /// The status of that condition.
    pub(super) is_limited: bool,
}

/// The numbers to find replicas between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) current: i32,
    /// The replicas that the metrics ask for.
    pub(super) desired: i32,
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
}

const READY: Why = ("ReadyForNewScale", "recommended size matches current size");
const STABILIZED_UP: Why = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const STABILIZED_DOWN: Why = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: Why = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_MANY: Why = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW: Why = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const UP_LIMIT: Why = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: Why = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

impl Memory {
    /// Notes the replicas at the first sync, so that a restart does not scale down at once.
    ///
    /// Upstream: `recordInitialRecommendation`.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// The replicas within the limits; notes what was asked for.
    pub(super) fn normalize(&mut self, limits: Limits<'_>, now: Timestamp) -> Normalized {
        let (recommendation, why, (replicas, limit)) = match limits.behavior {
            None => {
                let highest = self.highest(limits.desired, now);
                let why = STABILIZED_DOWN;
                (highest, why, within_rules(limits, highest))
            }
            Some(behavior) => {
                let stable = self.stable(limits, behavior, now);
                let why = match limits.desired >= limits.current {
                    true => STABILIZED_UP,
                    false => STABILIZED_DOWN,
                };
                (stable, why, self.within_rate(limits, behavior, stable, now))
            }
        };
        Normalized {
            replicas,
            stabilized: match recommendation == limits.desired {
                true => READY,
                false => why,
            },
            limit,
            is_limited: replicas != recommendation,
        }
    }

    /// Notes that the target went from `before` to `after`. Only policies of a behavior ask for it.
    ///
    /// Upstream: `storeScaleEvent`.
    pub(super) fn note_scale(
        &mut self,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        (before, after): (i32, i32),
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let (rules, events) = match after > before {
            true => (&behavior.scale_up, &mut self.ups),
            false => (&behavior.scale_down, &mut self.downs),
        };
        let policies = rules
            .iter()
            .flat_map(|rules| rules.policies.iter().flatten());
        let longest = policies.map(|policy| policy.period_seconds).max();
        let cutoff = now - seconds(longest.unwrap_or(0));
        let change = match after > before {
            true => after.wrapping_sub(before),
            false => before.wrapping_sub(after),
        };
        replace_or_push(events, (change, now), |at| at < cutoff);
    }

    /// The highest recommendation of the last five minutes. Upstream: `stabilizeRecommendation`.
    fn highest(&mut self, desired: i32, now: Timestamp) -> i32 {
        let cutoff = now - seconds(DOWNSCALE_STABILIZATION);
        let recent = self.recommendations.iter().filter(|(_, at)| *at >= cutoff);
        let highest = recent.map(|(replicas, _)| *replicas).max();
        replace_or_push(&mut self.recommendations, (desired, now), |at| at < cutoff);
        highest.map_or(desired, |highest| highest.max(desired))
    }

    /// The recommendation nearest to the present replicas that both windows allow.
    ///
    /// Upstream: `stabilizeRecommendationWithBehaviors`.
    fn stable(
        &mut self,
        limits: Limits<'_>,
        behavior: &HorizontalPodAutoscalerBehavior,
        now: Timestamp,
    ) -> i32 {
        let window = |rules: Option<&HPAScalingRules>, default: i32| {
            let own = rules.and_then(|own| own.stabilization_window_seconds);
            now - seconds(own.unwrap_or(default))
        };
        let up_cutoff = window(behavior.scale_up.as_ref(), 0);
        let down_cutoff = window(behavior.scale_down.as_ref(), DOWNSCALE_STABILIZATION);
        let (mut lowest, mut highest) = (limits.desired, limits.desired);
        for (replicas, at) in &self.recommendations {
            if *at > up_cutoff {
                lowest = lowest.min(*replicas);
            }
            if *at > down_cutoff {
                highest = highest.max(*replicas);
            }
        }
        replace_or_push(&mut self.recommendations, (limits.desired, now), |at| {
            at < up_cutoff && at < down_cutoff
        });
        limits.current.max(lowest).min(highest)
    }

    /// The replicas that the policies allow now. Upstream: `convertDesiredReplicasWithBehaviorRate`.
    fn within_rate(
        &self,
        limits: Limits<'_>,
        behavior: &HorizontalPodAutoscalerBehavior,
        desired: i32,
        now: Timestamp,
    ) -> (i32, Why) {
        let current = limits.current;
        if desired > current {
            let rules = behavior.scale_up.as_ref();
            let allowed = self.up_limit(current, rules, now).max(current);
            let (most, why) = match limits.max > allowed {
                true => (allowed, UP_LIMIT),
                false => (limits.max, TOO_MANY),
            };
            if desired > most {
                return (most, why);
            }
        } else if desired < current {
            let rules = behavior.scale_down.as_ref();
            let allowed = self.down_limit(current, rules, now).min(current);
            let (least, why) = match limits.min < allowed {
                true => (allowed, DOWN_LIMIT),
                false => (limits.min, TOO_FEW),
            };
            if desired < least {
                return (least, why);
            }
        }
        (desired, WITHIN)
    }

    /// Upstream: `calculateScaleUpLimitWithScalingRules`.
    fn up_limit(&self, current: i32, rules: Option<&HPAScalingRules>, now: Timestamp) -> i32 {
        let proposals = self.proposals(current, rules, now, |start, policy| match policy {
            Policy::Pods(pods) => start.wrapping_add(pods),
            // Rounded up, or a target with one replica would never grow.
            Policy::Percent(percent) => {
                rounded((f64::from(start) * (1.0 + f64::from(percent) / 100.0)).ceil())
            }
        });
        match select_policy(rules) {
            "Disabled" => current,
            "Min" => proposals.min().unwrap_or(i32::MAX),
            _ => proposals.max().unwrap_or(i32::MIN),
        }
    }

    /// Upstream: `calculateScaleDownLimitWithBehaviors`.
    fn down_limit(&self, current: i32, rules: Option<&HPAScalingRules>, now: Timestamp) -> i32 {
        let proposals = self.proposals(current, rules, now, |start, policy| match policy {
            Policy::Pods(pods) => start.wrapping_sub(pods),
            Policy::Percent(percent) => {
                rounded(f64::from(start) * (1.0 - f64::from(percent) / 100.0))
            }
        });
        match select_policy(rules) {
            "Disabled" => current,
            // The least change leaves the most replicas.
            "Min" => proposals.max().unwrap_or(i32::MIN),
            _ => proposals.min().unwrap_or(i32::MAX),
        }
    }

    /// The replicas that each policy allows, counted from the replicas at the start of its period. As in Go, sums wrap
    /// around at 32 bits.
    fn proposals(
        &self,
        current: i32,
        rules: Option<&HPAScalingRules>,
        now: Timestamp,
        allowed: impl Fn(i32, Policy) -> i32,
    ) -> impl Iterator<Item = i32> {
        let policies = rules
            .into_iter()
            .flat_map(|rules| rules.policies.iter().flatten());
        policies.map(move |policy| {
            let cutoff = now - seconds(policy.period_seconds);
            let changed = |events: &[(i32, Timestamp)]| -> i32 {
                let recent = events.iter().filter(|(_, at)| *at > cutoff);
                recent.fold(0, |sum, (change, _)| sum.wrapping_add(*change))
            };
            let start = current
                .wrapping_sub(changed(&self.ups))
                .wrapping_add(changed(&self.downs));
            allowed(
                start,
                match policy.type_.as_str() {
                    "Pods" => Policy::Pods(policy.value),
                    _ => Policy::Percent(policy.value),
                },
            )
        })
    }
}

/// A scaling policy and its value.
#[derive(Clone, Copy)]
enum Policy {
    Pods(i32),
    Percent(i32),
}

fn select_policy(rules: Option<&HPAScalingRules>) -> &str {
    let policy = rules.and_then(|rules| rules.select_policy.as_deref());
    policy.unwrap_or("Max")
}

/// Upstream: `convertDesiredReplicasWithRules`.
fn within_rules(limits: Limits<'_>, desired: i32) -> (i32, Why) {
    let doubled = limits.current.saturating_mul(SCALE_UP_FACTOR);
    let allowed = doubled.max(SCALE_UP_MINIMUM);
    let (most, why) = match limits.max > allowed {
        true => (allowed, UP_LIMIT),
        false => (limits.max, TOO_MANY),
    };
    if desired < limits.min {
        (limits.min, TOO_FEW)
    } else if desired > most {
        (most, why)
    } else {
        (desired, WITHIN)
    }
}

/// Replaces the last old entry by `new`, or adds `new` if no entry is old, so that a list does not grow without end.
fn replace_or_push(
    entries: &mut Vec<(i32, Timestamp)>,
    new: (i32, Timestamp),
    is_old: impl Fn(Timestamp) -> bool,
) {
    match entries.iter_mut().rfind(|(_, at)| is_old(*at)) {
        Some(old) => *old = new,
        None => entries.push(new),
    }
}

fn seconds(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn rounded(value: f64) -> i32 {
    value as i32
}

#[cfg(test)]
mod tests;
