//! The events in a testbed, as a log.

use kubeproof_apiserver::meta::ResourceVersion;

use super::Testbed;
use crate::log::{self, Happened};

impl Testbed {
    /// Returns the log so far: a JSON object a line, first the seeds, then each write, fault and violation in order.
    /// Requests are in it if [`TestbedBuilder::notes_requests`](super::TestbedBuilder::notes_requests) was called. The same test
    /// writes the same log if its controllers are deterministic. `kubeproof serve --from-log` opens it.
    #[must_use]
    pub fn log(&self) -> String {
        let (journal, violations) = (self.journal(), self.violations_since(ResourceVersion::ZERO));
        let (exchanges, hits) = (self.exchanges(), self.fault_hits());
        let happened = Happened {
            journal: &journal,
            steps: &[],
            exchanges: &exchanges,
            hits: &hits,
            violations: &violations,
        };
        log::write(&self.cluster().recipe, happened, None)
    }
}
