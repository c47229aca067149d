//! Reading an object for its cells, and the formats that many columns share.

use jiff::Timestamp;

use crate::json::{Value, json};

/// An object at the time it is shown.
#[derive(Clone, Copy)]
pub struct Printable<'a> {
    /// The object, or the part of it that is being read.
    pub object: &'a Value,
    /// The time that ages are relative to.
    pub now: Timestamp,
}

impl<'a> Printable<'a> {
    /// Returns `metadata.name` as a cell.
    pub fn name(self) -> Value {
        json!(self.str("/metadata/name"))
    }

    /// Time since creation.
    pub fn age(self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    /// The creation time itself, for columns of type `date`.
    pub fn created(self) -> Value {
        self.get("/metadata/creationTimestamp")
            .cloned()
            .unwrap_or_default()
    }

    /// The value at a JSON pointer, unless it is absent or null.
    pub fn get(self, pointer: &str) -> Option<&'a Value> {
        self.object
            .pointer(pointer)
            .filter(|value| !value.is_null())
    }

    /// The part at `pointer`, as a view of its own.
    pub fn at(self, pointer: &str) -> Option<Printable<'a>> {
        let object = self.get(pointer)?;
        Some(Printable { object, ..self })
    }

    /// The text at `pointer`, or `""`.
    pub fn str(self, pointer: &str) -> &'a str {
        self.get(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The text at `pointer`, or `default` where it is empty.
    pub(crate) fn str_or(self, pointer: &str, default: &'a str) -> &'a str {
        Some(self.str(pointer))
            .filter(|text| !text.is_empty())
            .unwrap_or(default)
    }

    /// The number at `pointer`, or 0.
    pub fn int(self, pointer: &str) -> i64 {
        self.get(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Returns the bool at a JSON pointer, or false.
    pub fn bool(self, pointer: &str) -> bool {
        self.get(pointer)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// The items of the array at `pointer`, or none.
    pub fn list(self, pointer: &str) -> &'a [Value] {
        self.get(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The number of entries of the object or array at `pointer`.
    pub fn len(self, pointer: &str) -> usize {
        match self.get(pointer) {
            Some(Value::Object(map)) => map.len(),
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        }
    }

    /// A scalar at `pointer` as text: an int-or-string, a quantity.
    pub fn scalar(self, pointer: &str) -> Option<String> {
        self.get(pointer).map(scalar)
    }

    /// Whether the object is being deleted.
    pub fn is_terminating(self) -> bool {
        self.get("/metadata/deletionTimestamp").is_some()
    }

    /// The condition of type `kind` among `status.conditions`.
    pub fn condition(self, kind: &str) -> Option<Printable<'a>> {
        let mut conditions = self.items("/status/conditions");
        conditions.find(|condition| condition.str("/type") == kind)
    }

    /// The items of the array at `pointer`, each as a view.
    pub fn items(self, pointer: &str) -> impl DoubleEndedIterator<Item = Printable<'a>> {
        let now = self.now;
        self.list(pointer)
            .iter()
            .map(move |object| Printable { object, now })
    }

    /// The time at `pointer`, if there is one.
    pub fn time(self, pointer: &str) -> Option<Timestamp> {
        self.str(pointer).parse().ok()
    }

    /// Time since the timestamp at `pointer`, or `<unknown>`.
    pub fn since(self, pointer: &str) -> String {
        self.time(pointer)
            .map_or_else(|| "<unknown>".to_owned(), |time| elapsed(time, self.now))
    }

    /// Field `field` of every item of the array at `pointer`, joined by commas.
    pub fn joined(self, pointer: &str, field: &str) -> String {
        let texts: Vec<&str> = self.items(pointer).map(|item| item.str(field)).collect();
        texts.join(",")
    }

    /// The texts of the array at `pointer`.
    pub(crate) fn strs(self, pointer: &str) -> Vec<&'a str> {
        self.list(pointer)
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    /// The labels at `pointer` as `k=v,k=v`, or `<none>`.
    pub fn labels(self, pointer: &str) -> String {
        or_none(self.requirements(pointer).join(","))
    }

    /// The label selector at `pointer` as text; empty where it selects everything or nothing.
    pub fn selector(self, pointer: &str) -> String {
        let Some(selector) = self.at(pointer) else {
            return String::new();
        };
        let keyed = |text: String| (text.split('=').next().unwrap_or_default().to_owned(), text);
        let mut parts: Vec<(String, String)> = selector
            .requirements("/matchLabels")
            .into_iter()
            .map(keyed)
            .collect();
        for expression in selector.items("/matchExpressions") {
            let key = expression.str("/key");
            let mut values = expression.strs("/values");
            values.sort_unstable();
            let values = values.join(",");
            let text = match expression.str("/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            };
            parts.push((key.to_owned(), text));
        }
        // Upstream sorts by key only; a stable sort keeps labels before expressions.
        parts.sort_by(|(a, _), (b, _)| a.cmp(b));
        parts
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(",")
    }

    fn requirements(self, pointer: &str) -> Vec<String> {
        let labels = self
            .get(pointer)
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        labels
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect()
    }
}

/// A scalar as it would be typed.
pub fn scalar(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// `text`, or `<none>` where it is empty.
pub fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

/// `text`, or `<unset>` where it is empty.
pub fn or_unset(text: String) -> String {
    if text.is_empty() {
        "<unset>".to_owned()
    } else {
        text
    }
}

/// The first three of `items`, and how many more there are.
pub fn first_three(items: &[String]) -> String {
    const SHOWN: usize = 3;
    if items.len() <= SHOWN {
        return items.join(",");
    }
    format!(
        "{} + {} more...",
        items[..SHOWN].join(","),
        items.len() - SHOWN
    )
}

/// Time from `then` to `now` for a reader.
pub fn elapsed(then: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(then).as_secs())
}

/// A duration in two or three significant figures, such as `2m30s` or `4d2h`.
///
/// Clocks may disagree by up to two seconds: that little before zero is `0s`, more is `<invalid>`.
/// Mirrors `duration.HumanDuration`.
#[must_use]
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, large_unit: &str, small_unit: &str, size: i64, small_size: i64| {
        let rest = seconds % size / small_size;
        if rest == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{rest}{small_unit}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", "s", MINUTE, 1),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", "m", HOUR, MINUTE),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", "h", DAY, HOUR),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds / YEAR, "y", "d", YEAR, DAY),
        _ => format!("{}y", seconds / YEAR),
    }
}
