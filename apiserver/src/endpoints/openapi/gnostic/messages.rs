//! The messages `openapi.v2` and `openapi.v3` of gnostic, as far as documents of this server go.

use super::Kind::{self, Any, Bool, Double, Each, Int, OneOf, OrReference, Text, Wrapped};
use super::{Field, Message};
use crate::json::Value;

const NONE: (u32, Kind) = (0, Any);

pub(super) static REFERENCE: Message = plain(&[("$ref", 1, Text)], 0);

static EXTERNAL_DOCS: Message = plain(&[("description", 1, Text), ("url", 2, Text)], 3);

pub(super) static V2_DOCUMENT: Message = plain(
    &[
        ("swagger", 1, Text),
        ("info", 2, Kind::Message(&V2_INFO)),
        ("paths", 8, Kind::Message(&V2_PATHS)),
        ("definitions", 9, Kind::Message(&V2_SCHEMAS)),
        ("parameters", 10, Kind::Message(&V2_PARAMETERS)),
        ("security", 12, Kind::Message(&V2_REQUIREMENT)),
        ("securityDefinitions", 13, Kind::Message(&V2_SECURITY)),
    ],
    16,
);
static V2_INFO: Message = plain(&[("title", 1, Text), ("version", 2, Text)], 7);
static V2_PATHS: Message = Message {
    fields: &[],
    extensions: 1,
    named: (2, Kind::Message(&V2_PATH)),
};
static V2_PATH: Message = plain(
    &[
        ("get", 2, Kind::Message(&V2_OPERATION)),
        ("put", 3, Kind::Message(&V2_OPERATION)),
        ("post", 4, Kind::Message(&V2_OPERATION)),
        ("delete", 5, Kind::Message(&V2_OPERATION)),
        ("options", 6, Kind::Message(&V2_OPERATION)),
        ("head", 7, Kind::Message(&V2_OPERATION)),
        ("patch", 8, Kind::Message(&V2_OPERATION)),
        ("parameters", 9, OrReference(&OneOf(v2_parameter))),
    ],
    10,
);
static V2_OPERATION: Message = plain(
    &[
        ("tags", 1, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Text),
        ("consumes", 7, Text),
        ("parameters", 8, OrReference(&OneOf(v2_parameter))),
        ("responses", 9, Kind::Message(&V2_RESPONSES)),
        ("schemes", 10, Text),
    ],
    13,
);
static V2_RESPONSES: Message = Message {
    fields: &[],
    extensions: 2,
    named: (1, OrReference(&Kind::Message(&V2_RESPONSE))),
};
static V2_RESPONSE: Message = plain(
    &[
        ("description", 1, Text),
        ("schema", 2, Wrapped(&Kind::Message(&V2_SCHEMA))),
    ],
    5,
);
static V2_PARAMETERS: Message = named(OneOf(v2_parameter));
static V2_BODY: Message = plain(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, Kind::Message(&V2_SCHEMA)),
    ],
    6,
);
static V2_QUERY: Message = plain(
    &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Bool),
    ],
    23,
);
static V2_IN_PATH: Message = plain(
    &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Bool),
    ],
    22,
);
static V2_SECURITY: Message = named(OneOf(|_| (2, Kind::Message(&V2_API_KEY))));
static V2_API_KEY: Message = plain(
    &[
        ("type", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("description", 4, Text),
    ],
    5,
);
static V2_REQUIREMENT: Message = named(Wrapped(&Text));
static V2_SCHEMAS: Message = named(Kind::Message(&V2_SCHEMA));
static V2_SCHEMA: Message = plain(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Text),
        ("enum", 20, Each(&Any)),
        ("additionalProperties", 21, OneOf(v2_additional)),
        ("type", 22, Wrapped(&Text)),
        ("items", 23, Wrapped(&Kind::Message(&V2_SCHEMA))),
        ("allOf", 24, Kind::Message(&V2_SCHEMA)),
        ("properties", 25, Kind::Message(&V2_SCHEMAS)),
        ("externalDocs", 29, Kind::Message(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);

fn v2_parameter(parameter: &Value) -> (u32, Kind) {
    match parameter["in"].as_str() {
        Some("body") => (1, Kind::Message(&V2_BODY)),
        _ => (2, OneOf(v2_non_body)),
    }
}

fn v2_non_body(parameter: &Value) -> (u32, Kind) {
    match parameter["in"].as_str() {
        Some("path") => (4, Kind::Message(&V2_IN_PATH)),
        _ => (3, Kind::Message(&V2_QUERY)),
    }
}

fn v2_additional(value: &Value) -> (u32, Kind) {
    match value {
        Value::Bool(_) => (2, Bool),
        _ => (1, Kind::Message(&V2_SCHEMA)),
    }
}

pub(super) static V3_DOCUMENT: Message = plain(
    &[
        ("openapi", 1, Text),
        ("info", 2, Kind::Message(&V3_INFO)),
        ("paths", 4, Kind::Message(&V3_PATHS)),
        ("components", 5, Kind::Message(&V3_COMPONENTS)),
    ],
    9,
);
static V3_INFO: Message = plain(&[("title", 1, Text), ("version", 6, Text)], 7);
static V3_PATHS: Message = Message {
    fields: &[],
    extensions: 2,
    named: (1, Kind::Message(&V3_PATH)),
};
static V3_PATH: Message = plain(
    &[
        ("get", 4, Kind::Message(&V3_OPERATION)),
        ("put", 5, Kind::Message(&V3_OPERATION)),
        ("post", 6, Kind::Message(&V3_OPERATION)),
        ("delete", 7, Kind::Message(&V3_OPERATION)),
        ("options", 8, Kind::Message(&V3_OPERATION)),
        ("head", 9, Kind::Message(&V3_OPERATION)),
        ("patch", 10, Kind::Message(&V3_OPERATION)),
        ("parameters", 13, OrReference(&Kind::Message(&V3_PARAMETER))),
    ],
    14,
);
static V3_OPERATION: Message = plain(
    &[
        ("tags", 1, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, OrReference(&Kind::Message(&V3_PARAMETER))),
        ("requestBody", 7, OrReference(&Kind::Message(&V3_BODY))),
        ("responses", 8, Kind::Message(&V3_RESPONSES)),
    ],
    13,
);
static V3_PARAMETER: Message = plain(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Bool),
        ("schema", 10, OrReference(&V3_SCHEMA_KIND)),
    ],
    14,
);
static V3_BODY: Message = plain(
    &[
        ("description", 1, Text),
        ("content", 2, Kind::Message(&V3_CONTENT)),
        ("required", 3, Bool),
    ],
    4,
);
static V3_CONTENT: Message = named(Kind::Message(&V3_MEDIA_TYPE));
static V3_MEDIA_TYPE: Message = plain(&[("schema", 1, OrReference(&V3_SCHEMA_KIND))], 5);
static V3_RESPONSES: Message = Message {
    fields: &[],
    extensions: 3,
    named: (2, OrReference(&Kind::Message(&V3_RESPONSE))),
};
static V3_RESPONSE: Message = plain(
    &[
        ("description", 1, Text),
        ("content", 3, Kind::Message(&V3_CONTENT)),
    ],
    5,
);
static V3_COMPONENTS: Message = plain(
    &[
        ("schemas", 1, Kind::Message(&V3_SCHEMAS)),
        ("securitySchemes", 7, Kind::Message(&V3_SECURITY)),
    ],
    10,
);
static V3_SECURITY: Message = named(OrReference(&Kind::Message(&V3_SCHEME)));
static V3_SCHEME: Message = plain(
    &[
        ("type", 1, Text),
        ("description", 2, Text),
        ("name", 3, Text),
        ("in", 4, Text),
    ],
    9,
);
static V3_SCHEMAS: Message = named(OrReference(&V3_SCHEMA_KIND));
static V3_SCHEMA_KIND: Kind = Kind::Message(&V3_SCHEMA);
static V3_SCHEMA: Message = plain(
    &[
        ("nullable", 1, Bool),
        ("externalDocs", 6, Kind::Message(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Bool),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Bool),
        ("maxLength", 15, Int),
        ("minLength", 16, Int),
        ("pattern", 17, Text),
        ("maxItems", 18, Int),
        ("minItems", 19, Int),
        ("uniqueItems", 20, Bool),
        ("maxProperties", 21, Int),
        ("minProperties", 22, Int),
        ("required", 23, Text),
        ("enum", 24, Each(&Any)),
        ("type", 25, Text),
        ("allOf", 26, OrReference(&V3_SCHEMA_KIND)),
        ("oneOf", 27, OrReference(&V3_SCHEMA_KIND)),
        ("anyOf", 28, OrReference(&V3_SCHEMA_KIND)),
        ("not", 29, Kind::Message(&V3_SCHEMA)),
        ("items", 30, Wrapped(&OrReference(&V3_SCHEMA_KIND))),
        ("properties", 31, Kind::Message(&V3_SCHEMAS)),
        ("additionalProperties", 32, OneOf(v3_additional)),
        ("default", 33, OneOf(v3_default)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);

fn v3_additional(value: &Value) -> (u32, Kind) {
    match value {
        Value::Bool(_) => (2, Bool),
        _ => (1, OrReference(&V3_SCHEMA_KIND)),
    }
}

/// Field 0 does not exist: the message has no field for the default `{}`.
fn v3_default(value: &Value) -> (u32, Kind) {
    match value {
        Value::Number(_) => (1, Double),
        Value::Bool(_) => (2, Bool),
        Value::String(_) => (3, Text),
        Value::Null | Value::Array(_) | Value::Object(_) => (0, Any),
    }
}

const fn plain(fields: &'static [Field], extensions: u32) -> Message {
    Message {
        fields,
        extensions,
        named: NONE,
    }
}

const fn named(kind: Kind) -> Message {
    Message {
        fields: &[],
        extensions: 0,
        named: (1, kind),
    }
}
