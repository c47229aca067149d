//! The errors of syncs.

use kubeproof_machinery::meta::ResourceVersion;

/// A failed sync is retried with a growing delay, whatever failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cache is behind our own write.
    #[error(
        "read version: {read} is not as new as written version: {written} for group resource {resource}"
    )]
    StaleCache {
        /// The newest resourceVersion in the cache.
        read: ResourceVersion,
        /// The one we wrote.
        written: ResourceVersion,
        /// Group and resource.
        resource: &'static str,
    },
    /// The cache still has an object that our last write replaced.
    #[error(
        "{what} informer cache is out of date, resource version {read} already processed for {what} {key}"
    )]
    Processed {
        /// The resource.
        what: &'static str,
        /// The resourceVersion of the object in the cache.
        read: ResourceVersion,
        /// The namespace and the name of the object.
        key: String,
    },
    /// The object of this name exists, but the cache does not have it yet.
    #[error("{0} is not in the cache yet")]
    Unseen(String),
    /// The set was deleted, or deleted and created again, or is being deleted.
    #[error("can't adopt {what}: {reason}")]
    CannotAdopt {
        /// The kind of the orphans.
        what: &'static str,
        /// The state of the set.
        reason: String,
    },
    /// The API server refused a request; its words are what events quote.
    #[error("{}", message_of(.0))]
    Api(#[source] kube::Error),
    /// The server's object is not what its kind promises.
    #[error("{what} can't be read: {source}")]
    Malformed {
        /// A description of the object.
        what: String,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// A controller revision without a pod template.
    #[error("ControllerRevision {0} holds no pod template")]
    NoTemplate(String),
    /// Nobody says how many there should be of a pod.
    #[error("found no controllers for pod {0:?}")]
    NoScale(String),
    /// A claim of a pod is unusable.
    #[error("{0}")]
    Claim(String),
    /// The workload's own rules forbid it.
    #[error("{0}")]
    Refused(String),
    /// Several things failed.
    #[error("[{}]", join(.0))]
    Many(Vec<Error>),
}

impl Error {
    /// Combines several errors into one; Ok without errors.
    pub fn collect(errors: Vec<Self>) -> Result<(), Self> {
        let mut errors = errors;
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Many(errors)),
        }
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    /// Whether the server refused to create what exists (409, `AlreadyExists`).
    pub fn is_already_exists(&self) -> bool {
        self.status()
            .is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Refused because the namespace is going away.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self
            .status()
            .and_then(|status| Some(&status.details.as_ref()?.causes));
        causes.is_some_and(|causes| {
            causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        })
    }

    /// Whether the server does not have the object (404).
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether validation failed (422).
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|status| status.code == 422)
    }

    /// Whether another writer was faster (409, `Conflict`).
    pub fn is_conflict(&self) -> bool {
        self.status()
            .is_some_and(|status| status.reason == "Conflict")
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// Whether `error` is the server's answer with HTTP status `code`.
pub fn answered(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn message_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn join(errors: &[Error]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_quote_the_servers_words_and_nothing_around_them() {
        let mut status = kube::core::Status::failure("pods \"web-0\" is forbidden", "Forbidden");
        status.code = 403;
        let refused = || Error::from(kube::Error::Api(status.clone().boxed()));
        assert_eq!(refused().to_string(), "pods \"web-0\" is forbidden");
        let deleted = Error::Claim("pvc data-web-0 is being deleted".to_owned());
        let both = Error::collect(vec![refused(), deleted]).unwrap_err();
        assert_eq!(
            both.to_string(),
            "[pods \"web-0\" is forbidden, pvc data-web-0 is being deleted]"
        );
        assert!(!refused().is_not_found() && !refused().is_conflict());
    }

    #[test]
    fn a_stale_cache_says_how_far_it_is_behind() {
        let error = Error::StaleCache {
            read: ResourceVersion::new(3),
            written: ResourceVersion::new(5),
            resource: "pods",
        };
        assert_eq!(
            error.to_string(),
            "read version: 3 is not as new as written version: 5 for group resource pods"
        );
    }
}
