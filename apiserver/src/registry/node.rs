//! RuntimeClasses.

pub(crate) mod runtime_class;
