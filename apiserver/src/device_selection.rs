//! The selectors of DeviceClasses and ResourceClaims, for a scheduler that looks for devices.

use crate::cel::{Expression, Returns, Scope};
use crate::json::Value;

/// A selector that is ready to be evaluated.
#[derive(Debug)]
pub struct Selector(Expression);

impl Selector {
    /// Compiles a CEL expression about the variable `device`.
    ///
    /// # Errors
    /// Upstream's text for the fault of the expression.
    pub fn compile(expression: &str) -> Result<Self, String> {
        let scope = Scope::of_device();
        let expression = scope.compile(expression, Returns::DeviceMatch)?;
        Ok(Self(expression))
    }

    /// Returns whether a device fits: `device` as a ResourceSlice of `driver` has it.
    ///
    /// # Errors
    /// Upstream's text for the failure of the evaluation.
    pub fn matches(&self, driver: &str, device: &Value) -> Result<bool, String> {
        self.0.matches_device(driver, device)
    }
}
