//! The options of a request: query parameters, and the body of a DELETE.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::meta::GroupKind;
use crate::patch::PatchType;
use crate::schema::FieldValidation;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// Bytes that the name of a field manager may have.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The decoded pairs of a query string. Go passes over a pair that it cannot read: one with a
/// semicolon or a broken escape.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| {
        percent_decode_str(&text.replace('+', " "))
            .decode_utf8_lossy()
            .into_owned()
    };
    query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';') && is_well_escaped(pair))
        .map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
}

/// Whether two hexadecimal digits follow every `%`.
pub(crate) fn is_well_escaped(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// The query parameters of a request, read as upstream reads them: the first value counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        Self(pairs(query).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// All values of `key`.
    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean; everything but `false` and `0` is true, as upstream's conversion has it.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"))
    }

    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            ApiError::BadRequest(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        })
    }

    /// Whether nothing is to be stored, once the options of a write are found valid.
    pub(crate) fn dry_run(&self, kind: &str) -> Result<bool, ApiError> {
        self.write_options(FieldErrors::new(), kind)
    }

    /// The same for a patch.
    pub(crate) fn patch_options(&self, patch_type: PatchType) -> Result<bool, ApiError> {
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
        if kind != "DeleteOptions"
            && let Some(manager) = self.get("fieldManager")
        {
            check_field_manager(manager, &mut errors);
        }
        let values: Vec<&str> = self.all("dryRun").collect();
        check_dry_run(&values, errors, kind)
    }
}

fn check_field_manager(manager: &str, errors: &mut FieldErrors) {
    let path = FieldPath::new("fieldManager");
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.too_long(&path, FIELD_MANAGER_BYTES_MAX);
    }
    for (at, letter) in manager
        .char_indices()
        .filter(|(_, letter)| letter.is_control())
    {
        let detail = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(letter)
        );
        errors.invalid(&path, &manager.into(), &detail);
    }
}

fn check_dry_run(values: &[&str], mut errors: FieldErrors, kind: &str) -> Result<bool, ApiError> {
    for value in values.iter().filter(|value| **value != "All") {
        let path = FieldPath::new("dryRun");
        errors.not_supported(&path, &Value::from(*value), &["All"]);
    }
    if errors.is_empty() {
        return Ok(!values.is_empty());
    }
    let kind = GroupKind {
        group: "meta.k8s.io".to_owned(),
        kind: kind.to_owned(),
    };
    Err(ApiError::Invalid {
        kind,
        name: String::new(),
        errors,
    })
}

/// Reads `fieldValidation`; `kind` names the options in the error.
pub(crate) fn field_validation(query: &Query, kind: &str) -> Result<FieldValidation, ApiError> {
    match query.get("fieldValidation") {
        None | Some("" | "Warn") => Ok(FieldValidation::Warn),
        Some("Strict") => Ok(FieldValidation::Strict),
        Some("Ignore") => Ok(FieldValidation::Ignore),
        Some(other) => {
            let mut errors = FieldErrors::new();
            let path = FieldPath::new("fieldValidation");
            errors.not_supported(&path, &other.into(), &["", "Ignore", "Strict", "Warn"]);
            let kind = GroupKind {
                group: "meta.k8s.io".to_owned(),
                kind: kind.to_owned(),
            };
            Err(ApiError::Invalid {
                kind,
                name: String::new(),
                errors,
            })
        }
    }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// Guards of a write: the object must be this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) rv: Option<String>,
}

impl Preconditions {
    /// Why `object` is not the one meant, in upstream's words.
    pub(crate) fn violation(&self, object: &Value) -> Option<String> {
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

/// `metav1.DeleteOptions`, from the body or, without one, from the query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) preconditions: Preconditions,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options; `body` wins over the query where it says something.
    pub(crate) fn parse(body: Option<&Value>, query: &Query) -> Result<Self, ApiError> {
        let empty = Value::Null;
        let body = body.unwrap_or(&empty);
        let mut errors = FieldErrors::new();
        let grace_period_seconds = match body["gracePeriodSeconds"].as_i64() {
            Some(seconds) => Some(seconds),
            None => query.integer("gracePeriodSeconds")?,
        };
        let policy = body["propagationPolicy"]
            .as_str()
            .or_else(|| query.get("propagationPolicy"));
        let orphan = body["orphanDependents"].as_bool().or_else(|| {
            query
                .get("orphanDependents")
                .map(|_| query.flag("orphanDependents"))
        });
        if policy.is_some() && orphan.is_some() {
            let path = FieldPath::new("propagationPolicy");
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, &policy.into(), detail);
        }
        let propagation = match (orphan, policy) {
            (Some(true), _) | (None, Some("Orphan")) => Some(Propagation::Orphan),
            (Some(false), _) | (None, Some("Background")) => Some(Propagation::Background),
            (None, Some("Foreground")) => Some(Propagation::Foreground),
            (None, None | Some("")) => None,
            (None, Some(other)) => {
                let path = FieldPath::new("propagationPolicy");
                let supported = ["Background", "Foreground", "Orphan"];
                errors.not_supported(&path, &other.into(), &supported);
                None
            }
        };
        if !errors.is_empty() {
            let kind = GroupKind {
                group: "meta.k8s.io".to_owned(),
                kind: "DeleteOptions".to_owned(),
            };
            return Err(ApiError::Invalid {
                kind,
                name: String::new(),
                errors,
            });
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let preconditions = Preconditions {
            uid: text(&body["preconditions"]["uid"]),
            rv: text(&body["preconditions"]["resourceVersion"]),
        };
        let listed: Vec<&str> = body["dryRun"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let dry_run = check_dry_run(&listed, FieldErrors::new(), "DeleteOptions")?
            || query.dry_run("DeleteOptions")?;
        Ok(Self {
            grace_period_seconds,
            propagation,
            preconditions,
            dry_run,
        })
    }
}
