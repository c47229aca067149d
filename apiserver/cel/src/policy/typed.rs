//! Types of objects out of the schemas of an OpenAPI document.

use std::{collections::BTreeMap, sync::Arc};

use kubeproof_machinery::json::{Map, Value as Json};

use crate::{
    schema::escape,
    types::{DeclKind, DeclType, Type},
};

/// The prefix of references between the schemas of a document of OpenAPI v3.
const REFERENCE: &str = "#/components/schemas/";

/// A reference to a schema that the document does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReference;

/// Returns the type of resources whose schema is `definition`; `None` for one that expressions see
/// nothing of.
///
/// `schemas` are the document's, by name. Type names begin with `type_name`.
///
/// # Errors
/// `UnknownReference` when a schema that is needed is missing.
pub fn resource_type(
    schemas: &Map,
    definition: &str,
    type_name: &str,
) -> Result<Option<Arc<DeclType>>, UnknownReference> {
    let (definition, root) = schemas.get_key_value(definition).ok_or(UnknownReference)?;
    let mut reader = Reader {
        schemas,
        open: vec![definition],
    };
    let of = reader.read(root, true)?;
    Ok(of.map(|of| Arc::new(of.named(type_name))))
}

struct Reader<'s> {
    schemas: &'s Map,
    /// The definitions that are being read, outermost first.
    open: Vec<&'s str>,
}

impl<'s> Reader<'s> {
    /// Reads a schema, or the one that it refers to.
    fn read(
        &mut self,
        schema: &'s Json,
        is_resource: bool,
    ) -> Result<Option<DeclType>, UnknownReference> {
        let Some(reference) = reference(schema) else {
            return self.read_resolved(schema, is_resource);
        };
        let name = reference.strip_prefix(REFERENCE).unwrap_or(reference);
        if self.open.contains(&name) {
            // A circle ends in an object of which nothing is known.
            return Ok(Some(object(BTreeMap::new())));
        }
        let target = self.schemas.get(name).ok_or(UnknownReference)?;
        self.open.push(name);
        let of = self.read_resolved(target, is_resource);
        self.open.pop();
        of
    }

    fn read_resolved(
        &mut self,
        schema: &'s Json,
        is_resource: bool,
    ) -> Result<Option<DeclType>, UnknownReference> {
        let format = schema["format"].as_str().unwrap_or_default();
        if format == "int-or-string" || schema["x-kubernetes-int-or-string"] == true {
            return Ok(Some(simple(Type::Dyn)));
        }
        Ok(match value_type(schema) {
            "array" => match schema["items"].as_object() {
                Some(_) => {
                    let items = self.read_part(&schema["items"])?;
                    items.map(|item| declared(DeclKind::List(Arc::new(item))))
                }
                None => None,
            },
            "object" if schema["additionalProperties"].is_object() => {
                let values = self.read_part(&schema["additionalProperties"])?;
                values.map(|value| declared(DeclKind::Map(Arc::new(value))))
            }
            "object" => Some(self.read_object(schema, is_resource)?),
            "string" => Some(simple(match format {
                "byte" => Type::Bytes,
                "duration" => Type::Duration,
                "date" | "date-time" => Type::Timestamp,
                _ => Type::String,
            })),
            "boolean" => Some(simple(Type::Bool)),
            "number" => Some(simple(Type::Double)),
            "integer" => Some(simple(Type::Int)),
            // Quantities, too, have no type of their own, and so no expression can name them.
            _ => None,
        })
    }

    fn read_part(&mut self, schema: &'s Json) -> Result<Option<DeclType>, UnknownReference> {
        let is_resource = schema["x-kubernetes-embedded-resource"] == true;
        self.read(schema, is_resource)
    }

    fn read_object(
        &mut self,
        schema: &'s Json,
        is_resource: bool,
    ) -> Result<DeclType, UnknownReference> {
        let mut fields = BTreeMap::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let of = self.read_part(property)?;
            if let (Some(of), Some(escaped)) = (of, escape(name)) {
                fields.insert(escaped, Arc::new(of));
            }
        }
        if is_resource && !has_type_and_object_meta(&fields) {
            let text = || Arc::new(simple(Type::String));
            let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
            let metadata = Arc::new(object(BTreeMap::from(names)));
            fields.insert("kind".to_string(), text());
            fields.insert("apiVersion".to_string(), text());
            fields.insert("metadata".to_string(), metadata);
        }
        Ok(object(fields))
    }
}

/// The reference of a schema; one that has siblings is wrapped in `allOf`.
fn reference(schema: &Json) -> Option<&str> {
    let wrapped = || schema["allOf"].as_array()?.iter().find_map(reference);
    schema["$ref"].as_str().or_else(wrapped)
}

fn value_type(schema: &Json) -> &str {
    schema["type"].as_str().unwrap_or_default()
}

fn has_type_and_object_meta(fields: &BTreeMap<String, Arc<DeclType>>) -> bool {
    let is_text = |of: Option<&Arc<DeclType>>| {
        of.is_some_and(|of| matches!(of.kind, DeclKind::Simple(Type::String)))
    };
    let metadata = fields.get("metadata");
    is_text(fields.get("kind"))
        && is_text(fields.get("apiVersion"))
        && metadata.is_some_and(|metadata| {
            is_text(metadata.field("name")) && is_text(metadata.field("generateName"))
        })
}

fn simple(of: Type) -> DeclType {
    declared(DeclKind::Simple(of))
}

fn object(fields: BTreeMap<String, Arc<DeclType>>) -> DeclType {
    declared(DeclKind::Object {
        name: "object".into(),
        fields,
    })
}

fn declared(kind: DeclKind) -> DeclType {
    // Only types are checked: nothing is priced.
    DeclType {
        kind,
        max_elements: u64::MAX,
        min_serialized_size: 0,
    }
}
