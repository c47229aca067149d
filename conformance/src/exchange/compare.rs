//! The differences between the answers wanted and those got.

use std::collections::BTreeSet;

use kubeproof_machinery::json::{SmolStr, Value};

use super::text;

/// Longer values are cut in the output.
const SHOWN_CHARS_MAX: usize = 200;

/// An answer that is not as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The answer's place among the case's answers, from zero.
    pub step: usize,
    /// Each place that differs, in words.
    pub places: Vec<String>,
}

/// Compares the answers of one case; returns those that differ.
#[must_use]
pub fn compare(want: &[Value], got: &[Value]) -> Vec<Difference> {
    let steps = 0..want.len().max(got.len());
    steps
        .map(|step| {
            let mut places = Vec::new();
            match (want.get(step), got.get(step)) {
                (Some(want), Some(got)) => visit(want, got, "", &mut places),
                (Some(_), None) => places.push("no answer".to_owned()),
                (None, got) => {
                    let got = shown(got.unwrap_or(&Value::Null));
                    places.push(format!("no answer is recorded, got {got}"));
                }
            }
            Difference { step, places }
        })
        .filter(|difference| !difference.places.is_empty())
        .collect()
}

fn visit(want: &Value, got: &Value, path: &str, places: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(wanted), Value::Object(found)) => {
            let keys: BTreeSet<&SmolStr> = wanted.keys().chain(found.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (wanted.get(key), found.get(key)) {
                    (Some(want), Some(got)) => visit(want, got, &path, places),
                    (Some(want), None) => {
                        places.push(format!("{path}: missing, want {}", shown(want)));
                    }
                    (None, Some(got)) => {
                        places.push(format!("{path}: unexpected {}", shown(got)));
                    }
                    (None, None) => {}
                }
            }
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if wanted.len() != found.len() {
                places.push(format!(
                    "{path}: want {} elements, got {}",
                    wanted.len(),
                    found.len()
                ));
            }
            for (index, (want, got)) in wanted.iter().zip(found).enumerate() {
                visit(want, got, &format!("{path}[{index}]"), places);
            }
        }
        _ if want == got => {}
        _ => {
            let path = if path.is_empty() { "." } else { path };
            places.push(format!("{path}: want {}, got {}", shown(want), shown(got)));
        }
    }
}

fn shown(value: &Value) -> String {
    let whole = text::spaced(value);
    match whole.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let want = [json!({"a": 1, "b": [1, 2], "c": {"d": "x"}}), json!(true)];
        let got = [json!({"a": 1.0, "b": [1], "c": {"d": "y", "e": null}})];
        let differences = compare(&want, &got);
        assert_eq!(
            differences[0].places,
            [
                ".a: want 1, got 1.0",
                ".b: want 2 elements, got 1",
                ".c.d: want \"x\", got \"y\"",
                ".c.e: unexpected null",
            ]
        );
        assert_eq!(
            (differences[1].step, differences[1].places[0].as_str()),
            (1, "no answer")
        );
        assert!(compare(&want, &want).is_empty());
    }

    #[test]
    fn an_answer_beyond_the_recording_differs() {
        let differences = compare(&[], &[json!({})]);
        assert_eq!(differences[0].places, ["no answer is recorded, got {}"]);
    }
}
