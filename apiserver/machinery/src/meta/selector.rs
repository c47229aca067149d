//! Label selectors and field selectors: parsing, matching, printing.

mod field;
mod label;
mod label_parser;
mod requirement;

use crate::status::ApiError;

pub use field::{FieldSelector, FieldTerm};
pub use label::LabelSelector;
pub use requirement::{Operator, Requirement};

/// Why a selector cannot be understood, as upstream words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);

impl From<SelectorError> for ApiError {
    fn from(error: SelectorError) -> Self {
        Self::BadRequest(error.0)
    }
}
