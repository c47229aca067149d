//! Values of custom and external metrics, as tests put them.

use std::sync::Arc;

use super::ApiServer;
use crate::metric_values::{MetricError, MetricValue, Subject};
use crate::registry::metrics::{CUSTOM, EXTERNAL, listed};
use crate::suggestion;

impl ApiServer {
    /// Puts a value of a custom or an external metric, or takes it away. Its time is the present.
    ///
    /// # Errors
    /// The value cannot be read, the server does not have the resource of its object or the metrics APIs
    /// ([`ApiServerBuilder::metrics_apis`](crate::ApiServerBuilder::metrics_apis)), or there is nothing to take away.
    pub fn put_metric(&self, value: &MetricValue) -> Result<(), MetricError> {
        let definitions = &self.core.definitions;
        let catalog = definitions.catalog();
        if catalog.group(CUSTOM).is_none() {
            return Err(MetricError::NotServed);
        }
        let subject = Subject::of(value)?;
        let is_namespaced = match subject.resource() {
            None => true,
            Some(resource) => self.is_namespaced(resource)?,
        };
        let values = &self.core.metric_values;
        values.put(value, is_namespaced, self.core.clock.now())?;
        definitions.list_metrics(|| {
            let names = values.names().into_iter();
            let metrics = names.map(|(resource, metric, is_namespaced)| {
                Arc::new(match resource {
                    None => listed(EXTERNAL, metric, true),
                    Some(resource) => listed(CUSTOM, format!("{resource}/{metric}"), is_namespaced),
                })
            });
            metrics.collect()
        });
        Ok(())
    }

    /// The values of custom and external metrics, by name.
    #[must_use]
    pub fn metric_values(&self) -> Vec<MetricValue> {
        self.core.metric_values.list()
    }

    /// Whether the objects of `plural` or `plural.group` are in namespaces.
    fn is_namespaced(&self, text: &str) -> Result<bool, MetricError> {
        let catalog = self.core.definitions.catalog();
        let found = catalog.resource_called(text);
        found.map(|resource| resource.namespaced).ok_or_else(|| {
            let names = self.resource_names();
            let names = names.iter().map(String::as_str);
            let what = "the server serves no resource";
            MetricError::Resource(suggestion::unknown(what, text, names))
        })
    }
}
