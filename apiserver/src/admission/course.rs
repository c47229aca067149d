//! The time that the plugins of a step of admission take.

use jiff::Timestamp;

use crate::admission::State;
use crate::clock::nanos_between;
use crate::metrics::admission::{Phase, Plugin, Step};
use crate::request::Operation;
use crate::status::ApiError;

/// A step of admission under way, with the time that each plugin takes.
#[derive(Debug)]
pub(crate) struct Course<'c> {
    /// `None` for writes of the server itself.
    state: Option<&'c State>,
    phase: Phase,
    start: Timestamp,
    /// The time at which the last plugin answered.
    last: Timestamp,
    /// Whether a plugin has refused whose turn comes in the next step.
    refused_ahead: bool,
}

impl<'c> Course<'c> {
    /// Begins a step of a client's write; without a `state`, no metrics are kept.
    pub(crate) fn start(state: Option<&'c State>, step: Step, operation: Operation) -> Self {
        let start = state.map_or(Timestamp::UNIX_EPOCH, |state| state.clock.now());
        Self {
            state,
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

    /// Notes that `plugin` has returned `outcome`, and passes the outcome on.
    ///
    /// # Errors
    /// The error in `outcome`.
    pub(crate) fn asked<T>(
        &mut self,
        plugin: Plugin,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let Some(state) = self.state else {
            return outcome;
        };
        let now = state.clock.now();
        let nanos = nanos_between(self.last, now);
        self.last = now;
        let counts = state.metrics.admission();
        counts.plugin(plugin, self.phase, outcome.is_err(), nanos);
        outcome
    }

    /// Like [`Self::asked`], for a plugin that upstream runs in the validating step.
    ///
    /// # Errors
    /// The error in `outcome`.
    pub(crate) fn asked_ahead<T>(
        &mut self,
        plugin: Plugin,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let step = std::mem::replace(&mut self.phase.step, Step::Validate);
        let outcome = self.asked(plugin, outcome);
        self.phase.step = step;
        self.refused_ahead = outcome.is_err();
        outcome
    }

    /// Notes that `plugin` has passed the write.
    pub(crate) fn passed(&mut self, plugin: Plugin) {
        let _ = self.asked(plugin, Ok(()));
    }

    /// Notes that the built-in plugins run again.
    pub(crate) fn again(&mut self) {
        if let Some(state) = self.state {
            state.metrics.admission().again(self.phase.operation);
        }
    }

    /// Ends the step, and passes its outcome on.
    ///
    /// # Errors
    /// The error in `outcome`.
    pub(crate) fn end<T>(self, outcome: Result<T, ApiError>) -> Result<T, ApiError> {
        let Some(state) = self.state else {
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
