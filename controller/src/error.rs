//! The errors of starting controllers.

/// The reason why a set of controllers was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that no controller has.
    #[error("unknown controller {name:?} (known: {})", known.join(", "))]
    UnknownController {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
}
