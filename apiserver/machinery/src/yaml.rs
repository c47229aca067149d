//! YAML as Go reads and writes it.

pub mod decode;
pub mod encode;
