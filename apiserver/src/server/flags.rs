//! Settings of a server that flags of kube-apiserver have, with upstream's errors.

mod feature_gates;
mod runtime_config;

pub use feature_gates::{FeatureGateError, FeatureGates};
pub use runtime_config::RuntimeConfig;
