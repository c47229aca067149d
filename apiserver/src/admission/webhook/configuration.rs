//! A webhook in its configuration.

use crate::json::Value;
use crate::meta::object::name;

/// One entry of a configuration, defaulted and valid.
#[derive(Clone, Debug)]
pub(super) struct Webhook {
    /// The unique identifier: configuration, name and index.
    pub(super) id: String,
    pub(super) name: String,
    /// The name of the configuration.
    pub(super) configuration: String,
    pub(super) client_config: Value,
    pub(super) timeout_seconds: u64,
    /// Whether the write goes on when the call fails: the failure policy Ignore.
    pub(super) ignores_failure: bool,
    /// Whether the webhook is called again after others have changed the object.
    pub(super) reinvocable: bool,
    /// The entry itself, whose rules and selectors decide about the call.
    pub(super) entry: Value,
}

impl Webhook {
    /// The webhooks of a configuration, in order.
    pub(super) fn of(configuration: &Value) -> Vec<Self> {
        let entries = configuration["webhooks"].as_array();
        let entries = entries.into_iter().flatten().enumerate();
        entries
            .map(|(index, entry)| {
                let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
                Self {
                    id: format!("{}/{}/{index}", name(configuration), text("name")),
                    name: text("name"),
                    configuration: name(configuration).to_owned(),
                    client_config: entry["clientConfig"].clone(),
                    timeout_seconds: entry["timeoutSeconds"].as_u64().unwrap_or(10),
                    ignores_failure: entry["failurePolicy"] == "Ignore",
                    reinvocable: entry["reinvocationPolicy"] == "IfNeeded",
                    entry: entry.clone(),
                }
            })
            .collect()
    }

    /// Whether the webhook declares no side effects on a dry run.
    pub(super) fn allows_dry_run(&self) -> bool {
        let effects = self.entry["sideEffects"].as_str();
        matches!(effects, Some("None" | "NoneOnDryRun"))
    }

    /// The first version of AdmissionReview that both sides know.
    pub(super) fn review_version(&self) -> Option<&'static str> {
        let versions = self.entry["admissionReviewVersions"].as_array();
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        let known = ["v1", "v1beta1"];
        let mut versions = versions.filter_map(|own| known.into_iter().find(|known| *known == own));
        versions.next()
    }
}
