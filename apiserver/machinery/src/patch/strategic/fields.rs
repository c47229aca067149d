//! Merge rules of a field, as a strategic merge patch needs them.

use super::unknown;
use crate::schema::{self, Alternative, Object, Schema};
use crate::status::{ApiError, quoted};

/// A type that a patch looks into.
#[derive(Clone, Copy)]
pub(super) enum Type<'s> {
    /// A struct with its fields.
    Struct(&'s Object),
    /// A struct of this name whose fields are not seen in JSON.
    OpaqueStruct(&'static str),
    /// A list of items.
    List(&'s Schema),
    /// A Go kind that has no fields.
    Fieldless(&'static str),
}

/// How a field is merged.
pub(super) struct Field<'s> {
    /// The type of the field, or that of an item for a list.
    pub(super) of: Type<'s>,
    /// Items of the list are merged.
    pub(super) merge: bool,
    /// The struct is replaced.
    pub(super) replace: bool,
    /// The field that identifies an item; a list of scalars has none.
    pub(super) merge_key: Option<&'s str>,
}

impl<'s> Type<'s> {
    fn of(schema: &'s Schema) -> Self {
        match schema {
            Schema::Object(object) => Self::Struct(object),
            Schema::Array(array) => Self::List(&array.items),
            Schema::Raw => Self::OpaqueStruct("RawExtension"),
            Schema::Time => Self::OpaqueStruct("Time"),
            Schema::MicroTime => Self::OpaqueStruct("MicroTime"),
            Schema::Quantity => Self::OpaqueStruct("Quantity"),
            Schema::IntOrString => Self::OpaqueStruct("IntOrString"),
            Schema::JsonSchemaOr(Alternative::Array) => {
                Self::OpaqueStruct("JSONSchemaPropsOrArray")
            }
            Schema::JsonSchemaOr(Alternative::Bool) => Self::OpaqueStruct("JSONSchemaPropsOrBool"),
            Schema::JsonSchemaOr(Alternative::StringArray) => {
                Self::OpaqueStruct("JSONSchemaPropsOrStringArray")
            }
            Schema::Any => Self::Fieldless("interface"),
            Schema::Map(_) => Self::Fieldless("map"),
            Schema::Bytes => Self::Fieldless("slice"),
            Schema::Bool => Self::Fieldless("bool"),
            Schema::Int32 => Self::Fieldless("int32"),
            Schema::Int64 => Self::Fieldless("int64"),
            Schema::Float => Self::Fieldless("float64"),
            Schema::String(_) => Self::Fieldless("string"),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Struct(_) | Self::OpaqueStruct(_) => "struct",
            Self::List(_) => "slice",
            Self::Fieldless(kind) => kind,
        }
    }

    /// The field that JSON calls `key`, in whatever case.
    pub(super) fn field(self, key: &str) -> Result<Field<'s>, ApiError> {
        let missing = |name: &str| {
            unknown(format!(
                "unable to find api field in struct {name} for the json field {}",
                quoted(key)
            ))
        };
        match self {
            Self::Struct(object) => {
                let found = object.field(key).or_else(|| {
                    let mut fields = object.fields().iter();
                    fields.find(|field| field.name.eq_ignore_ascii_case(key))
                });
                let schema::Field {
                    schema,
                    patch_strategy,
                    patch_merge_key,
                    ..
                } = found.ok_or_else(|| missing(&object.name))?;
                Ok(Field {
                    of: Self::of(schema),
                    merge: patch_strategy.merge,
                    replace: patch_strategy.replace,
                    merge_key: patch_merge_key.as_deref(),
                })
            }
            Self::OpaqueStruct(name) => Err(missing(name)),
            Self::List(_) | Self::Fieldless(_) => Err(unknown(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            ))),
        }
    }

    /// The field `key`, which holds a list.
    pub(super) fn list_field(self, key: &str) -> Result<Field<'s>, ApiError> {
        let field = self.field(key)?;
        match field.of {
            Self::List(Schema::Array(_)) => Err(unknown("unexpected slice of slice".to_owned())),
            Self::List(items) => Ok(Field {
                of: Self::of(items),
                ..field
            }),
            _ => Err(unknown(format!(
                "expected slice or array type, but got: {}",
                self.kind()
            ))),
        }
    }
}
