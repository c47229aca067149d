//! The API server's CEL for the selectors of devices, which the simulated scheduler evaluates.

use std::sync::Arc;

use kubeproof_apiserver::device_selection::Selector;
use kubeproof_controller::DeviceSelector;

/// Compiles a CEL expression about the variable `device`.
///
/// # Errors
/// The fault of the expression, in upstream's words.
pub fn compile(expression: &str) -> Result<DeviceSelector, String> {
    let selector = Selector::compile(expression)?;
    Ok(Arc::new(move |driver, device| {
        selector.matches(driver, device)
    }))
}
