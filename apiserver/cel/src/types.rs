//! Types of expressions, and declarations of the fields of objects.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// The type of an expression.
#[expect(clippy::enum_variant_names, reason = "a type's type is called so")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// Any value: types are checked at evaluation.
    Dyn,
    /// The type of an expression with an issue.
    Error,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A parameter of a declared function.
    Param(Arc<str>),
    /// A parameter that one expression has instantiated.
    Var(usize),
    /// An object whose fields an environment knows by this name.
    Object(Arc<str>),
    /// A type of a library, with its parameters.
    Opaque(Arc<str>, Vec<Type>),
}

impl Type {
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(value: Self) -> Self {
        Self::Opaque(OPTIONAL.into(), vec![value])
    }

    /// The type within an optional, or `None` of any other type.
    pub(super) fn optional_value(&self) -> Option<&Self> {
        match self {
            Self::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Returns the name of the type at run time, as `type()` shows it.
    pub(super) fn runtime_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Type(_) => "type".to_owned(),
            Self::Opaque(name, _) => name.to_string(),
            other => other.to_string(),
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

/// The name of the type of optional values.
pub(super) const OPTIONAL: &str = "optional_type";

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::List(item) => return write!(f, "list({item})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Type(None) => "type",
            Self::Type(Some(of)) => return write!(f, "type({of})"),
            Self::Var(number) => return write!(f, "_var{number}"),
            Self::Param(name) | Self::Object(name) => name,
            Self::Opaque(name, parameters) if parameters.is_empty() => name,
            Self::Opaque(name, parameters) => {
                let shown: Vec<String> = parameters.iter().map(Self::to_string).collect();
                return write!(f, "{name}({})", shown.join(", "));
            }
        };
        f.write_str(name)
    }
}

/// A schema's description of a value, as far as expressions can use it.
#[derive(Clone, Debug)]
pub struct DeclType {
    /// The form of the value, as the type checker sees it.
    pub(super) kind: DeclKind,
    /// The most characters, bytes, items or entries a value may have.
    pub(super) max_elements: u64,
    /// The fewest bytes of a value as JSON.
    pub(super) min_serialized_size: u64,
}

/// The forms of [`DeclType`].
#[derive(Clone, Debug)]
pub(super) enum DeclKind {
    /// A value without parts.
    Simple(Type),
    /// A list.
    List(Arc<DeclType>),
    /// A map from strings.
    Map(Arc<DeclType>),
    /// An object, with its fields by escaped name.
    Object {
        name: Arc<str>,
        fields: BTreeMap<String, Arc<DeclType>>,
    },
}

impl DeclType {
    /// The type of expressions that have such a value.
    pub(super) fn expr_type(&self) -> Type {
        match &self.kind {
            DeclKind::Simple(simple) => simple.clone(),
            DeclKind::List(item) => Type::list(item.expr_type()),
            DeclKind::Map(value) => Type::map(Type::String, value.expr_type()),
            DeclKind::Object { name, .. } => Type::Object(name.clone()),
        }
    }

    /// The items of a list or the values of a map.
    pub(super) fn element(&self) -> Option<&Arc<Self>> {
        match &self.kind {
            DeclKind::List(element) | DeclKind::Map(element) => Some(element),
            DeclKind::Simple(_) | DeclKind::Object { .. } => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, DeclKind::Map(_))
    }

    /// The field of an object, by escaped name.
    pub(super) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.kind {
            DeclKind::Object { fields, .. } => fields.get(name),
            _ => None,
        }
    }

    /// Returns a copy whose object types are named after `name` and their path.
    pub(super) fn named(&self, name: &str) -> Self {
        let kind = match &self.kind {
            DeclKind::Simple(simple) => DeclKind::Simple(simple.clone()),
            DeclKind::List(item) => DeclKind::List(Arc::new(item.named(&format!("{name}.@idx")))),
            DeclKind::Map(value) => DeclKind::Map(Arc::new(value.named(&format!("{name}.@elem")))),
            DeclKind::Object { fields, .. } => DeclKind::Object {
                name: name.into(),
                fields: fields
                    .iter()
                    .map(|(field, of)| {
                        (
                            field.clone(),
                            Arc::new(of.named(&format!("{name}.{field}"))),
                        )
                    })
                    .collect(),
            },
        };
        Self { kind, ..*self }
    }

    /// Adds every object type within to `objects`, by name.
    pub(super) fn collect(self: &Arc<Self>, objects: &mut BTreeMap<Arc<str>, Arc<Self>>) {
        match &self.kind {
            DeclKind::Simple(_) => {}
            DeclKind::List(element) | DeclKind::Map(element) => element.collect(objects),
            DeclKind::Object { name, fields } => {
                objects.insert(name.clone(), Arc::clone(self));
                fields.values().for_each(|field| field.collect(objects));
            }
        }
    }
}
