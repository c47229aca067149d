//! Group, version, kind and resource names, printed as Kubernetes prints them.

use std::fmt;

/// An API group and a version of it; the core group is the empty string.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// API group, `""` for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
}

impl GroupVersion {
    /// Parses the value of an `apiVersion` field; `None` when it has more than one slash.
    #[must_use]
    pub fn parse(api_version: &str) -> Option<Self> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => (group, version),
            Some(_) => return None,
            None => ("", api_version),
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

macro_rules! grouped {
    ($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// API group, `""` for core.
            pub group: String,
            $(#[$field_doc])*
            pub $field: String,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.$field)?;
                if !self.group.is_empty() {
                    write!(f, ".{}", self.group)?;
                }
                Ok(())
            }
        }
    };
}

grouped! {
    /// A resource without its version, printed `statefulsets.apps` (core: `pods`).
    GroupResource {
        /// Plural, such as `statefulsets`.
        resource
    }
}
grouped! {
    /// A kind without its version, printed `StatefulSet.apps` (core: `Pod`).
    GroupKind {
        /// Kind, such as `StatefulSet`.
        kind
    }
}

/// A resource in one version of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// API group, `""` for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Plural, such as `statefulsets`.
    pub resource: String,
}

impl GroupVersionResource {
    /// The resource without its version.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }

    /// The resource as `VERSION/PLURAL` or `GROUP/VERSION/PLURAL`.
    #[must_use]
    pub fn to_path(&self) -> String {
        let (group, version, resource) = (&self.group, &self.version, &self.resource);
        match group.as_str() {
            "" => format!("{version}/{resource}"),
            group => format!("{group}/{version}/{resource}"),
        }
    }

    /// Reads what [`Self::to_path`] has written; `None` for any other text.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let (group_version, resource) = path.rsplit_once('/')?;
        let GroupVersion { group, version } = GroupVersion::parse(group_version)?;
        let resource = resource.to_owned();
        Some(Self {
            group,
            version,
            resource,
        })
    }
}

/// A kind in one version of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// API group, `""` for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `StatefulSet`.
    pub kind: String,
}

impl GroupVersionKind {
    /// The kind without its version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The value of `apiVersion` for this kind.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// The group and version of this kind.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }
}
