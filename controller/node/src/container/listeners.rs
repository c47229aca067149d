//! The ports on which programs of a container listen.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// The buffer of a connection in each direction.
const CONNECTION_BYTES: usize = 64 * 1024;
/// The backlog: connections that a program has not accepted yet.
const WAITING_MAX: usize = 16;

/// The ports of a container on which programs listen or have listened; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<BTreeMap<u16, Option<mpsc::Sender<DuplexStream>>>>>);

/// The result of connecting to a port.
#[derive(Debug)]
pub(crate) enum Found {
    /// No program has ever listened there.
    Nothing,
    /// A program has listened there but does not accept a connection now.
    Refusal,
    /// The client's side of the connection.
    Connection(DuplexStream),
}

/// A port on which a program listens.
pub(super) struct Listener {
    listeners: Listeners,
    port: u16,
    waiting: mpsc::Receiver<DuplexStream>,
}

impl Listeners {
    /// Listens on a port. Returns `None` if another program listens there.
    pub(super) fn listen(&self, port: u16) -> Option<Listener> {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        let mut ports = self.0.lock();
        let slot = ports.entry(port).or_default();
        if slot.is_some() {
            return None;
        }
        *slot = Some(sender);
        Some(Listener {
            listeners: self.clone(),
            port,
            waiting,
        })
    }

    /// Connects to a port.
    pub(crate) fn connect(&self, port: u16) -> Found {
        let ports = self.0.lock();
        match ports.get(&port) {
            None => Found::Nothing,
            Some(None) => Found::Refusal,
            Some(Some(listener)) => {
                let (client, program) = tokio::io::duplex(CONNECTION_BYTES);
                match listener.try_send(program) {
                    Ok(()) => Found::Connection(client),
                    Err(_) => Found::Refusal,
                }
            }
        }
    }
}

impl Listener {
    /// Accepts the next connection. Returns the program's side of it.
    pub(super) async fn accept(&mut self) -> DuplexStream {
        let accepted = self.waiting.recv().await;
        accepted.expect("the sender stays as long as the listener")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listeners.0.lock().insert(self.port, None);
    }
}
