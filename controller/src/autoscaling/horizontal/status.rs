//! The status of an autoscaler while it is being computed, and the events of the sync.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
    MetricStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubeproof_runtime::recorder::EventType;

pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";
/// The condition of a gate that is off, `HPAScaleToZero`.
const SCALED_TO_ZERO: &str = "ScaledToZero";

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) event_type: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The status and the events of one sync.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) status: HorizontalPodAutoscalerStatus,
    pub(super) events: Vec<Event>,
    pub(super) now: Timestamp,
}

impl Draft {
    /// Begins with the status of the last sync.
    pub(super) fn of(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self {
            status: hpa.status.clone().unwrap_or_default(),
            events: Vec::new(),
            now,
        }
    }

    pub(super) fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event {
            event_type: EventType::Warning,
            reason,
            message: message.into(),
        });
    }

    /// Sets a condition; only a change of its status changes the transition time.
    pub(super) fn set(
        &mut self,
        kind: &str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let status = if holds { "True" } else { "False" };
        let conditions = self.status.conditions.get_or_insert_default();
        let known = conditions.iter().position(|known| known.type_ == kind);
        let at = known.unwrap_or_else(|| {
            conditions.push(HorizontalPodAutoscalerCondition {
                type_: kind.to_owned(),
                ..HorizontalPodAutoscalerCondition::default()
            });
            conditions.len() - 1
        });
        let condition = &mut conditions[at];
        if condition.status != status {
            condition.last_transition_time = Some(Time(self.now));
        }
        condition.status = status.to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.into());
    }

    /// Removes the condition that only the gate `HPAScaleToZero` sets.
    pub(super) fn remove_scaled_to_zero(&mut self) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| condition.type_ != SCALED_TO_ZERO);
        }
    }

    /// The status after the sync. As upstream's, it has no `observedGeneration`.
    pub(super) fn finish(
        &mut self,
        current: i32,
        desired: Option<i32>,
        metrics: Vec<MetricStatus>,
        rescaled: bool,
    ) {
        let before = std::mem::take(&mut self.status);
        self.status = HorizontalPodAutoscalerStatus {
            conditions: before.conditions,
            current_metrics: Some(metrics).filter(|metrics| !metrics.is_empty()),
            current_replicas: Some(current).filter(|replicas| *replicas != 0),
            desired_replicas: desired.unwrap_or(before.desired_replicas),
            last_scale_time: match rescaled {
                true => Some(Time(self.now)),
                false => before.last_scale_time,
            },
            observed_generation: None,
        };
    }
}
