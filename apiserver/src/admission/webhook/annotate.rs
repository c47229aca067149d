//! The annotations of webhooks in the audit event of a write.

use super::answer::{Answer, Failure};
use super::configuration::Webhook;
use super::{Admission, Phase};
use crate::audit::Level;
use crate::json::{Value, html_escape, json};

/// The place of a call in the chain of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) round: u8,
    /// The index of the webhook: among all for a mutating one, among those called for a validating one.
    pub(super) at: usize,
}

impl Place {
    fn key(self, prefix: &str) -> String {
        let Self { round, at } = self;
        format!("{prefix}round_{round}_index_{at}")
    }
}

impl Phase {
    /// The prefix of annotations about webhooks of this phase.
    fn prefix(self) -> &'static str {
        match self {
            Self::Mutating => "mutation.webhook.admission.k8s.io/",
            Self::Validating => "validating.webhook.admission.k8s.io/",
        }
    }
}

impl Admission<'_> {
    fn annotate(&self, level: Level, key: &str, value: &str) {
        if let Some(record) = self.request_attributes.audit {
            record.annotate_admission(level, key, html_escape(value));
        }
    }

    /// Notes the annotations that a webhook has made itself.
    pub(super) fn annotate_answer(&self, webhook: &Webhook, answer: &Answer) {
        for (key, value) in &answer.annotations {
            if let Some(record) = self.request_attributes.audit {
                let key = format!("{}/{key}", webhook.name);
                record.annotate_admission(Level::Metadata, &key, value);
            }
        }
    }

    /// Notes that a mutating webhook was called, and whether it changed the object.
    pub(super) fn annotate_mutation(
        &self,
        webhook: &Webhook,
        place: Place,
        patched: &Result<bool, Failure>,
    ) {
        if self.request_attributes.audit.is_none() {
            return;
        }
        let mutated = matches!(patched, Ok(true));
        let value = format!("{{{},\"mutated\":{mutated}}}", names(webhook));
        let key = place.key(Phase::Mutating.prefix());
        self.annotate(Level::Metadata, &key, &value);
        self.annotate_failed_open(webhook, Phase::Mutating, place, patched);
    }

    /// Notes the patch of a mutating webhook, where objects are recorded, too.
    pub(super) fn annotate_patch(
        &self,
        webhook: &Webhook,
        place: Place,
        answer: &Answer,
        patched: &Result<bool, Failure>,
    ) {
        if self.request_attributes.audit.is_none() || patched.is_err() {
            return;
        }
        // Operations are maps in Go, so their fields are sorted, as they are here.
        let patch: Option<Value> = serde_json::from_slice(answer.patch()).ok();
        if let Some(patch) = patch.filter(|patch| *patch != json!([])) {
            let names = names(webhook);
            let value = format!("{{{names},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}");
            let key = place.key("patch.webhook.admission.k8s.io/");
            self.annotate(Level::Request, &key, &value);
        }
    }

    /// Notes that the write goes on although the call of a webhook has failed.
    pub(super) fn annotate_failed_open<T>(
        &self,
        webhook: &Webhook,
        phase: Phase,
        place: Place,
        asked: &Result<T, Failure>,
    ) {
        if webhook.ignores_failure && matches!(asked, Err(Failure::Call { .. })) {
            let key = place.key(&format!("failed-open.{}", phase.prefix()));
            self.annotate(Level::Metadata, &key, &webhook.name);
        }
    }
}

/// The names of a webhook and its configuration, as fields of JSON.
fn names(webhook: &Webhook) -> String {
    let (configuration, name) = (json!(webhook.configuration), json!(webhook.name));
    format!("\"configuration\":{configuration},\"webhook\":{name}")
}
