//! Go structs whose fields JSON shows as those of the struct around them: errors name both.

/// The struct within the Go struct `object` that holds its JSON field `field`.
pub(super) fn inlined(object: &str, field: &str) -> Option<&'static str> {
    let holds = |fields: &[&str]| fields.contains(&field);
    match object {
        "ConfigMapEnvSource"
        | "ConfigMapKeySelector"
        | "ConfigMapProjection"
        | "ConfigMapVolumeSource"
        | "SecretEnvSource"
        | "SecretKeySelector"
        | "SecretProjection" => holds(&["name"]).then_some("LocalObjectReference"),
        "EphemeralContainer" => {
            (!holds(&["targetContainerName"])).then_some("EphemeralContainerCommon")
        }
        "PersistentVolumeSpec" => (!holds(&[
            "accessModes",
            "capacity",
            "claimRef",
            "mountOptions",
            "nodeAffinity",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "volumeAttributesClassName",
            "volumeMode",
        ]))
        .then_some("PersistentVolumeSource"),
        "Probe" => holds(&["exec", "grpc", "httpGet", "tcpSocket"]).then_some("ProbeHandler"),
        "RuleWithOperations" => (!holds(&["operations"])).then_some("Rule"),
        "NamedRuleWithOperations" => match field {
            "operations" => Some("RuleWithOperations"),
            "resourceNames" => None,
            _ => Some("RuleWithOperations.Rule"),
        },
        "Volume" => (!holds(&["name"])).then_some("VolumeSource"),
        _ => None,
    }
}
