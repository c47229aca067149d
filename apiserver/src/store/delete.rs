//! Deletion: preconditions, grace, finalizers, and which of them lets the object go now.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Store, WriteResult, check_name};
use crate::clock::{go_seconds, later, rfc3339};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::object::{finalizers, is_terminating, meta, meta_mut, set_finalizers};
use crate::metrics::admission::Step;
use crate::request::Operation;
use crate::request::options::{DeleteOptions, Propagation};
use crate::status::ApiError;
use crate::storage::{Change, StoredObject, Transaction};
use crate::{admission, cancellation};

/// The garbage collector's finalizer for dependents that are to live on.
const ORPHAN: &str = "orphan";
/// The garbage collector's finalizer for an owner that waits for its dependents.
const FOREGROUND: &str = "foregroundDeletion";

/// The outcome of a DELETE.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object is removed; this was its last state.
    Gone(WriteResult),
    /// The object is terminating and still stored.
    Terminating(WriteResult),
}

/// The effect of a DELETE on an object, decided from the object's state alone.
enum Decision {
    Nothing,
    Mark(Value),
    Remove(Value),
    /// The object is removed as it is.
    RemoveStored,
}

impl Store<'_> {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` when the preconditions do not hold.
    pub(crate) async fn delete(
        &self,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        check_name(name)?;
        let key = self.key(namespace, name);
        let table = self.table();
        loop {
            cancellation::check()?;
            let current = table.get(&key).ok_or_else(|| self.not_found(name))?;
            // The value is held: an object that is kept as text would be decoded for each reader.
            let value = current.value();
            // An object that cannot be converted to the request's version cannot be deleted in it.
            let shown = match self.request_attributes {
                Some(_) => self.converted(Arc::clone(&current)).await?,
                None => Arc::clone(&current),
            };
            self.check_delete_preconditions(&value, name, options)?;
            let mut chain = self.chain(Step::Admit, Operation::Delete);
            let admitted = admission::admit_delete(self.resource, &value, &mut chain);
            if let Err(refusal) = admitted {
                return chain.end(Err(refusal));
            }
            let (next, gone) = match self.decide(&value, options) {
                Decision::Nothing => {
                    return Ok(Deleted::Terminating(WriteResult::Stored(current)));
                }
                Decision::Mark(next) => (Some(next), false),
                Decision::Remove(last) => (Some(last).filter(|last| *last != *value), true),
                Decision::RemoveStored => (None, true),
            };
            // A deletion whose grace period already runs was admitted before.
            if pending_grace(&value) == 0 {
                self.admit_deletion(&shown, chain).await?;
            }
            if self.dry_run || options.dry_run {
                let unstored = WriteResult::Unstored(next.map_or(value, Arc::new));
                return Ok(if gone {
                    Deleted::Gone(unstored)
                } else {
                    Deleted::Terminating(unstored)
                });
            }
            let commit = |expected: &Arc<StoredObject>, change: Change| {
                self.commit(
                    &table,
                    Transaction {
                        key: &key,
                        expected: Some(expected),
                        change,
                        time: self.state.clock.now(),
                        user_agent: self.user_agent,
                    },
                )
            };
            let Some(next) = next else {
                let Ok(removed) = commit(&current, table.removal(&current)) else {
                    continue;
                };
                return Ok(Deleted::Gone(WriteResult::Stored(removed)));
            };
            // An object with a grace period is first marked as terminating, then removed.
            let Ok(marked) = commit(&current, Change::Put(next)) else {
                continue;
            };
            if !gone {
                return Ok(Deleted::Terminating(WriteResult::Stored(marked)));
            }
            let uid = meta(&value, "uid").to_owned();
            let mut last = Arc::clone(&marked);
            loop {
                if let Ok(removed) = commit(&last, table.removal(&last)) {
                    return Ok(Deleted::Gone(WriteResult::Stored(removed)));
                }
                // Another writer has changed or removed the marked object. A removed object is the
                // requested result (kubernetes#19403).
                match table.get(&key) {
                    Some(now) if meta(&now.value(), "uid") == uid => last = now,
                    _ => return Ok(Deleted::Gone(WriteResult::Stored(marked))),
                }
                if options.preconditions.rv.is_some() {
                    break;
                }
            }
        }
    }

    /// Whether `current` is the object that the options mean.
    ///
    /// # Errors
    /// `Conflict`.
    pub(crate) fn check_delete_preconditions(
        &self,
        current: &Value,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let differs = |wanted: &Option<String>, field: &str| {
            let found = meta(current, field).to_owned();
            wanted
                .clone()
                .filter(|wanted| *wanted != found)
                .map(|wanted| (wanted, found))
        };
        let message = if let Some((wanted, found)) = differs(&options.preconditions.uid, "uid") {
            format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            )
        } else if let Some((wanted, found)) = differs(&options.preconditions.rv, "resourceVersion")
        {
            format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            )
        } else {
            return Ok(());
        };
        let begins =
            !is_terminating(current) && self.strategy.begin_deletion(current, "").is_some();
        if self.strategy.deletes_in_two_steps() || begins {
            let uid = options.preconditions.clone();
            let message = uid.violation(current).unwrap_or(message);
            return Err(self.conflict(name, message));
        }
        // Upstream names the kind here, not the resource.
        let kind = self.resource.gvk().group_kind();
        let resource = GroupResource {
            group: kind.group,
            resource: kind.kind,
        };
        Err(ApiError::Conflict {
            resource,
            name: name.to_owned(),
            message,
        })
    }

    fn decide(&self, current: &Value, options: &DeleteOptions) -> Decision {
        let now = self.state.clock.now();
        if !is_terminating(current)
            && let Some(next) = self.strategy.begin_deletion(current, &rfc3339(now))
        {
            return Decision::Mark(next);
        }
        let held = self.strategy.is_held(current);
        let wanted = self.finalizers_for(current, options);
        if is_terminating(current) {
            return if held {
                Decision::Nothing
            } else if pending_grace(current) > 0 {
                shorten(current, options, wanted, now)
            } else if wanted.is_empty() {
                Decision::RemoveStored
            } else if finalizers(current).eq(wanted.iter().map(String::as_str)) {
                Decision::Nothing
            } else {
                let mut next = current.clone();
                set_finalizers(&mut next, wanted);
                Decision::Mark(next)
            };
        }
        let grace = self.strategy.grace_period_seconds(current, options);
        // A further DELETE removes what the first only marks.
        let marks_only = self.strategy.deletes_in_two_steps();
        let goes_now = wanted.is_empty() && grace.unwrap_or(0) == 0 && !marks_only;
        if goes_now && grace.is_none() {
            return Decision::RemoveStored;
        }
        let mut next = current.clone();
        set_finalizers(&mut next, wanted);
        mark(&mut next, now, grace.unwrap_or(0));
        self.strategy.prepare_for_termination(&mut next);
        if let Some(generation) = current["metadata"]["generation"]
            .as_i64()
            .filter(|g| *g > 0)
        {
            meta_mut(&mut next).insert("generation", (generation + 1).into());
        }
        if goes_now {
            Decision::Remove(next)
        } else {
            Decision::Mark(next)
        }
    }

    /// The finalizers after the collector's were added or dropped as the options ask.
    fn finalizers_for(&self, current: &Value, options: &DeleteOptions) -> Vec<String> {
        let has = |finalizer: &str| finalizers(current).any(|own| own == finalizer);
        // Only namespaces read the old flag as origin to wait for the dependents.
        let waits = self.strategy.deletes_in_two_steps() && !is_terminating(current);
        let stated = match options.orphan_dependents {
            Some(false) if waits => Some(Propagation::Foreground),
            _ => options.propagation,
        };
        let policy = stated.unwrap_or_else(|| {
            if has(ORPHAN) {
                Propagation::Orphan
            } else if has(FOREGROUND) {
                Propagation::Foreground
            } else {
                self.strategy.default_propagation()
            }
        });
        let collector = match policy {
            _ if !self.strategy.is_garbage_collected() => None,
            Propagation::Orphan => Some(ORPHAN),
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Background => None,
        };
        let mut result: Vec<String> = finalizers(current)
            .filter(|own| !matches!(*own, ORPHAN | FOREGROUND) || Some(*own) == collector)
            .map(str::to_owned)
            .collect();
        if let Some(collector) = collector
            && !has(collector)
        {
            result.push(collector.to_owned());
        }
        result
    }
}

fn pending_grace(object: &Value) -> i64 {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    grace.unwrap_or(0)
}

/// A further DELETE while the grace period runs: it may only be shortened.
fn shorten(
    current: &Value,
    options: &DeleteOptions,
    finalizers: Vec<String>,
    now: Timestamp,
) -> Decision {
    let had = pending_grace(current);
    let asked = options.grace_period_seconds;
    let grace = asked.map(|grace| if grace < 0 { 1 } else { grace });
    let Some(grace) = grace.filter(|grace| *grace < had) else {
        return Decision::Nothing;
    };
    let held = !finalizers.is_empty();
    let mut next = current.clone();
    set_finalizers(&mut next, finalizers);
    if grace == 0 {
        mark(&mut next, now, 0);
        return if held {
            Decision::Mark(next)
        } else {
            Decision::Remove(next)
        };
    }
    let due: Timestamp = meta(current, "deletionTimestamp").parse().unwrap_or(now);
    let asked = later(due, -go_seconds(had));
    let shortened = later(asked, go_seconds(grace));
    // A deadline in the past becomes now, and the grace the least that is not zero.
    let (due, grace) = if shortened < now {
        (now, 1)
    } else {
        (shortened, grace)
    };
    let meta = meta_mut(&mut next);
    meta.insert("deletionTimestamp", rfc3339(due).into());
    meta.insert("deletionGracePeriodSeconds", grace.into());
    Decision::Mark(next)
}

fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let due = later(now, go_seconds(grace));
    let meta = meta_mut(object);
    meta.insert("deletionTimestamp", rfc3339(due).into());
    meta.insert("deletionGracePeriodSeconds", grace.into());
}
