//! Decides whether an object is collected, by the classes of its owners, without I/O.

use kube::api::PropagationPolicy;

/// The state of the owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerClass {
    /// The owner lives.
    Solid,
    /// The owner waits for its dependents to go first.
    Waiting,
    /// The reference names no existing owner.
    Dangling,
}

/// The dependents and finalizers of the object itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Situation {
    pub(super) has_dependents: bool,
    /// A dependent waits for dependents of its own.
    pub(super) has_waiting_dependents: bool,
    pub(super) orphan_finalizer: bool,
    pub(super) foreground_finalizer: bool,
}

/// The action on an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    /// Take away the references that are not solid.
    Strip,
    Delete {
        policy: PropagationPolicy,
        /// First stop holding up the owners: breaks circles of waiting objects.
        unblock: bool,
    },
}

/// Judges an object by the classes of its owners.
pub(super) fn judge(owners: &[OwnerClass], situation: Situation) -> Verdict {
    let has = |class| owners.contains(&class);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if has(OwnerClass::Solid) {
        return if owners.iter().all(|class| *class == OwnerClass::Solid) {
            Verdict::Keep
        } else {
            Verdict::Strip
        };
    }
    if has(OwnerClass::Waiting) && situation.has_dependents {
        return Verdict::Delete {
            policy: PropagationPolicy::Foreground,
            unblock: situation.has_waiting_dependents,
        };
    }
    let policy = if situation.orphan_finalizer {
        PropagationPolicy::Orphan
    } else if situation.foreground_finalizer {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Verdict::Delete {
        policy,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use super::OwnerClass::{Dangling, Solid, Waiting};
    use super::*;

    #[test]
    fn every_mix_of_owners() {
        let plain = Situation::default();
        let parent = Situation {
            has_dependents: true,
            ..plain
        };
        let circle = Situation {
            has_waiting_dependents: true,
            ..parent
        };
        let orphan = Situation {
            orphan_finalizer: true,
            ..plain
        };
        let delete = |policy, unblock| Verdict::Delete { policy, unblock };
        for (owners, situation, expected) in [
            (&[][..], plain, Verdict::Keep),
            (&[Solid], plain, Verdict::Keep),
            (&[Solid, Dangling], plain, Verdict::Strip),
            (&[Waiting, Solid], parent, Verdict::Strip),
            (
                &[Dangling],
                plain,
                delete(PropagationPolicy::Background, false),
            ),
            (
                &[Dangling],
                parent,
                delete(PropagationPolicy::Background, false),
            ),
            (
                &[Dangling],
                orphan,
                delete(PropagationPolicy::Orphan, false),
            ),
            (
                &[Waiting],
                plain,
                delete(PropagationPolicy::Background, false),
            ),
            (
                &[Waiting, Dangling],
                parent,
                delete(PropagationPolicy::Foreground, false),
            ),
            (
                &[Waiting],
                circle,
                delete(PropagationPolicy::Foreground, true),
            ),
        ] {
            assert_eq!(
                judge(owners, situation),
                expected,
                "{owners:?} {situation:?}"
            );
        }
    }
}
