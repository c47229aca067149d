//! Fault plans: the faults of a run, as a text that reproduces it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use kubeproof_apiserver::EventType;
use kubeproof_apiserver::fault::{Crash, Effect, Fault, Point, Refusal, Requests, WebhookFailure};
use kubeproof_apiserver::meta::ResourceVersion;
use schemars::JsonSchema;
use serde::Deserialize;

/// A controller restarted on a stale replica sees the state of this many writes ago.
const STALE_WRITES: u64 = 10;
/// The time for which a controller reads from a stale replica after a crash.
const STALE_TIME: Duration = Duration::from_secs(60);
/// The time for which missed events are withheld.
const MISS_TIME: Duration = Duration::from_secs(30);
/// The longest time for which a fault of a plan lasts in a run in real time.
const REAL_TIME_MAX: Duration = Duration::from_secs(5);

/// The time by which events of a late watch are late.
const LATE_TIME: Duration = Duration::from_secs(180);
/// The time for which a leader does not learn that another leads.
const OVERLAP: Duration = Duration::from_secs(15);
/// The time after which a throttled client may try again.
const THROTTLE_SECONDS: u32 = 1;
/// The number of conflicts in a storm, and of writes whose webhooks are down.
const STORM_TIMES: u32 = 5;
/// The time by which the server's clock is ahead of that of a controller.
const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// A kind of fault that an exploration injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FaultKind")]
pub enum Kind {
    /// The controllers crash before the write is carried out, and restart.
    CrashBefore,
    /// The controllers crash after the write, and restart.
    CrashAfter,
    /// The controllers crash after the write, and restart on a replica that lags by ten writes for a minute.
    StaleRestart,
    /// The write is refused as a conflict.
    Conflict,
    /// The write is refused with an internal error.
    Refuse,
    /// The write is carried out and its response lost.
    #[serde(rename = "lose-answer")]
    DropResponse,
    /// The watch breaks off instead of delivering an event.
    Break,
    /// The watch expires instead of delivering an event.
    Expire,
    /// The event and later ones are withheld for 30 s; then the watch expires, so that the client lists again and sees
    /// only the final states.
    #[serde(rename = "miss")]
    MissEvents,
    /// The event and later ones of the watch are delivered three minutes late.
    Late,
    /// The write is refused with 429 and a Retry-After of one second.
    Throttle,
    /// The write and the next four of its kind are refused as conflicts.
    ConflictStorm,
    /// The server restarts instead of carrying the write out: all watches break off, and past events are forgotten.
    Restart,
    /// The server's clock is set forward by ten minutes before the write.
    ClockSkew,
    /// All watches of all clients end with 410 Expired before the write, so that everything is listed again.
    Relist,
    /// The webhooks that the request and the next four of its kind call refuse the connection.
    WebhookDown,
    /// Leases are released before the write, so that a second copy of the program begins to act, while the first one is told
    /// for 15 s that it still holds them.
    TwoLeaders,
}

impl Kind {
    /// Every kind of fault.
    pub const ALL: [Self; 17] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::StaleRestart,
        Self::Conflict,
        Self::Refuse,
        Self::DropResponse,
        Self::Break,
        Self::Expire,
        Self::MissEvents,
        Self::Late,
        Self::Throttle,
        Self::ConflictStorm,
        Self::Restart,
        Self::ClockSkew,
        Self::Relist,
        Self::WebhookDown,
        Self::TwoLeaders,
    ];

    /// The kinds of faults that are explored unless others are named: the first ones of [`Self::ALL`].
    pub const DEFAULT: &[Self] = Self::ALL.split_at(9).0;

    /// Returns the name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::StaleRestart => "stale-restart",
            Self::Conflict => "conflict",
            Self::Refuse => "refuse",
            Self::DropResponse => "lose-answer",
            Self::Break => "break",
            Self::Expire => "expire",
            Self::MissEvents => "miss",
            Self::Late => "late",
            Self::Throttle => "throttle",
            Self::ConflictStorm => "conflict-storm",
            Self::Restart => "restart",
            Self::ClockSkew => "clock-skew",
            Self::Relist => "relist",
            Self::WebhookDown => "webhook-down",
            Self::TwoLeaders => "two-leaders",
        }
    }

    /// Whether the fault meets events of watches, not requests.
    #[must_use]
    pub(crate) fn is_of_events(self) -> bool {
        matches!(
            self,
            Self::Break | Self::Expire | Self::MissEvents | Self::Late
        )
    }

    /// Whether the controllers crash and restart.
    pub(crate) fn is_crash(self) -> bool {
        matches!(
            self,
            Self::CrashBefore | Self::CrashAfter | Self::StaleRestart
        )
    }

    /// Whether the fault can meet what happens at `point`.
    #[doc(hidden)]
    #[must_use]
    pub fn fits(self, point: &Point) -> bool {
        match self {
            Self::CrashBefore | Self::CrashAfter | Self::DropResponse | Self::StaleRestart => {
                point.event.is_none() && point.is_write()
            }
            Self::Conflict | Self::ConflictStorm => {
                let conflicts = ["update", "patch", "delete"];
                point.event.is_none() && conflicts.contains(&&*point.verb)
            }
            Self::Refuse
            | Self::Throttle
            | Self::Restart
            | Self::ClockSkew
            | Self::Relist
            | Self::TwoLeaders => point.event.is_none() && point.is_write(),
            Self::WebhookDown => point.event.is_none() && point.calls_webhooks,
            Self::Break | Self::Expire | Self::Late => point.event.is_some(),
            // Nothing is missed of the last thing that happens to an object but its end.
            Self::MissEvents => matches!(point.event, Some(EventType::Added | EventType::Modified)),
        }
    }

    fn effect(self, point: &Point) -> Effect {
        let refusal = |code, reason: &str, message: String| {
            Effect::Refuse(Refusal {
                code,
                reason: reason.to_owned(),
                message,
                retry_after_seconds: None,
            })
        };
        match self {
            Self::CrashBefore => Effect::Crash(Crash::Before),
            Self::CrashAfter | Self::StaleRestart => Effect::Crash(Crash::After),
            Self::Conflict | Self::ConflictStorm => {
                let resource = point.resource.split('/').next().unwrap_or_default();
                let name = point.name.as_deref().unwrap_or_default();
                let message = format!(
                    "Operation cannot be fulfilled on {resource} {name:?}: the object has been \
                     modified; please apply your changes to the latest version and try again"
                );
                refusal(409, "Conflict", message)
            }
            Self::Refuse => {
                let message = "Internal error occurred: this fault was planned".to_owned();
                refusal(500, "InternalError", message)
            }
            Self::DropResponse => Effect::DropResponse,
            Self::Break => Effect::Break,
            Self::Expire => Effect::Expire,
            Self::MissEvents => Effect::MissEvents(MISS_TIME),
            Self::Late => Effect::Late(LATE_TIME),
            Self::Throttle => Effect::Refuse(Refusal {
                code: 429,
                reason: "TooManyRequests".to_owned(),
                message: "too many requests, please try again later".to_owned(),
                retry_after_seconds: Some(THROTTLE_SECONDS),
            }),
            Self::Restart => Effect::Restart,
            Self::ClockSkew => Effect::Jump(SKEW),
            Self::Relist => Effect::Relist,
            Self::TwoLeaders => Effect::SecondLeader(OVERLAP),
            Self::WebhookDown => Effect::Webhooks(WebhookFailure::Refuse),
        }
    }
}

impl FromStr for Kind {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| PlanError::Kind {
            found: text.to_owned(),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One fault at one point of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    kind: Kind,
    point: Point,
}

/// The faults of a run. Its text is that of its faults with `; ` between them: the kind of fault, the verb or the type
/// of the event, the resource, the object, the number among equal requests if it is not the first, and the client.
///
/// ```
/// use kubeproof::explore::{Kind, Plan};
///
/// let text = "crash-after create pods default/web-1 #2 from statefulset-controller";
/// let plan: Plan = text.parse()?;
/// assert_eq!(plan.faults()[0].kind(), Kind::CrashAfter);
/// assert_eq!(plan.to_string(), text);
/// # Ok::<(), kubeproof::explore::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<Planned>);

/// A text that is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The kind of fault does not exist.
    #[error("unknown kind of fault {found:?}; the kinds are: {}", Kind::ALL.map(Kind::as_str).join(", "))]
    Kind {
        /// The word found instead of a kind.
        found: String,
    },
    /// A fault without a request or event, or without a client.
    #[error(
        "{0:?} is not a fault at a request or event of a client, such as \
         `crash-after create pods default/web-1 from statefulset-controller`"
    )]
    Point(String),
}

impl Planned {
    /// A fault of `kind` at `point`. It never strikes if the kind does not fit the point.
    #[must_use]
    pub fn new(kind: Kind, point: Point) -> Self {
        Self { kind, point }
    }

    /// Returns the kind of the fault.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether an exploration tries it: the kind fits the point.
    pub(crate) fn is_explored(&self) -> bool {
        self.kind.fits(&self.point)
    }

    /// Returns the point at which the fault strikes.
    #[must_use]
    pub fn point(&self) -> &Point {
        &self.point
    }

    /// Returns the rule that the server is given, under `name`.
    #[must_use]
    pub fn to_fault(&self, name: &str) -> Fault {
        let fault = self.point.fault(name, self.kind.effect(&self.point));
        match self.kind {
            Kind::ConflictStorm | Kind::WebhookDown => Fault {
                times: Some(STORM_TIMES),
                ..fault
            },
            _ => fault,
        }
    }
}

impl Plan {
    /// A plan of `faults`.
    #[must_use]
    pub fn of(faults: Vec<Planned>) -> Self {
        Self(faults)
    }

    /// Returns the faults, in the order in which the plan names them.
    #[must_use]
    pub fn faults(&self) -> &[Planned] {
        &self.0
    }

    /// Returns the faults of the plan that are not among `met`, the names under which the server knows the faults
    /// that struck.
    pub(crate) fn unmet<'a>(&self, met: impl Iterator<Item = &'a str>) -> Vec<Planned> {
        let met: Vec<&str> = met.collect();
        let faults = self.to_faults().into_iter().zip(&self.0);
        let unmet = faults.filter(|(fault, _)| !met.contains(&fault.name.as_str()));
        unmet.map(|(_, planned)| planned.clone()).collect()
    }

    /// Returns the faults for the server, each named by its number.
    pub(crate) fn to_faults(&self) -> Vec<Fault> {
        let faults = self.0.iter().enumerate();
        let faults = faults.map(|(index, one)| one.to_fault(&format!("plan {}", index + 1)));
        faults.collect()
    }

    /// Returns the plan's faults as [`Self::to_faults`] does, none of which lasts longer than a run in real time can wait.
    pub(crate) fn to_brief_faults(&self) -> Vec<Fault> {
        let faults = self.to_faults().into_iter().map(|fault| Fault {
            effect: match fault.effect {
                Effect::MissEvents(time) => Effect::MissEvents(time.min(REAL_TIME_MAX)),
                Effect::Late(time) => Effect::Late(time.min(REAL_TIME_MAX)),
                Effect::SecondLeader(time) => Effect::SecondLeader(time.min(REAL_TIME_MAX)),
                effect => effect,
            },
            ..fault
        });
        faults.collect()
    }

    /// Returns the stale reads of a controller after a crash; `None` without a [`Kind::StaleRestart`].
    pub(crate) fn stale_reads(&self) -> Option<StaleReads> {
        let stale = self.0.iter().find(|one| one.kind == Kind::StaleRestart);
        stale.map(|one| StaleReads {
            from: one.point.from.clone(),
            writes: STALE_WRITES,
            lasts: STALE_TIME,
        })
    }

    /// Returns the stale reads as [`Self::stale_reads`] does, for a run in real time.
    pub(crate) fn brief_stale_reads(&self) -> Option<StaleReads> {
        self.stale_reads().map(|reads| StaleReads {
            lasts: REAL_TIME_MAX,
            ..reads
        })
    }
}

/// A controller that reads the state of `writes` writes ago after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaleReads {
    pub(crate) from: String,
    pub(crate) writes: u64,
    pub(crate) lasts: Duration,
}

impl StaleReads {
    /// The name of the fault.
    pub(crate) const NAME: &str = "stale after the crash";

    /// Returns the fault that the server is given at the crash.
    pub(crate) fn fault(&self) -> Fault {
        Fault {
            name: Self::NAME.to_owned(),
            requests: Requests {
                from: Some(self.from.clone()),
                ..Requests::default()
            },
            after: 0,
            times: None,
            lasts: Some(self.lasts),
            effect: Effect::Stale(self.writes),
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point {
            verb,
            resource,
            namespace,
            name,
            from,
            event,
            nth,
            ..
        } = &self.point;
        let verb = event.map_or(verb.as_str(), |event| event.as_str());
        write!(f, "{} {verb} {resource}", self.kind)?;
        if namespace.is_some() || name.is_some() {
            let namespace = namespace
                .as_deref()
                .map(|namespace| format!("{namespace}/"));
            let namespace = namespace.unwrap_or_default();
            write!(f, " {namespace}{}", name.as_deref().unwrap_or_default())?;
        }
        if *nth > 0 {
            write!(f, " #{}", nth + 1)?;
        }
        write!(f, " from {from}")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&faults.join("; "))
    }
}

impl FromStr for Planned {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let wrong = || PlanError::Point(text.to_owned());
        let (rest, from) = text.trim().split_once(" from ").ok_or_else(wrong)?;
        let mut words = rest.split_whitespace();
        let kind: Kind = words.next().ok_or_else(wrong)?.parse()?;
        let verb = words.next().ok_or_else(wrong)?;
        let resource = words.next().ok_or_else(wrong)?;
        let mut point = Point {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            name: None,
            from: from.trim().to_owned(),
            event: None,
            nth: 0,
            after_rv: ResourceVersion::ZERO,
            // Only a run tells.
            calls_webhooks: true,
        };
        let types = [EventType::Added, EventType::Modified, EventType::Deleted];
        if let Some(event) = types.into_iter().find(|event| event.as_str() == verb) {
            point.event = Some(event);
            "watch".clone_into(&mut point.verb);
        }
        for word in words {
            match word.strip_prefix('#') {
                Some(number) => {
                    let number: u32 = number.parse().map_err(|_| wrong())?;
                    point.nth = number.checked_sub(1).ok_or_else(wrong)?;
                }
                None => {
                    let (namespace, name) = match word.split_once('/') {
                        Some((namespace, name)) => (Some(namespace), name),
                        None => (None, word),
                    };
                    point.namespace = namespace.map(str::to_owned);
                    point.name = Some(name)
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned);
                }
            }
        }
        Ok(Self { kind, point })
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let faults = text.split(';').map(str::parse);
        faults.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_written() {
        for text in [
            "crash-after create pods default/web-1 #2 from statefulset-controller",
            "conflict update statefulsets.apps/status default/web from statefulset-controller",
            "refuse create pods default/ #3 from replicaset-controller",
            "miss MODIFIED pods web-0 from x; expire ADDED nodes node-1 from y",
        ] {
            let plan: Plan = text.parse().unwrap();
            assert_eq!(plan.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_plan_is_refused_with_what_would_be_one() {
        let error = |text: &str| text.parse::<Plan>().unwrap_err().to_string();
        assert!(error("crash create pods from x").contains("crash-before, crash-after"));
        for wrong in [
            "",
            "break",
            "break ADDED pods a",
            "break ADDED pods #0 from x",
        ] {
            assert!(error(wrong).contains("is not a fault at"), "{wrong}");
        }
    }

    #[test]
    fn a_plan_meets_its_point_once() {
        let text = "conflict update statefulsets.apps/status default/web #2 from c";
        let fault = text.parse::<Planned>().unwrap().to_fault("plan 1");
        assert_eq!((fault.after, fault.times), (1, Some(1)));
        let Effect::Refuse(refusal) = fault.effect else {
            panic!("a conflict is a refusal");
        };
        assert!(refusal.message.contains("statefulsets.apps \"web\""));
    }
}
