//! Requests for devices, whether they are one of several alternatives or not.

use std::borrow::Cow;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceRequest, DeviceSelector, DeviceSubRequest, DeviceTaint,
    DeviceToleration, ExactDeviceRequest, ResourceClaim,
};

/// A request, or an alternative of one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    /// A request for exactly this.
    Exact {
        name: &'a str,
        request: &'a ExactDeviceRequest,
    },
    /// An alternative of the request `parent`.
    Sub {
        parent: &'a str,
        request: &'a DeviceSubRequest,
    },
}

/// Returns the requests of a claim.
pub(super) fn of_claim(claim: &ResourceClaim) -> &[DeviceRequest] {
    let devices = claim.spec.devices.as_ref();
    let requests = devices.and_then(|devices| devices.requests.as_deref());
    requests.unwrap_or_default()
}

/// Returns the alternatives of a request, the preferred first.
pub(super) fn alternatives(request: &DeviceRequest) -> Vec<Request<'_>> {
    if let Some(exactly) = &request.exactly {
        return vec![Request::Exact {
            name: &request.name,
            request: exactly,
        }];
    }
    let alternatives = request.first_available.iter().flatten();
    let alternatives = alternatives.map(|own| Request::Sub {
        parent: &request.name,
        request: own,
    });
    alternatives.collect()
}

impl<'a> Request<'a> {
    /// The name of the request, or of the alternative within it.
    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Exact { name, .. } => name,
            Self::Sub { request, .. } => &request.name,
        }
    }

    /// The name of the request in the claim.
    pub(super) fn base_name(self) -> &'a str {
        match self {
            Self::Exact { name, .. } => name,
            Self::Sub { parent, .. } => parent,
        }
    }

    /// The name by which results and configurations refer to it: `REQUEST` or `REQUEST/ALTERNATIVE`.
    pub(super) fn full_name(self) -> Cow<'a, str> {
        match self {
            Self::Exact { name, .. } => Cow::Borrowed(name),
            Self::Sub { parent, request } => Cow::Owned(format!("{parent}/{}", request.name)),
        }
    }

    pub(super) fn is_alternative(self) -> bool {
        matches!(self, Self::Sub { .. })
    }

    pub(super) fn class_name(self) -> &'a str {
        match self {
            Self::Exact { request, .. } => &request.device_class_name,
            Self::Sub { request, .. } => &request.device_class_name,
        }
    }

    pub(super) fn allocation_mode(self) -> &'a str {
        let mode = match self {
            Self::Exact { request, .. } => &request.allocation_mode,
            Self::Sub { request, .. } => &request.allocation_mode,
        };
        mode.as_deref().unwrap_or_default()
    }

    pub(super) fn wants_all(self) -> bool {
        self.allocation_mode() == "All"
    }

    pub(super) fn count(self) -> i64 {
        let count = match self {
            Self::Exact { request, .. } => request.count,
            Self::Sub { request, .. } => request.count,
        };
        count.unwrap_or_default()
    }

    /// Whether the request is for devices that others may have.
    pub(super) fn has_admin_access(self) -> bool {
        match self {
            Self::Exact { request, .. } => request.admin_access == Some(true),
            Self::Sub { .. } => false,
        }
    }

    pub(super) fn selectors(self) -> &'a [DeviceSelector] {
        let selectors = match self {
            Self::Exact { request, .. } => &request.selectors,
            Self::Sub { request, .. } => &request.selectors,
        };
        selectors.as_deref().unwrap_or_default()
    }

    pub(super) fn tolerations(self) -> Option<&'a Vec<DeviceToleration>> {
        match self {
            Self::Exact { request, .. } => request.tolerations.as_ref(),
            Self::Sub { request, .. } => request.tolerations.as_ref(),
        }
    }

    pub(super) fn capacity(self) -> Option<&'a CapacityRequirements> {
        match self {
            Self::Exact { request, .. } => request.capacity.as_ref(),
            Self::Sub { request, .. } => request.capacity.as_ref(),
        }
    }

    /// Returns whether the request may have devices with this taint. Taints of unknown effects are ignored.
    pub(super) fn tolerates(self, taint: &DeviceTaint) -> bool {
        let mut tolerations = self.tolerations().into_iter().flatten();
        !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            || tolerations.any(|toleration| tolerates(toleration, taint))
    }
}

/// Source: `ToleratesTaint` of `dynamic-resource-allocation/resourceclaim`.
fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let concerns = |own: &Option<String>, of_taint: &str| {
        let own = own.as_deref().unwrap_or_default();
        own.is_empty() || own == of_taint
    };
    if !concerns(&toleration.effect, &taint.effect) || !concerns(&toleration.key, &taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => {
            let [own, of_taint] = [&toleration.value, &taint.value].map(Option::as_deref);
            own.unwrap_or_default() == of_taint.unwrap_or_default()
        }
        operator => operator == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::{Value, json};
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn tolerations_tolerate_by_key_value_and_effect() {
        let taint = |effect: &str| json!({"key": "k", "value": "v", "effect": effect});
        let tolerates = |toleration: Value, taint: Value| {
            let request = json!({"deviceClassName": "c", "tolerations": [toleration]});
            let request: ExactDeviceRequest = from_value(request).unwrap();
            let request = Request::Exact {
                name: "r",
                request: &request,
            };
            request.tolerates(&from_value(taint).unwrap())
        };
        for (toleration, effect, wanted) in [
            (json!({"key": "other"}), "None", true),
            (
                json!({"key": "other", "operator": "Exists"}),
                "NoSchedule",
                false,
            ),
            (json!({"operator": "Exists"}), "NoExecute", true),
            (
                json!({"key": "k", "operator": "Exists"}),
                "NoSchedule",
                true,
            ),
            (
                json!({"key": "k", "operator": "Equal", "value": "v"}),
                "NoSchedule",
                true,
            ),
            (json!({"key": "k", "value": "v"}), "NoSchedule", true),
            (
                json!({"key": "k", "operator": "Equal", "value": "w"}),
                "NoSchedule",
                false,
            ),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
                "NoSchedule",
                false,
            ),
            (json!({"key": "k", "operator": "Odd"}), "NoSchedule", false),
        ] {
            let found = tolerates(toleration.clone(), taint(effect));
            assert_eq!(found, wanted, "{toleration} {effect}");
        }
    }
}
