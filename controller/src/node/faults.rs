//! Nodes that fail: which of them run, and which the API server hears of.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::identity;

/// How a node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// It runs and reaches the API server.
    #[default]
    Up,
    /// It runs on, but hears and says nothing.
    Disconnected,
    /// It is switched off, and its containers with it.
    Down,
}

/// Makes nodes fail and come back; clones share one state.
#[derive(Clone, Debug)]
pub struct Faults {
    links: Arc<Mutex<BTreeMap<usize, Link>>>,
    changed: Arc<watch::Sender<()>>,
}

/// There is no simulated node of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no simulated node is called {name:?}")]
pub struct UnknownNode {
    /// The name asked for.
    pub name: String,
}

impl Faults {
    pub(crate) fn of(nodes: usize) -> Self {
        let links = (1..=nodes).map(|index| (index, Link::Up)).collect();
        Self {
            links: Arc::new(Mutex::new(links)),
            changed: Arc::new(watch::Sender::new(())),
        }
    }

    /// Switches the node off: its heartbeats and its containers end.
    ///
    /// # Errors
    /// [`UnknownNode`]
    pub fn power_off(&self, name: &str) -> Result<(), UnknownNode> {
        self.set(name, Link::Down)
    }

    /// Cuts the node off from the API server: its heartbeats end, its containers run on.
    ///
    /// # Errors
    /// [`UnknownNode`]
    pub fn disconnect(&self, name: &str) -> Result<(), UnknownNode> {
        self.set(name, Link::Disconnected)
    }

    /// Brings the node back, whatever was the matter with it.
    ///
    /// # Errors
    /// [`UnknownNode`]
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

    /// Told of each change from now on.
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
