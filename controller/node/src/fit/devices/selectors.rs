//! The selectors of devices, compiled once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kubeproof_machinery::json::Value;
use parking_lot::Mutex;

/// A compiled selector: returns whether a device fits, given the name of its driver and the device as a ResourceSlice has
/// it, or the error of the evaluation.
pub type DeviceSelector = Arc<dyn Fn(&str, &Value) -> Result<bool, String> + Send + Sync>;

/// Compiles the CEL expression of a selector, or returns its fault.
pub type CompileSelector = fn(&str) -> Result<DeviceSelector, String>;

/// The most selectors that are kept compiled.
const COMPILED_MAX: usize = 100;

/// The selectors that were used lately.
pub(super) struct Selectors {
    compile: CompileSelector,
    compiled: Mutex<BTreeMap<String, Result<DeviceSelector, String>>>,
}

impl fmt::Debug for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selectors").finish_non_exhaustive()
    }
}

impl Selectors {
    pub(super) fn new(compile: CompileSelector) -> Self {
        Self {
            compile,
            compiled: Mutex::default(),
        }
    }

    /// Returns whether a device of `driver` fits.
    ///
    /// # Errors
    /// Upstream's text for a fault of the expression, or for a failed evaluation.
    pub(super) fn matches(
        &self,
        expression: &str,
        driver: &str,
        device: &Value,
    ) -> Result<bool, String> {
        let selector = self.compiled(expression);
        let selector = selector.map_err(|why| format!("CEL compile error: {why}"))?;
        selector(driver, device).map_err(|why| format!("CEL runtime error: {why}"))
    }

    fn compiled(&self, expression: &str) -> Result<DeviceSelector, String> {
        let mut compiled = self.compiled.lock();
        if let Some(known) = compiled.get(expression) {
            return known.clone();
        }
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        let selector = (self.compile)(expression);
        compiled.insert(expression.to_owned(), selector.clone());
        selector
    }
}
