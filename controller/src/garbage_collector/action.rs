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
pub(super) enum Action {
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
pub(super) fn reconcile(owners: &[OwnerClass], situation: Situation) -> Action {
    let has = |class| owners.contains(&class);
    if owners.is_empty() {
        return Action::Keep;
    }
    if has(OwnerClass::Solid) {
        return if owners.iter().all(|class| *class == OwnerClass::Solid) {
            Action::Keep
        } else {
            Action::Strip
        };
    }
    if has(OwnerClass::Waiting) && situation.has_dependents {
        return Action::Delete {
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
    Action::Delete {
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
        let delete = |policy, unblock| Action::Delete { policy, unblock };
        for (owners, situation, expected) in [
            (&[][..], plain, Action::Keep),
            (&[Solid], plain, Action::Keep),
            (&[Solid, Dangling], plain, Action::Strip),
            (&[Waiting, Solid], parent, Action::Strip),
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
                reconcile(owners, situation),
                expected,
                "{owners:?} {situation:?}"
            );
        }
    }
}
