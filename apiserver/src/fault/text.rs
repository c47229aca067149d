//! Faults as scenarios and the control endpoint write them.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};

use super::{Crash, Effect, Fault, Refusal, Requests, WebhookFailure};
use crate::suggestion;

/// The fields of a fault: its effect is one of those from `refuse` on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Fields {
    name: String,
    #[serde(default)]
    on: Requests,
    #[serde(default)]
    after: u32,
    times: Option<u32>,
    #[serde(rename = "for", default, deserialize_with = "duration")]
    lasts: Option<Duration>,
    refuse: Option<Refusal>,
    #[serde(default)]
    lose_answer: bool,
    #[serde(default, deserialize_with = "duration")]
    delay: Option<Duration>,
    crash: Option<Crash>,
    #[serde(default)]
    restart: bool,
    #[serde(default)]
    relist: bool,
    webhooks: Option<WebhookFailure>,
    #[serde(default, deserialize_with = "duration")]
    second_leader: Option<Duration>,
    #[serde(default, deserialize_with = "signed")]
    jump: Option<SignedDuration>,
    #[serde(default)]
    unreachable: bool,
    stale: Option<u64>,
    #[serde(default)]
    hold: bool,
    #[serde(default, deserialize_with = "duration")]
    batch: Option<Duration>,
    #[serde(default)]
    withhold_bookmarks: bool,
    repeat: Option<u32>,
    #[serde(default, rename = "break")]
    breaks: bool,
    #[serde(default)]
    expire: bool,
    #[serde(default, deserialize_with = "duration")]
    miss: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    late: Option<Duration>,
}

/// No fault needs more, and timers reach as far.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `90s`, `1m30s`, `500ms`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let read = text.parse::<SignedDuration>().ok();
    let read = read.and_then(|duration| Duration::try_from(duration).ok());
    let read = read.filter(|duration| *duration <= LONGEST);
    read.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is not a duration, such as 90s or 1m30s"))
    })
}

/// `90s`, `-10m`.
fn signed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SignedDuration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let read = text.parse::<SignedDuration>().ok();
    let read = read.filter(|duration| duration.unsigned_abs() <= LONGEST);
    read.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is not a duration, such as 90s or -10m"))
    })
}

/// The verbs of requests that faults can be about.
pub(crate) const VERBS: [&str; 9] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "proxy",
];

impl TryFrom<Fields> for Fault {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        if let Some(verb) = &fields.on.verb
            && !VERBS.contains(&verb.as_str())
        {
            return Err(suggestion::unknown("there is no verb", verb, VERBS));
        }
        let mut effects = [
            fields.refuse.map(Effect::Refuse),
            fields.lose_answer.then_some(Effect::DropResponse),
            fields.delay.map(Effect::Delay),
            fields.crash.map(Effect::Crash),
            fields.restart.then_some(Effect::Restart),
            fields.relist.then_some(Effect::Relist),
            fields.webhooks.map(Effect::Webhooks),
            fields.second_leader.map(Effect::SecondLeader),
            fields.jump.map(Effect::Jump),
            fields.unreachable.then_some(Effect::Unreachable),
            fields.stale.map(Effect::Stale),
            fields.hold.then_some(Effect::Hold),
            fields.batch.map(Effect::Batch),
            fields
                .withhold_bookmarks
                .then_some(Effect::WithholdBookmarks),
            fields.repeat.map(Effect::Repeat),
            fields.breaks.then_some(Effect::Break),
            fields.expire.then_some(Effect::Expire),
            fields.miss.map(Effect::MissEvents),
            fields.late.map(Effect::Late),
        ]
        .into_iter()
        .flatten();
        let (Some(effect), None) = (effects.next(), effects.next()) else {
            return Err(
                "a fault needs one of refuse, loseAnswer, delay, crash, restart, relist, webhooks, secondLeader, jump, \
                 unreachable, stale, hold, batch, withholdBookmarks, repeat, break, expire, miss and late"
                    .to_owned(),
            );
        };
        Ok(Self {
            name: fields.name,
            requests: fields.on,
            after: fields.after,
            times: fields.times,
            lasts: fields.lasts,
            effect,
        })
    }
}
