//! The input of a container's main process, to which clients attach.

use bytes::Bytes;
use k8s_openapi::api::core::v1::Container as Spec;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::streams::Input;
use super::terminal::Terminal;

/// The clients' side of a main process's input.
#[derive(Debug)]
pub(crate) struct Stdin {
    sender: Mutex<Option<mpsc::Sender<Bytes>>>,
    /// Whether the container has `stdin`; clients of a container with only `tty` can't write.
    is_open: bool,
    /// `stdinOnce`: the input ends with the first client.
    is_once: bool,
}

impl Stdin {
    /// Returns the clients' side and the process's side of the input of the container `spec`.
    ///
    /// A container without `stdin` and `tty` has no clients' side.
    pub(crate) fn of(spec: &Spec) -> (Option<Box<Self>>, Typing) {
        let is_open = spec.stdin == Some(true);
        let (sender, typing) = match spec.tty == Some(true) {
            true => {
                let (sender, input, terminal) = Terminal::open();
                (sender, Typing::at(input, terminal))
            }
            false if is_open => {
                let (sender, input) = Input::live();
                (sender, Typing::of(input))
            }
            false => return (None, Typing::of(Input::empty())),
        };
        let stdin = Self {
            sender: Mutex::new(Some(sender)),
            is_open,
            is_once: spec.stdin_once == Some(true),
        };
        (Some(Box::new(stdin)), typing)
    }

    /// Returns the sender for a client's input; `None` if the input is closed or already taken.
    pub(crate) fn attach(&self) -> Option<mpsc::Sender<Bytes>> {
        let mut sender = self.sender.lock();
        match (self.is_open, self.is_once) {
            (false, _) => None,
            (true, true) => sender.take(),
            (true, false) => sender.clone(),
        }
    }
}

/// The input of a main process, and its terminal if the container has `tty`.
#[derive(Debug)]
pub(crate) struct Typing {
    pub(super) input: Input,
    pub(super) terminal: Option<Terminal>,
}

impl Typing {
    pub(super) fn of(input: Input) -> Self {
        Self {
            input,
            terminal: None,
        }
    }

    fn at(input: Input, terminal: Terminal) -> Self {
        Self {
            input,
            terminal: Some(terminal),
        }
    }
}
