//! A run of a container.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container as Spec;

use super::consumer::Loads;
use crate::container::{Container, Log, Stdin};
use crate::container_spec::SharedContainer;
use crate::program::{Program, Serves};
use crate::server::Server;

/// A run of a container, over or not.
pub(crate) struct Run {
    pub(crate) container: Container,
    pub(crate) shared: SharedContainer,
    pub(crate) log: Arc<Log>,
    /// The ports on which the container listens.
    pub(crate) ports: Box<[u16]>,
    pub(crate) loads: Loads,
    /// The clients' side of the main process's input, if the container has `stdin` or `tty`.
    pub(crate) stdin: Option<Box<Stdin>>,
}

impl Run {
    /// Returns the spec of the container.
    pub(crate) fn spec(&self) -> Cow<'_, Spec> {
        self.shared.spec()
    }

    /// Returns the HTTP server of the container.
    pub(crate) fn server(&self) -> Server {
        Server::of(&self.spec())
    }

    /// Returns whether the program uses processor and memory on request.
    pub(crate) fn consumes(&self) -> bool {
        let program = Program::of(&self.spec());
        program.is_some_and(|program| program.serves == Serves::Consumer)
    }
}
