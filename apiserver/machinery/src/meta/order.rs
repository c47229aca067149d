//! A total order of JSON values, for sets and maps that find values of a request's lists.

use std::cmp::Ordering;

use crate::json::{Number, Value};

/// A value with an order. Equal are the values that are equal as `Value`s.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'v>(pub &'v Value);

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => {
                left.iter().map(Ordered).cmp(right.iter().map(Ordered))
            }
            (Value::Object(left), Value::Object(right)) => {
                let [left, right] = [left, right]
                    .map(|fields| fields.iter().map(|(name, value)| (name, Ordered(value))));
                left.cmp(right)
            }
            (left, right) => rank(left).cmp(&rank(right)),
        }
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered<'_> {}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Integers before floats: 1 and 1.0 are two values.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let integer = |number: &Number| {
        let signed = number.as_i64().map(i128::from);
        signed.or_else(|| number.as_u64().map(i128::from))
    };
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        // JSON has no number that is not comparable.
        (None, None) => float(left)
            .partial_cmp(&float(right))
            .unwrap_or(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_is_equal_in_order_is_equal() {
        let values = [
            json!(null),
            json!(false),
            json!(true),
            json!(-1),
            json!(1),
            json!(u64::MAX),
            json!(0.5),
            json!(1.0),
            json!(""),
            json!("a"),
            json!([]),
            json!([1]),
            json!([1, "a"]),
            json!([2]),
            json!({}),
            json!({ "a": 1 }),
            json!({ "a": 1, "b": 2 }),
            json!({ "a": 2 }),
            json!({ "b": 1 }),
        ];
        for (left_index, left) in values.iter().enumerate() {
            for (right_index, right) in values.iter().enumerate() {
                let order = Ordered(left).cmp(&Ordered(right));
                assert_eq!(order, left_index.cmp(&right_index), "{left} and {right}");
                assert_eq!(order == Ordering::Equal, left == right);
            }
        }
        assert_eq!(Ordered(&json!(-0.0)), Ordered(&json!(0.0)));
    }
}
