//! JSONPath in the dialect of `kubectl` and printer columns, for one path.

mod parse;

use std::cmp::Ordering;

use crate::json::Value;

/// How many values a step of a path may find.
const FOUND_MAX: usize = 100_000;

/// A compiled path, such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Node>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A literal.
    Literal(Value),
    Field(String),
    Wildcard,
    /// `..`: the value and all values within.
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
pub struct Unfit;

impl JsonPath {
    /// Compiles a path; `None` for text that is not a JSON path.
    pub fn parse(text: &str) -> Option<Self> {
        parse::action(text).map(Self)
    }

    /// Returns the values at the path; an absent field has no values.
    ///
    /// # Errors
    /// The path takes an index that does not exist or an item of a value that is not a list, or a
    /// step finds more than `FOUND_MAX` values: each step may multiply the results of the step
    /// before.
    pub fn find<'v>(&'v self, value: &'v Value) -> Result<Vec<&'v Value>, Unfit> {
        let mut found = vec![value];
        for node in &self.0 {
            found = node.walk(&found)?.0;
        }
        Ok(found)
    }
}

/// The values that a step of a path found.
#[derive(Default)]
struct Found<'v>(Vec<&'v Value>);

impl<'v> Found<'v> {
    fn push(&mut self, value: &'v Value) -> Result<(), Unfit> {
        if self.0.len() == FOUND_MAX {
            return Err(Unfit);
        }
        self.0.push(value);
        Ok(())
    }

    fn extend(&mut self, values: impl IntoIterator<Item = &'v Value>) -> Result<(), Unfit> {
        values.into_iter().try_for_each(|value| self.push(value))
    }

    /// Adds `value`, if it has children, and all values within.
    fn descend(&mut self, value: &'v Value) -> Result<(), Unfit> {
        if children(value).next().is_none() {
            return Ok(());
        }
        self.push(value)?;
        children(value).try_for_each(|child| self.descend(child))
    }
}

impl Node {
    fn walk<'v>(&'v self, input: &[&'v Value]) -> Result<Found<'v>, Unfit> {
        let mut values = input.iter().copied().filter(|value| !value.is_null());
        let mut found = Found::default();
        match self {
            Self::Literal(text @ Value::String(_)) => found.push(text)?,
            Self::Literal(value) => found.extend(input.iter().map(|_| value))?,
            Self::Field(name) => found.extend(values.filter_map(|value| value.get(name)))?,
            Self::Wildcard => values.try_for_each(|value| found.extend(children(value)))?,
            Self::Recursive => values.try_for_each(|value| found.descend(value))?,
            Self::Slice(slice) => {
                for value in values {
                    found.extend(slice.take(value.as_array().ok_or(Unfit)?)?)?;
                }
            }
            Self::Filter(filter) => {
                for value in input {
                    for item in value.as_array().ok_or(Unfit)? {
                        if filter.passes(item)? {
                            found.push(item)?;
                        }
                    }
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    for value in input {
                        found.extend(path.find(value)?)?;
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

impl Slice {
    fn take(self, items: &[Value]) -> Result<impl Iterator<Item = &Value>, Unfit> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or(0);
        if start < 0 {
            start += length;
        }
        let mut end = self.end.unwrap_or(length);
        if end < 0 || (end == 0 && self.is_index) {
            end += length;
        }
        let at = |index: i64| usize::try_from(index).unwrap_or(0);
        if start == end {
            return Ok(items[..0].iter().step_by(1));
        }
        if !(0..length).contains(&start) || !(0..=length).contains(&end) || start > end {
            return Err(Unfit);
        }
        let step = match self.step {
            Some(step) if step <= 0 => return Err(Unfit),
            step => usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX),
        };
        Ok(items[at(start)..at(end)].iter().step_by(step))
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> Result<bool, Unfit> {
        let Some(right) = &self.right else {
            return Ok(self.left.find(item).is_ok_and(|found| !found.is_empty()));
        };
        let (left, right) = (self.left.find(item)?, right.find(item)?);
        let (left, right) = match (left.as_slice(), right.as_slice()) {
            ([left], [right]) => (left, right),
            ([], [] | [_]) | ([_], []) => return Ok(false),
            _ => return Err(Unfit),
        };
        let order = compare(left, right)?;
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
    use crate::json::json;

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
            let path_found = JsonPath::parse(path).unwrap();
            let found = path_found.find(&value);
            assert_eq!(
                found,
                Ok(want.as_array().unwrap().iter().collect()),
                "{path}"
            );
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

    #[test]
    fn indices_and_growth_have_an_end() {
        let value = json!({ "a": [[1, 2, 3], [4, 5, 6]], "b": 1 });
        let last = format!(".a[{}]", i64::MAX);
        let first = format!(".a[{}]", i64::MIN);
        for path in [last.as_str(), first.as_str()] {
            let path = JsonPath::parse(path).unwrap();
            assert_eq!(path.find(&value), Err(Unfit));
        }
        // Each further `..` finds a value once for each value that contains it.
        let deep = (0..60).fold(json!([]), |inner, _| json!([inner]));
        let path = JsonPath::parse(&"..[*]".repeat(9)).unwrap();
        assert_eq!(path.find(&deep), Err(Unfit));
    }
}
