//! ServiceCIDRs: the ranges that services' addresses are from.

use std::collections::BTreeSet;

use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::validation::FIELD_IMMUTABLE;
use crate::net::{validate_cidr, validate_strict_cidr};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::invalid_as;
use crate::{Context, Strategy};

#[derive(Debug)]
pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn prepare_for_create(&self, range: &mut Value, _context: Context<'_>) {
        range["status"] = json!({});
    }

    fn validate(&self, range: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let all = &range["spec"]["cidrs"];
        let path = FieldPath::new("spec.cidrs");
        let count = items(all).count();
        if is_empty(all) {
            errors.required(&path, "at least one CIDR required");
            return errors;
        }
        if count > 2 {
            let shown = format!("{{\"CIDRs\":{all}}}");
            invalid_as(&path, &shown, "may only hold up to 2 values", &mut errors);
            return errors;
        }
        let families: BTreeSet<bool> = items(all).map(|own| text(own).contains(':')).collect();
        for (index, own) in items(all).enumerate() {
            validate_strict_cidr(own, &path.index(index), &mut errors);
        }
        let is_range = |own: &Value| validate_cidr(own, &path, &mut FieldErrors::new());
        let families = families.len() + usize::from(!items(all).all(is_range));
        if families < count {
            let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.invalid(&path, all, detail);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec.cidrs");
        let ranges = |range: &Value| {
            range["spec"]["cidrs"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let (now, before) = (ranges(new), ranges(old));
        match (before.len(), now.len()) {
            // One of the other family may be added.
            (1, 2) => {
                if now[0] != before[0] {
                    errors.invalid(&path.index(0), &now[0], FIELD_IMMUTABLE);
                }
                errors.extend(self.validate(new));
            }
            (old, new) if old == new => {
                for (index, (now, before)) in now.iter().zip(&before).enumerate() {
                    if now != before {
                        errors.invalid(&path.index(index), now, FIELD_IMMUTABLE);
                    }
                }
            }
            _ => errors.invalid(&path, &new["spec"]["cidrs"], FIELD_IMMUTABLE),
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.strs("/spec/cidrs").join(",")),
            view.age(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_each_family() {
        let table = [
            (json!(["10.1.0.0/24"]), 0),
            (json!(["10.1.0.0/24", "fd00::/64"]), 0),
            (json!(["10.1.0.0/24", "10.2.0.0/24"]), 1),
            (json!([]), 1),
        ];
        for (ranges, want) in table {
            let errors = ServiceCidr.validate(&json!({"spec": {"cidrs": ranges}}));
            assert_eq!(errors.causes().len(), want, "{ranges}");
        }
    }
}
