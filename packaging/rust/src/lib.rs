//! The operator, once it is written.
