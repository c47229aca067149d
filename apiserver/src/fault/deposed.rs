//! The holders of leases who have lost them and do not know it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::json::Value;

/// Namespace and name of a lease, and its holder.
pub(crate) type Holder = (String, String, String);

/// The holders who have lost leases.
#[derive(Debug, Default)]
pub(super) struct Deposed(Mutex<BTreeMap<Holder, Lost>>);

/// A lease that its holder has lost.
#[derive(Debug)]
struct Lost {
    /// The time up to which the holder does not learn of it.
    until: Timestamp,
    /// The lease as the holder takes it to be.
    lease: Value,
}

impl Deposed {
    pub(super) fn insert(&self, holder: Holder, lease: Value, until: Timestamp) {
        self.0.lock().insert(holder, Lost { until, lease });
    }

    /// Whether the lease has a holder who does not know at `now` that it is lost.
    pub(super) fn have_lost(&self, lease: (&str, &str), now: Timestamp) -> bool {
        let holders = self.0.lock();
        let mut lost = holders.iter().filter(|(_, lost)| lost.until > now);
        lost.any(|((namespace, name, _), _)| (namespace.as_str(), name.as_str()) == lease)
    }

    /// Calls `renewed` with each holder of the lease who does not know at `now` that it is lost, and with the lease as that
    /// holder takes it to be. The first lease that `renewed` returns is what the holder takes it to be from now on.
    ///
    /// # Errors
    /// The error of `renewed`.
    pub(super) fn renew<E>(
        &self,
        (namespace, name): (&str, &str),
        now: Timestamp,
        renewed: impl Fn(&str, &Value) -> Result<Option<Value>, E>,
    ) -> Result<Option<Value>, E> {
        for ((of, lease, holder), lost) in self.0.lock().iter_mut() {
            if (of.as_str(), lease.as_str()) != (namespace, name) || lost.until <= now {
                continue;
            }
            if let Some(lease) = renewed(holder, &lost.lease)? {
                lost.lease = lease.clone();
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }
}
