//! Sums of quantities that keep the notation of what was summed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::node::resources::thousandths;

/// An amount in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    value: i128,
    /// Written in powers of two.
    binary: bool,
}

impl Amount {
    pub(super) fn of(quantity: &Quantity) -> Self {
        Self {
            value: thousandths(&quantity.0).unwrap_or(0),
            binary: quantity.0.ends_with('i'),
        }
    }

    pub(super) fn whole(count: usize) -> Self {
        Self {
            value: i128::try_from(count)
                .unwrap_or(i128::MAX)
                .saturating_mul(1_000),
            binary: false,
        }
    }

    /// The sum; nothing has no notation of its own.
    pub(super) fn add(self, more: Self) -> Self {
        Self {
            value: self.value.saturating_add(more.value),
            binary: if self.value == 0 {
                more.binary
            } else {
                self.binary
            },
        }
    }

    pub(super) fn max(self, other: Self) -> Self {
        if other.value > self.value {
            other
        } else {
            self
        }
    }

    pub(super) fn quantity(self) -> Quantity {
        if self.value % 1_000 != 0 {
            return Quantity(format!("{}m", self.value));
        }
        let mut value = self.value / 1_000;
        let suffixes = if self.binary {
            (1_024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
        } else {
            (1_000, ["", "k", "M", "G", "T", "P", "E"])
        };
        let (step, suffixes) = suffixes;
        let mut index = 0;
        while value != 0 && value % step == 0 && index + 1 < suffixes.len() {
            value /= step;
            index += 1;
        }
        Quantity(format!("{value}{}", suffixes[index]))
    }
}

/// Whether two lists say the same, however it is written.
pub(super) fn all_equal(
    one: Option<&BTreeMap<String, Quantity>>,
    other: &BTreeMap<String, Quantity>,
) -> bool {
    let value = |quantity: &Quantity| Amount::of(quantity).value;
    one.is_some_and(|one| {
        one.len() == other.len()
            && one
                .iter()
                .all(|(name, own)| other.get(name).is_some_and(|two| value(own) == value(two)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_written_as_its_first_part_is() {
        for (parts, expected) in [
            (vec![], "0"),
            (vec!["500m", "1"], "1500m"),
            (vec!["1500m", "500m"], "2"),
            (vec!["64Mi", "1Gi"], "1088Mi"),
            (vec!["0", "512Ki", "512Ki"], "1Mi"),
            (vec!["1000"], "1k"),
        ] {
            let sum = parts.iter().fold(Amount::default(), |sum, part| {
                sum.add(Amount::of(&Quantity((*part).to_owned())))
            });
            assert_eq!(sum.quantity().0, expected, "{parts:?}");
        }
    }
}
