//! The options of a request: query parameters, and the body of a DELETE.

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use percent_encoding::percent_decode_str;

use crate::json::Value;
use crate::meta::GroupKind;
use crate::meta::validation::validate_field_manager;
use crate::patch::PatchType;
use crate::schema::FieldValidation;
use crate::status::{ApiError, FieldErrors, FieldPath, quoted};

/// The decoded pairs of a query string. Go passes over a pair that it cannot read: one with a
/// semicolon or a broken escape.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = written_pairs(query);
    pairs.map(|(key, value)| (decode(key).into_owned(), decode(value).into_owned()))
}

/// Returns for each of `keys`, which differ, the decoded value of its first readable pair. The keys are given decoded.
pub(super) fn first<'query, const N: usize>(
    query: &'query str,
    keys: [&str; N],
) -> [Option<Cow<'query, str>>; N] {
    let mut values = [const { None }; N];
    for (own, value) in split(query) {
        let key = decode(own);
        let at = keys.iter().position(|known| key == *known);
        let at = at.filter(|at| values[*at].is_none() && can_be_read(own, value));
        if let Some(at) = at {
            values[at] = Some(decode(value));
        }
    }
    values
}

/// The pairs that can be read, as they are written.
fn written_pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    split(query).filter(|(key, value)| can_be_read(key, value))
}

/// All pairs, as they are written.
fn split(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(query);
    let pairs = std::iter::from_fn(move || {
        let (pair, after) = cut(rest?, b'&');
        rest = after;
        Some(pair)
    });
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = cut(pair, b'=');
        (key, value.unwrap_or_default())
    })
}

/// Splits at the first `byte`, which is ASCII.
fn cut(text: &str, byte: u8) -> (&str, Option<&str>) {
    match memchr::memchr(byte, text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Whether Go reads a pair with this key and this value.
fn can_be_read(key: &str, value: &str) -> bool {
    let has = |text: &str, byte| text.as_bytes().contains(&byte);
    let mut both = [key, value].into_iter();
    both.all(|text| !has(text, b';') && (!has(text, b'%') || is_well_escaped(text)))
}

/// Decodes a key or a value.
fn decode(text: &str) -> Cow<'_, str> {
    // Most are written as they are.
    if memchr::memchr2(b'+', b'%', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let text = text.replace('+', " ");
    let text = percent_decode_str(&text).decode_utf8_lossy();
    Cow::Owned(text.into_owned())
}

/// Whether a value is true: all values but `false` and `0` are, as in upstream's conversion.
pub(super) fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// Whether two hexadecimal digits follow every `%`.
pub fn is_well_escaped(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// The query parameters of a request, read as upstream reads them: the first value counts.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes a query string, given without its `?`.
    pub fn parse(query: &str) -> Self {
        Self(pairs(query).collect())
    }

    /// The parameters that stand for these options.
    pub fn of(options: &Value) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.to_string(),
            other => other.to_string(),
        };
        let fields = options.as_object().into_iter().flatten();
        let pairs = fields.flat_map(|(name, value)| {
            let values = match value {
                Value::Array(values) => values.iter().map(text).collect(),
                value => vec![text(value)],
            };
            values
                .into_iter()
                .map(move |value| (name.to_string(), value))
        });
        Self(pairs.collect())
    }

    /// Returns the first value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all names and values in their order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All values of `key`.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// The boolean value of `key`: all values but `false` and `0` are true. It is false without the key.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(is_true)
    }

    /// Returns the first value of `key` as an integer of 64 bits.
    ///
    /// # Errors
    /// A value that Go's `strconv.ParseInt` refuses is a bad request, in Go's words.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            ApiError::BadRequest(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
        })
    }

    /// Validates the options of a write and returns whether it is a dry run.
    pub fn dry_run(&self, kind: &str) -> Result<bool, ApiError> {
        self.write_options(FieldErrors::new(), kind)
    }

    /// Validates the options of a patch and returns whether it is a dry run.
    pub fn patch_options(&self, patch_type: PatchType) -> Result<bool, ApiError> {
        let mut errors = FieldErrors::new();
        let is_unnamed = self.get("fieldManager").unwrap_or_default().is_empty();
        if patch_type != PatchType::Apply {
            if self.get("force").is_some() {
                let detail = "may not be specified for non-apply patch";
                errors.forbidden(&FieldPath::new("force"), detail);
            }
        } else if is_unnamed {
            let path = FieldPath::new("fieldManager");
            errors.required(&path, "is required for apply patch");
        }
        self.write_options(errors, "PatchOptions")
    }

    fn write_options(&self, mut errors: FieldErrors, kind: &str) -> Result<bool, ApiError> {
        let manager = self.get("fieldManager").unwrap_or_default();
        validate_field_manager(manager, &FieldPath::new("fieldManager"), &mut errors);
        let values: Vec<&str> = self.all("dryRun").collect();
        check_dry_run(&values, &mut errors);
        check_field_validation(self, &mut errors);
        invalid(kind, errors)?;
        Ok(!values.is_empty())
    }
}

fn check_dry_run(values: &[&str], errors: &mut FieldErrors) {
    if values.iter().any(|value| *value != "All") {
        let path = FieldPath::new("dryRun");
        errors.not_supported(&path, &Value::from(values.to_vec()), &["All"]);
    }
}

fn check_field_validation(query: &Query, errors: &mut FieldErrors) -> FieldValidation {
    match query.get("fieldValidation") {
        None | Some("" | "Warn") => return FieldValidation::Warn,
        Some("Strict") => return FieldValidation::Strict,
        Some("Ignore") => {}
        Some(other) => {
            let path = FieldPath::new("fieldValidation");
            errors.not_supported(&path, &other.into(), &["", "Ignore", "Strict", "Warn"]);
        }
    }
    FieldValidation::Ignore
}

/// `Invalid` options of this kind, unless there is nothing wrong with them.
fn invalid(kind: &str, errors: FieldErrors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: "meta.k8s.io".to_owned(),
            kind: kind.to_owned(),
        },
        name: String::new(),
        errors,
    })
}

/// Reads `fieldValidation`; `kind` names the options in the error.
pub fn field_validation(query: &Query, kind: &str) -> Result<FieldValidation, ApiError> {
    let mut errors = FieldErrors::new();
    let validation = check_field_validation(query, &mut errors);
    invalid(kind, errors)?;
    Ok(validation)
}

/// The treatment of an object's dependents upon its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents lose their owner reference and stay.
    Orphan,
    /// The object goes at once; the garbage collector deletes its dependents afterwards.
    Background,
    /// The object stays until the garbage collector has deleted its dependents.
    Foreground,
}

/// Guards of a write: the object must be this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub rv: Option<String>,
}

impl Preconditions {
    /// Why `object` is not the one meant, in upstream's words.
    pub fn violation(&self, object: &Value) -> Option<String> {
        let meta = |field: &str| crate::meta::object::meta(object, field).to_owned();
        let differs = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().filter(|wanted| *wanted != found).cloned()
        };
        let uid = meta("uid");
        if let Some(wanted) = differs(&self.uid, &uid) {
            return Some(format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            ));
        }
        let rv = meta("resourceVersion");
        differs(&self.rv, &rv).map(|wanted| {
            format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {rv}"
            )
        })
    }
}

/// `metav1.DeleteOptions`: from the body, or from the query if there is no body.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`; `None` for the default of the object.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`; `None` for the default of the kind.
    pub propagation: Option<Propagation>,
    /// `orphanDependents`. It sets `propagation`; two answers also depend on the option itself.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`.
    pub preconditions: Preconditions,
    /// Whether the deletion is only tried (`dryRun: [All]`).
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options; with a `body`, the query is ignored.
    pub fn parse(body: Option<&Value>, query: &Query) -> Result<Self, ApiError> {
        match body {
            Some(body) => Self::from_body(body),
            None => Self::from_query(query),
        }
    }

    /// Reads the options of a body.
    pub fn from_body(body: &Value) -> Result<Self, ApiError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let options = Self {
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            orphan_dependents: body["orphanDependents"].as_bool(),
            preconditions: Preconditions {
                uid: text(&body["preconditions"]["uid"]),
                rv: text(&body["preconditions"]["resourceVersion"]),
            },
            ..Self::default()
        };
        let dry_run = body["dryRun"].as_array().into_iter().flatten();
        let dry_run: Vec<&str> = dry_run.filter_map(Value::as_str).collect();
        options.validated(body["propagationPolicy"].as_str(), &dry_run)
    }

    fn from_query(query: &Query) -> Result<Self, ApiError> {
        let text = |key: &str| {
            let text = query.get(key).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let orphan = query.get("orphanDependents");
        let options = Self {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            orphan_dependents: orphan.map(|_| query.flag("orphanDependents")),
            preconditions: Preconditions {
                uid: text("uid"),
                rv: text("resourceVersion"),
            },
            ..Self::default()
        };
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        options.validated(query.get("propagationPolicy"), &dry_run)
    }

    fn validated(mut self, policy: Option<&str>, dry_run: &[&str]) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("propagationPolicy");
        if policy.is_some() && self.orphan_dependents.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, &policy.into(), detail);
        }
        let stated = match policy {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.not_supported(&path, &other.into(), &supported);
                None
            }
        };
        check_dry_run(dry_run, &mut errors);
        invalid("DeleteOptions", errors)?;
        self.propagation = match self.orphan_dependents {
            Some(true) => Some(Propagation::Orphan),
            Some(false) => Some(Propagation::Background),
            None => stated,
        };
        self.dry_run = !dry_run.is_empty();
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_go_reads_them() {
        for (query, expected) in [
            ("", None),
            ("watch", Some("")),
            ("watch=1=2&watch=3", Some("1=2")),
            ("&&limit=5&watch=a+b%2Cc", Some("a b,c")),
            ("w%61tch=1&watch=2", Some("1")),
            ("+watch=1&watches=2&xwatch=3", None),
            ("watch=%4&watch=2", Some("2")),
            ("watch=%&watch%=1&watch=3", Some("3")),
            ("watch=1;x=2&watch=4", Some("4")),
            ("w;atch=1&watch=ü%C3%BC", Some("üü")),
            ("watch=1&limit=5&limit=6&watch=2", Some("1")),
        ] {
            let first_of = |key: &str| {
                let pair = pairs(query).find(|(own, _)| own == key);
                pair.map(|(_, value)| value)
            };
            assert_eq!(first_of("watch").as_deref(), expected, "{query}");
            let [limit, watch] = first(query, ["limit", "watch"]);
            assert_eq!(watch.as_deref(), expected, "{query}");
            assert_eq!(limit.map(Cow::into_owned), first_of("limit"), "{query}");
        }
    }
}
