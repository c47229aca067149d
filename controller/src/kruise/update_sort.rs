//! The order in which pods are updated, by the priorities and scatter terms of a workload.
//!
//! Source: openkruise/kruise pkg/util/updatesort.

use std::cmp::Reverse;
use std::sync::Arc;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};
use kubeproof_runtime::pod::Pod;

use super::api::strategy::{UpdatePriorityStrategy, UpdateScatterTerm};

/// Sorts `indexes` of `pods` by priority; pods of one priority keep their order.
pub(crate) fn by_priority(
    strategy: Option<&UpdatePriorityStrategy>,
    pods: &[Arc<Pod>],
    indexes: &mut [usize],
) {
    let Some(strategy) = strategy else { return };
    let weights = strategy.weight_priority.as_deref().unwrap_or_default();
    let orders = strategy.order_priority.as_deref().unwrap_or_default();
    if !weights.is_empty() {
        let weighed: Vec<(i64, Option<Selector>)> = weights
            .iter()
            .map(|term| {
                let selector = Selector::try_from(term.match_selector.clone());
                (term.weight.into(), selector.ok())
            })
            .collect();
        let weight = |pod: &Pod| -> i64 {
            let matching = weighed.iter().filter(|(_, selector)| {
                selector
                    .as_ref()
                    .is_some_and(|one| one.matches(pod.labels()))
            });
            matching.map(|(weight, _)| weight).sum()
        };
        indexes.sort_by_cached_key(|index| Reverse(weight(&pods[*index])));
    } else if !orders.is_empty() {
        // A pod without any of the keys comes before all others.
        let order = |pod: &Pod| {
            let found = orders.iter().enumerate().find_map(|(level, term)| {
                let value = pod.labels().get(&term.ordered_key)?;
                Some((Some(level), Reverse(trailing_number(value))))
            });
            found.unwrap_or((None, Reverse(0)))
        };
        indexes.sort_by_cached_key(|index| order(&pods[*index]));
    }
}

/// The decimal number at the end of `text`, 0 if it is absent or too large.
fn trailing_number(text: &str) -> i64 {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_digit());
    text[digits.len()..].parse().unwrap_or(0)
}

/// Spreads the pods of each term among the others that wait.
///
/// `indexes` are those of `pods` that wait to be updated.
#[must_use]
pub(crate) fn scattered(
    terms: &[UpdateScatterTerm],
    pods: &[Arc<Pod>],
    mut indexes: Vec<usize>,
) -> Vec<usize> {
    for term in ordered_terms(terms, pods, &indexes) {
        indexes = scattered_by(term, pods, indexes);
    }
    indexes
}

fn has(term: &UpdateScatterTerm, pod: &Pod) -> bool {
    // A missing label counts as empty.
    let value = pod.labels().get(&term.key);
    value.map_or("", String::as_str) == term.value
}

/// The terms by how many waiting pods they match; several that match none are left out.
fn ordered_terms<'a>(
    terms: &'a [UpdateScatterTerm],
    pods: &[Arc<Pod>],
    indexes: &[usize],
) -> Vec<&'a UpdateScatterTerm> {
    if terms.len() <= 1 {
        return terms.iter().collect();
    }
    let count = |term: &UpdateScatterTerm| {
        let matching = indexes
            .iter()
            .filter(|index| pods[**index].labels().get(&term.key) == Some(&term.value));
        matching.count()
    };
    let counted = terms.iter().map(|term| (count(term), term));
    let mut counted: Vec<_> = counted.filter(|(count, _)| *count > 0).collect();
    counted.sort_by_key(|(count, _)| Reverse(*count));
    counted.into_iter().map(|(_, term)| term).collect()
}

/// `count` groups, each of `matching` matching pods followed by `other` others.
#[derive(Clone, Copy)]
struct Groups {
    count: usize,
    matching: usize,
    other: usize,
}

impl Groups {
    fn of(matching: usize, other: usize) -> Self {
        let count = matching.min(other);
        Self {
            count,
            matching: rounded(matching, count),
            other: rounded(other, count),
        }
    }
}

/// The quotient, halves rounded up.
fn rounded(dividend: usize, divisor: usize) -> usize {
    (2 * dividend + divisor) / (2 * divisor)
}

fn scattered_by(term: &UpdateScatterTerm, pods: &[Arc<Pod>], indexes: Vec<usize>) -> Vec<usize> {
    let (mut matching, other): (Vec<usize>, Vec<usize>) = indexes
        .iter()
        .copied()
        .partition(|index| has(term, &pods[*index]));
    if matching.len() <= 1 || other.len() <= 1 {
        return indexes;
    }
    // The last one is held back for the end, and counts no more.
    let last = matching.pop();
    let all_matching = pods.iter().filter(|pod| has(term, pod)).count() - 1;
    let all_other = pods.len() - all_matching - 1;
    let waiting = Groups::of(matching.len(), other.len());
    let is_no_denser = all_other * matching.len() >= other.len() * all_matching;
    let (groups, ahead) = if is_no_denser {
        (waiting, 0)
    } else {
        let all = Groups::of(all_matching, all_other);
        let count = (matching.len() / all.matching).min(other.len() / all.other);
        (Groups { count, ..all }, other.len() - count * all.other)
    };
    let mut sorted: Vec<usize> = other[..ahead].to_vec();
    let (mut matching, mut other) = (matching.into_iter(), other[ahead..].iter().copied());
    for _ in 0..groups.count {
        sorted.extend(matching.by_ref().take(groups.matching));
        sorted.extend(other.by_ref().take(groups.other));
    }
    sorted.extend(matching);
    sorted.extend(other);
    sorted.extend(last);
    sorted
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pods(labels: &[Value]) -> Vec<Arc<Pod>> {
        let pod = |labels: &Value| from_value(json!({"metadata": {"labels": labels}}));
        labels
            .iter()
            .map(|labels| Arc::new(pod(labels).unwrap()))
            .collect()
    }

    fn marked(marks: &str) -> Vec<Arc<Pod>> {
        let labels: Vec<Value> = marks
            .split(' ')
            .map(|mark| match mark {
                "." => json!({}),
                mark => json!({ mark: "x" }),
            })
            .collect();
        pods(&labels)
    }

    /// Vectors of `scatter_sort_test.go`.
    #[test]
    fn terms_are_scattered_as_upstream_scatters_them() {
        let table: [(&str, usize, &[&str], &[usize]); 8] = [
            (". . . . A A", 6, &["A"], &[4, 0, 1, 2, 3, 5]),
            (". . . A A A", 6, &["A"], &[3, 0, 1, 4, 2, 5]),
            (". . A A A A", 6, &["A"], &[2, 3, 0, 4, 1, 5]),
            (". . . . . . A A A", 9, &["A"], &[6, 0, 1, 2, 7, 3, 4, 5, 8]),
            ("A A . . . . . . . A", 7, &["A"], &[2, 0, 3, 4, 5, 6, 1]),
            (". . . . A A A", 6, &["A"], &[0, 1, 4, 2, 3, 5]),
            ("B B . . A A", 6, &["A", "B"], &[0, 4, 2, 3, 5, 1]),
            ("A . . .", 4, &["A"], &[0, 1, 2, 3]),
        ];
        for (marks, waiting, terms, expected) in table {
            let terms: Vec<UpdateScatterTerm> = terms
                .iter()
                .map(|key| UpdateScatterTerm {
                    key: (*key).to_owned(),
                    value: "x".to_owned(),
                })
                .collect();
            let sorted = scattered(&terms, &marked(marks), (0..waiting).collect());
            assert_eq!(sorted, expected, "{marks}");
        }
    }

    fn prioritized(strategy: Value, labels: &[Value]) -> Vec<usize> {
        let strategy = from_value(strategy).unwrap();
        let mut indexes: Vec<usize> = (0..labels.len()).collect();
        by_priority(Some(&strategy), &pods(labels), &mut indexes);
        indexes
    }

    #[test]
    fn weights_add_up_and_ties_keep_their_order() {
        let weight = |weight: i32, key: &str, value: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {key: value}}});
        let strategy =
            json!({"weightPriority": [weight(100, "foo", "bar"), weight(90, "hello", "world")]});
        let labels = [
            json!({"hello": "world"}),
            json!({}),
            json!({"foo": "bar"}),
            json!({}),
        ];
        assert_eq!(prioritized(strategy, &labels), [2, 0, 1, 3]);
    }

    #[test]
    fn orders_go_by_level_and_then_by_the_number_at_the_end() {
        let strategy = json!({"orderPriority": [{"orderedKey": "a"}, {"orderedKey": "b"}]});
        let labels = [
            json!({"a": "5"}),
            json!({"b": "100"}),
            json!({"a": "sts-10"}),
            json!({}),
            json!({"a": "none"}),
        ];
        assert_eq!(prioritized(strategy, &labels), [3, 2, 0, 4, 1]);
    }
}
