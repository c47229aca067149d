//! YAML as Go reads and writes it.

pub(crate) mod decode;
pub(crate) mod encode;
