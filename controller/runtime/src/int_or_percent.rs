//! Fields of typed objects that are a number or a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kubeproof_machinery::int_or_percent::IntOrPercent;

pub use kubeproof_machinery::int_or_percent::Round;

/// The number itself, or that percentage of `total`. None for text that is not a percentage, and for a share beyond the
/// range of `i32`.
#[must_use]
pub fn resolve(value: &IntOrString, total: i32, round: Round) -> Option<i32> {
    let value = match value {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(text) => text.parse::<IntOrPercent>().ok()?,
    };
    i32::try_from(value.scaled(total.into(), round)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_percentage_or_nothing() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        let table = [
            (IntOrString::Int(3), Some(3)),
            (percent("25%"), Some(3)),
            (percent("3"), None),
            (percent("x%"), None),
            (percent("99999999999%"), None),
        ];
        for (value, expected) in table {
            assert_eq!(resolve(&value, 10, Round::Up), expected, "{value:?}");
        }
    }
}
