//! Amounts of resources, as every kind with a `ResourceList` handles them.

use crate::json::Value;
use crate::schema::quantity::Quantity;
use crate::status::FieldPath;
use crate::unstructured::text;

/// Amounts are kept in thousandths at the finest.
pub(crate) fn round_amounts(amounts: &mut Value) {
    for (_, amount) in amounts.as_object_mut().into_iter().flatten() {
        let own = amount.as_str().and_then(|own| Quantity::parse(own).ok());
        if let Some(rounded) = own.and_then(|own| own.rounded_to_milli()) {
            *amount = rounded.to_string().into();
        }
    }
}

/// Warns of amounts of these `resources` that are no whole numbers.
pub(crate) fn warn_of_amounts(
    amounts: &Value,
    path: &FieldPath,
    resources: &[&str],
    warnings: &mut Vec<String>,
) {
    for resource in resources {
        let own = &amounts[*resource];
        let amount = own.as_str().and_then(|own| Quantity::parse(own).ok());
        if amount.is_some_and(|own| own.to_i64().is_none()) {
            let path = path.key(resource);
            let own = text(own);
            warnings.push(format!(
                "{path}: fractional byte value {own:?} is invalid, must be an integer"
            ));
        }
    }
}
