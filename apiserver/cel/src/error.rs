//! Errors of evaluation, as cel-go words them.

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvalError {
    /// An operation failed.
    Failed(String),
    /// The evaluation exceeded its cost limit.
    CostLimit,
}

impl EvalError {
    /// The message, as cel-go words it.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Failed(message) => message,
            Self::CostLimit => "operation cancelled: actual cost limit exceeded",
        }
    }
}

impl From<String> for EvalError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// A failed operation.
pub(super) fn failed<T>(message: impl Into<String>) -> Result<T, EvalError> {
    Err(EvalError::Failed(message.into()))
}
