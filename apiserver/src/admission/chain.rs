//! The chain of plugins that a step of admission calls, and the time that they take.

use jiff::Timestamp;

use crate::admission::State;
use crate::auth::RequestAttributes;
use crate::clock::nanos_between;
use crate::metrics::admission::{Phase, Plugin, Step};
use crate::request::Operation;
use crate::status::ApiError;

/// The source of a write that is admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'c> {
    /// `None` for writes of the server itself.
    pub(crate) request: Option<RequestAttributes<'c>>,
    pub(crate) dry_run: bool,
}

/// A step of admission under way, with the time that each plugin takes.
#[derive(Debug)]
pub(crate) struct Chain<'c> {
    state: &'c State,
    origin: Origin<'c>,
    phase: Phase,
    start: Timestamp,
    /// The time at which the last plugin answered.
    last: Timestamp,
    /// Whether a plugin has refused whose turn comes in the next step.
    refused_ahead: bool,
}

impl<'c> Chain<'c> {
    /// Begins a step; no metrics are kept of the server's own writes.
    pub(crate) fn start(
        state: &'c State,
        origin: Origin<'c>,
        (step, operation): (Step, Operation),
    ) -> Self {
        let start = match origin.request {
            Some(_) => state.clock.now(),
            None => Timestamp::UNIX_EPOCH,
        };
        Self {
            state,
            origin,
            phase: Phase { step, operation },
            start,
            last: start,
            refused_ahead: false,
        }
    }

    /// The operation of the write.
    pub(crate) fn operation(&self) -> Operation {
        self.phase.operation
    }

    /// The source of the write that is admitted.
    pub(crate) fn origin(&self) -> Origin<'c> {
        self.origin
    }

    /// Calls `plugin` if it is on, and passes its outcome on.
    ///
    /// # Errors
    /// The refusal of the plugin.
    pub(crate) fn run(
        &mut self,
        plugin: Plugin,
        call: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self.state.plugins.has(plugin) {
            true => self.asked(plugin, call()),
            false => Ok(()),
        }
    }

    /// Like [`Self::run`], for a plugin that upstream runs in the validating step.
    ///
    /// # Errors
    /// The refusal of the plugin.
    pub(crate) fn run_ahead(
        &mut self,
        plugin: Plugin,
        call: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let step = std::mem::replace(&mut self.phase.step, Step::Validate);
        let outcome = self.run(plugin, call);
        self.phase.step = step;
        self.refused_ahead = outcome.is_err();
        outcome
    }

    /// Lets `plugin`, which refuses nothing, change the object if it is on.
    pub(crate) fn change(&mut self, plugin: Plugin, call: impl FnOnce()) {
        if self.state.plugins.has(plugin) {
            call();
            let _ = self.asked(plugin, Ok(()));
        }
    }

    /// Notes that `plugin` has returned `outcome`, and passes the outcome on.
    ///
    /// # Errors
    /// The error in `outcome`.
    pub(crate) fn asked<T>(
        &mut self,
        plugin: Plugin,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let Some(state) = self.counted() else {
            return outcome;
        };
        let now = state.clock.now();
        let nanos = nanos_between(self.last, now);
        self.last = now;
        let counts = state.metrics.admission();
        counts.plugin(plugin, self.phase, outcome.is_err(), nanos);
        outcome
    }

    /// Notes that the built-in plugins run again.
    pub(crate) fn again(&mut self) {
        if let Some(state) = self.counted() {
            state.metrics.admission().again(self.phase.operation);
        }
    }

    /// The state that counts the step; `None` for writes of the server itself.
    fn counted(&self) -> Option<&'c State> {
        self.origin.request.map(|_| self.state)
    }

    /// Ends the step, and passes its outcome on.
    ///
    /// # Errors
    /// The error in `outcome`.
    pub(crate) fn end<T>(self, outcome: Result<T, ApiError>) -> Result<T, ApiError> {
        let Some(state) = self.counted() else {
            return outcome;
        };
        let now = state.clock.now();
        let nanos = nanos_between(self.start, now);
        let counts = state.metrics.admission();
        let Phase { operation, .. } = self.phase;
        let is_refused = outcome.is_err() && !self.refused_ahead;
        counts.step(self.phase, is_refused, (now, nanos));
        if self.refused_ahead {
            let step = Step::Validate;
            counts.step(Phase { step, operation }, true, (now, 0));
        }
        outcome
    }
}
