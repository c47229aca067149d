//! Conditions as `metav1.Condition`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Replaces the condition of the same type, or adds `condition` after the others. Only a change of the condition's status
/// changes the transition time.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    let mut known = conditions.iter_mut();
    match known.find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
