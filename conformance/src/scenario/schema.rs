//! The format of scenarios as a JSON Schema, by which editors complete and check.

use kubeproof_machinery::json::Value;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::{HumanDuration, Scenario};

/// The JSON Schema (draft 7, which editors' YAML servers know) of a scenario file.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<Scenario>().to_value();
    schema["$comment"] =
        "# yaml-language-server: $schema=FILE, as the first line of a scenario".into();
    schema.into()
}

/// A fault, as the server reads it: exactly one effect, which is any field but `name`, `on`, `after`, `times` and `for`.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) struct Fault {
    /// The name by which the fault is lifted.
    name: String,
    /// The requests that the fault is about; all when absent.
    on: Option<Requests>,
    /// The number of matching requests that pass first.
    after: Option<u32>,
    /// The number of matching requests that the fault meets; all when absent.
    times: Option<u32>,
    /// The duration of the fault; until it is lifted when absent.
    #[serde(rename = "for")]
    lasts: Option<HumanDuration>,
    /// The request is not carried out; this is the answer.
    refuse: Option<Refusal>,
    /// The request is carried out, and the connection breaks before the answer is there.
    lose_answer: Option<bool>,
    /// The request is carried out after this delay.
    delay: Option<HumanDuration>,
    /// The client dies before or after the request.
    crash: Option<Crash>,
    /// The server restarts instead: watches and the connection break off, and past events are forgotten.
    restart: Option<bool>,
    /// All watches end with 410 Expired before the request, so that everything is listed again.
    relist: Option<bool>,
    /// The webhooks of admission and conversion that the request calls fail: they refuse the connection, or do not respond in time.
    webhooks: Option<WebhookFailure>,
    /// All leases but those of nodes are released before the request, and for this time their holders are answered as if they
    /// had renewed them.
    second_leader: Option<HumanDuration>,
    /// The server's clock is set forward by this time before the request, or back by a negative one.
    jump: Option<HumanDuration>,
    /// The server cannot be reached.
    unreachable: Option<bool>,
    /// A list or watch is answered with the state of this many writes ago.
    stale: Option<u64>,
    /// A watch delivers nothing while the fault lasts.
    hold: Option<bool>,
    /// A watch delivers once in this time.
    batch: Option<HumanDuration>,
    /// A watch has no bookmarks.
    withhold_bookmarks: Option<bool>,
    /// A watch that resumes delivers this many events again.
    repeat: Option<u32>,
    /// The connection breaks off instead of delivering an event.
    #[serde(rename = "break")]
    breaks: Option<bool>,
    /// The watch ends with 410 Expired instead of delivering an event.
    expire: Option<bool>,
    /// Nothing is delivered for this long; then the watch ends with 410 Expired.
    miss: Option<HumanDuration>,
    /// The event and later ones are delivered after this time.
    late: Option<HumanDuration>,
}

/// The treatment of unknown and duplicate fields, in Kubernetes' words.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) enum FieldValidation {
    /// They are dropped without a warning.
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

/// The verb of a request.
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

/// Whether the server carries the request out.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is made of it")]
enum Crash {
    Before,
    After,
}

/// The failure of a webhook: it refuses the connection, or does not respond in time.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema is made of it")]
enum WebhookFailure {
    Refuse,
    Timeout,
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
    /// The `message` of the `Status`.
    message: Option<String>,
    /// The value of the `Retry-After` header, in seconds.
    retry_after_seconds: Option<u32>,
}

/// A property, which has to hold at each revision.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) struct Declaration {
    /// The name of the property, for `violates` and in reports.
    name: String,
    /// The condition, in CEL.
    expression: String,
    /// Expressions by name, for `variables.NAME`.
    variables: Option<Vec<Variable>>,
    /// The message of a violation.
    message: Option<String>,
    /// A CEL expression for the message of a violation.
    message_expression: Option<String>,
}

/// An expression by name.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the schema is made of it")]
struct Variable {
    /// The name after `variables.`.
    name: String,
    /// The value, in CEL.
    expression: String,
}
