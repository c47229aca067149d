//! Go structs whose fields JSON shows as those of the struct around them: errors name both.

use super::Field;

/// The structs embedded in `object` in which Go has `field`; JSON does without them.
pub(super) fn embedded(object: &str, field: &Field) -> &'static [&'static str] {
    let depth = field.proto.len().saturating_sub(1);
    match object {
        _ if field.proto.is_empty() && matches!(&*field.name, "apiVersion" | "kind") => {
            &["TypeMeta"]
        }
        "NamedRuleWithOperations" => &["RuleWithOperations", "Rule"][..depth],
        _ if depth == 0 => &[],
        "DeviceAllocationConfiguration"
        | "DeviceClaimConfiguration"
        | "DeviceClassConfiguration" => &["DeviceConfiguration"],
        "EphemeralContainer" => &["EphemeralContainerCommon"],
        "IngressRule" => &["IngressRuleValue"],
        "PersistentVolumeSpec" => &["PersistentVolumeSource"],
        "Probe" => &["ProbeHandler"],
        "RuleWithOperations" => &["Rule"],
        "Volume" => &["VolumeSource"],
        _ => &["LocalObjectReference"],
    }
}
