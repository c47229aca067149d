//! The format of scenarios as a JSON Schema, by which editors complete and check.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{HumanDuration, Scenario};

/// The JSON Schema (draft 7, which editors' YAML servers know) of a scenario file.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<Scenario>().to_value();
    schema["$comment"] =
        "# yaml-language-server: $schema=FILE, as the first line of a scenario".into();
    schema
}

/// A fault, as the server reads it: its effect is exactly one of the last twelve fields.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) struct Fault {
    /// By which it is lifted.
    name: String,
    /// Which requests it is about; all without it.
    on: Option<Requests>,
    /// So many of them pass first.
    after: Option<u32>,
    /// It meets so many; all of them when absent.
    times: Option<u32>,
    /// It ends so long after it was made; only when lifted when absent.
    #[serde(rename = "for")]
    lasts: Option<HumanDuration>,
    /// The request is not carried out; this is the answer.
    refuse: Option<Refusal>,
    /// The request is carried out, and the connection breaks before the answer is there.
    lose_answer: Option<bool>,
    /// The request is carried out so much later.
    delay: Option<HumanDuration>,
    /// The client dies before or after the request.
    crash: Option<Crash>,
    /// The server cannot be reached.
    unreachable: Option<bool>,
    /// A list or watch is answered as so many writes ago.
    stale: Option<u64>,
    /// A watch delivers nothing while the fault lasts.
    hold: Option<bool>,
    /// A watch delivers once in this time.
    batch: Option<HumanDuration>,
    /// A watch has no bookmarks.
    withhold_bookmarks: Option<bool>,
    /// A watch that resumes delivers so many events again.
    repeat: Option<u32>,
    /// The connection breaks off in the place of an event.
    #[serde(rename = "break")]
    breaks: Option<bool>,
    /// The watch ends with 410 Expired in the place of an event.
    expire: Option<bool>,
    /// Nothing is delivered for so long; then the watch ends with 410 Expired.
    miss: Option<HumanDuration>,
}

/// The treatment of unknown and duplicate fields, in Kubernetes' words.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) enum FieldValidation {
    /// They are dropped without a word.
    Ignore,
    /// They are dropped with a warning for each, which the timeline shows.
    Warn,
    /// The object is refused.
    Strict,
}

/// Which requests a fault is about.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is made of it")]
struct Requests {
    /// The verb.
    verb: Option<Verb>,
    /// `pods`, `statefulsets.apps`, `pods/status`.
    resource: Option<String>,
    /// The namespace in the path.
    namespace: Option<String>,
    /// The object's name.
    name: Option<String>,
    /// The product in the user agent, such as `statefulset-controller`.
    from: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is made of it")]
enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Proxy,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is made of it")]
enum Crash {
    Before,
    After,
}

/// An error answer.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only the schema is made of it")]
struct Refusal {
    /// The HTTP status code.
    code: u16,
    /// The `reason` of the `Status`.
    reason: Option<String>,
    /// Its `message`.
    message: Option<String>,
    /// Sent as `Retry-After`.
    retry_after_seconds: Option<u32>,
}

/// What holds at each revision.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) struct Declaration {
    /// Its name, for `violates` and in reports.
    name: String,
    /// Whether it holds, in CEL.
    expression: String,
    /// Expressions by name, for `variables.NAME`.
    variables: Option<Vec<Variable>>,
    /// What is said where it does not hold.
    message: Option<String>,
    /// CEL that makes what is said.
    message_expression: Option<String>,
}

/// An expression by name.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is made of it")]
struct Variable {
    name: String,
    expression: String,
}
