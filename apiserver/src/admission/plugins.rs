//! The checks of the built-in plugins on a valid object before it is stored.

use super::attributes::Attributes;
use super::chain::Chain;
use super::{certificates, limit_ranger, optional, pod_security};
use crate::auth;
use crate::metrics::admission::Plugin;
use crate::status::ApiError;

/// Asks the plugins that look at valid objects.
///
/// # Errors
/// The first refusal.
pub(crate) async fn check(
    attributes: Attributes<'_>,
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    let plugins = attributes.state.plugins;
    if plugins.has_optional() {
        optional::check(attributes, chain).await?;
    }
    if plugins.has(Plugin::PodSecurity)
        && let Some(checked) = pod_security::check(attributes)
    {
        chain.asked(Plugin::PodSecurity, checked)?;
    }
    if plugins.has(Plugin::LimitRanger)
        && let Some(checked) = limit_ranger::check(attributes)
    {
        chain.asked(Plugin::LimitRanger, checked)?;
    }
    match auth::resolved(attributes.state, || certificates::check(attributes)).await {
        Some((plugin, checked)) => chain.run(plugin, || checked),
        None => Ok(()),
    }
}
