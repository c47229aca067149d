//! The names of served resources, to check the resource of a fault or a control request.

use std::collections::BTreeSet;

use super::ApiServer;
use crate::fault::{Fault, VERBS};
use crate::registry::catalog::ResourceInfo;
use crate::suggestion;

/// A verb, resource or subresource that no request can have: a fault about it never strikes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotServed(String);

impl ApiServer {
    /// Checks that there are requests such as `fault` is about: that its resource and subresource are
    /// served now, and with its verb.
    ///
    /// # Errors
    /// [`NotServed`], with the name that was probably meant and those that there are.
    pub fn check_fault(&self, fault: &Fault) -> Result<(), NotServed> {
        let (verb, resource) = (&fault.requests.verb, &fault.requests.resource);
        if let Some(verb) = verb
            && !VERBS.contains(&verb.as_str())
        {
            return Err(NotServed(suggestion::unknown(
                "there is no verb",
                verb,
                VERBS,
            )));
        }
        let Some(text) = resource else {
            return Ok(());
        };
        let (resource, subresource) = match text.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (text.as_str(), None),
        };
        let (plural, group) = match resource.split_once('.') {
            Some((plural, group)) => (plural, Some(group)),
            None => (resource, None),
        };
        let mut verbs = BTreeSet::new();
        let mut subresources = BTreeSet::new();
        let mut is_served = false;
        self.each_resource(|info| {
            let gvr = info.gvr();
            if gvr.resource != plural || group.is_some_and(|group| group != gvr.group) {
                return;
            }
            is_served = true;
            subresources.extend(info.subresources.iter().map(|own| own.name.clone()));
            verbs.extend(match subresource {
                None => info.verbs.clone(),
                Some(name) => info
                    .subresource(name)
                    .map_or_else(Vec::new, |own| own.verbs.clone()),
            });
        });
        if !is_served {
            return Err(self.no_resource(resource));
        }
        if let Some(name) = subresource
            && !subresources.contains(name)
        {
            let known = subresources.iter().map(String::as_str);
            let no = format!("{resource} has no subresource");
            return Err(NotServed(suggestion::unknown(&no, name, known)));
        }
        match verb {
            Some(verb) if verb != PROXY && !verbs.contains(verb) => {
                let known = verbs.iter().map(String::as_str);
                let no = format!("no request for {text} has the verb");
                Err(NotServed(suggestion::unknown(&no, verb, known)))
            }
            _ => Ok(()),
        }
    }

    /// The versions in which a resource is served now; none for one that is not.
    #[must_use]
    pub fn served_versions(&self, group: &str, plural: &str) -> Vec<String> {
        let mut versions = Vec::new();
        self.each_resource(|info| {
            let gvr = info.gvr();
            if gvr.group == group && gvr.resource == plural {
                versions.push(gvr.version.clone());
            }
        });
        versions
    }

    /// The error of a resource that is not served.
    pub(super) fn no_resource(&self, text: &str) -> NotServed {
        let served = self.resource_names();
        let served = served.iter().map(String::as_str);
        NotServed(suggestion::unknown(
            "the server serves no resource",
            text,
            served,
        ))
    }

    /// `pods`, `statefulsets.apps`.
    pub(super) fn resource_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.each_resource(|info| {
            let gvr = info.gvr();
            names.insert(match gvr.group.as_str() {
                "" => gvr.resource.clone(),
                group => format!("{}.{group}", gvr.resource),
            });
        });
        names
    }

    fn each_resource(&self, mut look: impl FnMut(&ResourceInfo)) {
        let catalog = self.core.definitions.catalog();
        for group in catalog.groups() {
            let versions = group.versions.iter();
            versions
                .flat_map(|version| &version.resources)
                .for_each(|info| look(info));
        }
    }
}

/// The verb of requests that are passed on to pods and nodes.
const PROXY: &str = "proxy";
