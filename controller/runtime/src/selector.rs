//! Selectors as Go prints them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Formats a selector as the generated Go method `LabelSelector.String` does. No selector is `nil`.
#[must_use]
pub fn in_go(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let requirements = selector.match_expressions.iter().flatten();
    let requirements: String = requirements
        .map(|one| {
            let values = one.values.clone().unwrap_or_default().join(" ");
            let (key, operator) = (&one.key, &one.operator);
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::from_value;

    #[test]
    fn labels_are_sorted_and_values_have_spaces_between_them() {
        let selector = json!({"matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}, {"key": "d", "operator": "Exists"}]});
        let selector = from_value(selector).unwrap();
        assert_eq!(
            in_go(Some(&selector)),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},\
             LabelSelectorRequirement{Key:d,Operator:Exists,Values:[],},},}"
        );
    }
}
