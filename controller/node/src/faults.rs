//! Faults of nodes: power failures and network partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::identity;

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// The node runs and reaches the API server.
    #[default]
    Up,
    /// The node runs, but does not reach the API server.
    Disconnected,
    /// The node is switched off, including its containers.
    Down,
}

/// A handle that makes nodes fail and recover; clones share one state.
#[derive(Clone, Debug)]
pub struct Faults {
    links: Arc<Mutex<BTreeMap<usize, Link>>>,
    changed: Arc<watch::Sender<()>>,
}

/// An error for a simulated node that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no simulated node is called {name:?}")]
pub struct UnknownNode {
    /// The requested name.
    pub name: String,
}

impl Faults {
    /// The nodes `node-1` to `node-N`, all up.
    pub fn of(nodes: usize) -> Self {
        let links = (1..=nodes).map(|index| (index, Link::Up)).collect();
        Self {
            links: Arc::new(Mutex::new(links)),
            changed: Arc::new(watch::Sender::new(())),
        }
    }

    /// Switches the node off: its heartbeats and its containers stop.
    ///
    /// # Errors
    /// [`UnknownNode`] if the node does not exist.
    pub fn power_off(&self, name: &str) -> Result<(), UnknownNode> {
        self.set(name, Link::Down)
    }

    /// Disconnects the node from the API server: its heartbeats stop, its containers keep running.
    ///
    /// # Errors
    /// [`UnknownNode`] if the node does not exist.
    pub fn disconnect(&self, name: &str) -> Result<(), UnknownNode> {
        self.set(name, Link::Disconnected)
    }

    /// Restores the node after any fault.
    ///
    /// # Errors
    /// [`UnknownNode`] if the node does not exist.
    pub fn restore(&self, name: &str) -> Result<(), UnknownNode> {
        self.set(name, Link::Up)
    }

    fn set(&self, name: &str, wanted: Link) -> Result<(), UnknownNode> {
        let mut links = self.links.lock();
        let found = links
            .iter_mut()
            .find(|(index, _)| identity::node_name(**index) == name);
        let Some((_, link)) = found else {
            return Err(UnknownNode {
                name: name.to_owned(),
            });
        };
        *link = wanted;
        drop(links);
        self.changed.send_replace(());
        Ok(())
    }

    pub(super) fn all(&self) -> BTreeMap<usize, Link> {
        self.links.lock().clone()
    }

    /// Returns a receiver that is notified of every later change.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_are_simulated_fail() {
        let faults = Faults::of(2);
        faults.disconnect("node-2").unwrap();
        let links = BTreeMap::from([(1, Link::Up), (2, Link::Disconnected)]);
        assert_eq!(faults.all(), links);
        let error = faults.power_off("node-3").unwrap_err();
        assert_eq!(error.to_string(), "no simulated node is called \"node-3\"");
    }
}
