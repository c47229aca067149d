//! PriorityClasses.

pub(crate) mod priority_class;
