//! JSONPath as `kubectl` and printer columns have it, as far as one path goes.

mod parse;

use std::cmp::Ordering;

use serde_json::Value;

/// A compiled path, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Node>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A literal.
    Literal(Value),
    Field(String),
    Wildcard,
    /// `..`: the value and all that it holds.
    Recursive,
    Slice(Slice),
    Filter(Filter),
    Union(Vec<JsonPath>),
    /// A word that only templates know.
    Identifier,
}

/// `[start:end:step]`; an index is a slice of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    is_index: bool,
}

/// `[?(left operator right)]`, or `[?(left)]`.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    operator: String,
    right: Option<JsonPath>,
}

/// Why a path can't be followed in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

impl JsonPath {
    /// Compiles a path; `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parse::action(text).map(Self)
    }

    /// The values at the path; a field that is absent has none.
    ///
    /// # Errors
    /// When the path takes an index that is not there, or an item of what is no list.
    pub(crate) fn find(&self, value: &Value) -> Result<Vec<Value>, Unfit> {
        let mut found = vec![value.clone()];
        for node in &self.0 {
            found = node.walk(found)?;
        }
        Ok(found)
    }
}

impl Node {
    fn walk(&self, input: Vec<Value>) -> Result<Vec<Value>, Unfit> {
        let values = input.iter().filter(|value| !value.is_null());
        let mut found = Vec::new();
        match self {
            Self::Literal(Value::String(text)) => return Ok(vec![text.as_str().into()]),
            Self::Literal(value) => found.extend(input.iter().map(|_| value.clone())),
            Self::Field(name) => found.extend(values.filter_map(|value| value.get(name)).cloned()),
            Self::Wildcard => values.for_each(|value| found.extend(children(value).cloned())),
            Self::Recursive => values.for_each(|value| descend(value, &mut found)),
            Self::Slice(slice) => {
                for value in values {
                    slice.take(value.as_array().ok_or(Unfit)?, &mut found)?;
                }
            }
            Self::Filter(filter) => {
                for value in &input {
                    for item in value.as_array().ok_or(Unfit)? {
                        if filter.passes(item)? {
                            found.push(item.clone());
                        }
                    }
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    for value in &input {
                        found.extend(path.find(value)?);
                    }
                }
            }
            Self::Identifier => return Err(Unfit),
        }
        Ok(found)
    }
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let fields = value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    fields.chain(value.as_array().into_iter().flatten())
}

/// Adds `value`, if it holds anything, and all that it holds.
fn descend(value: &Value, found: &mut Vec<Value>) {
    if children(value).next().is_some() {
        found.push(value.clone());
        children(value).for_each(|child| descend(child, found));
    }
}

impl Slice {
    fn take(self, items: &[Value], found: &mut Vec<Value>) -> Result<(), Unfit> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or(0);
        if start < 0 {
            start += length;
        }
        let mut end = self.end.unwrap_or(length);
        if end < 0 || (end == 0 && self.is_index) {
            end += length;
        }
        if start == end {
            return Ok(());
        }
        if !(0..length).contains(&start) || !(0..=length).contains(&end) || start > end {
            return Err(Unfit);
        }
        let step = match self.step {
            Some(step) if step <= 0 => return Err(Unfit),
            step => usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX),
        };
        let at = |index: i64| usize::try_from(index).unwrap_or(0);
        let taken = items[at(start)..at(end)].iter().step_by(step);
        found.extend(taken.cloned());
        Ok(())
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> Result<bool, Unfit> {
        let one = |path: &JsonPath| match path.find(item)?.as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value.clone())),
            _ => Err(Unfit),
        };
        let Some(right) = &self.right else {
            return Ok(self.left.find(item).is_ok_and(|found| !found.is_empty()));
        };
        let (Some(left), Some(right)) = (one(&self.left)?, one(right)?) else {
            return Ok(false);
        };
        let order = compare(&left, &right)?;
        Ok(match self.operator.as_str() {
            "==" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            _ => return Err(Unfit),
        })
    }
}

/// Values of one basic type compare; integers and floats are two.
fn compare(left: &Value, right: &Value) -> Result<Ordering, Unfit> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => None,
        },
        _ => None,
    };
    order.ok_or(Unfit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_they_name() {
        let value = json!({
            "metadata": { "labels": { "app.io/name": "shop" } },
            "spec": { "l": [{ "n": "p", "v": 1 }, { "n": "q", "v": 2 }], "s": ["x", "y", "z"] },
        });
        for (path, want) in [
            (".spec.l[0].n", json!(["p"])),
            (".spec.s[-1:]", json!(["z"])),
            (".spec.s[-1]", json!(["z"])),
            (".spec.s[0:2]", json!(["x", "y"])),
            (".spec.s[0:3:2]", json!(["x", "z"])),
            (".spec.s[0,2]", json!(["x", "z"])),
            (".spec.l[*].n", json!(["p", "q"])),
            (".spec.l[?(@.n==\"q\")].v", json!([2])),
            (".spec.l[?(@.v>1)].n", json!(["q"])),
            (".spec.l[?(@.v)].n", json!(["p", "q"])),
            (r".metadata.labels.app\.io/name", json!(["shop"])),
            (".metadata.labels['app\\.io/name']", json!(["shop"])),
            ("..n", json!(["p", "q"])),
            (".spec.none.at.all", json!([])),
        ] {
            let found = JsonPath::parse(path).unwrap().find(&value);
            assert_eq!(found, Ok(want.as_array().unwrap().clone()), "{path}");
        }
        assert_eq!(
            JsonPath::parse(".spec.s[7]").unwrap().find(&value),
            Err(Unfit)
        );
        assert_eq!(
            JsonPath::parse(".metadata[0]").unwrap().find(&value),
            Err(Unfit)
        );
        for text in [
            ".spec.s[",
            ".spec.s[a]",
            ".spec.l[?(@.n==\"q\"",
            "^spec",
            "....n",
        ] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
