//! Values of the Kubernetes libraries.

use std::{fmt, net::IpAddr};

use kubeproof_machinery::schema::quantity::Quantity;

use super::{
    Value, authorization::Authorization, message::Message, network::Cidr, semver::Semver, url::Url,
};

/// A value of a library.
#[derive(Clone, Debug)]
pub enum Object {
    Url(Url),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Semver),
    Format(Format),
    Message(Message),
    Authorization(Authorization),
}

impl Object {
    pub fn type_name(&self) -> &str {
        match self {
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Message(message) => message.type_name(),
            Self::Authorization(authorization) => authorization.type_name(),
        }
    }

    /// A field, of those that have some.
    pub fn field(&self, key: &Value) -> Option<Value> {
        match (self, key) {
            (Self::Message(message), Value::String(name)) => message.field(name).cloned(),
            _ => None,
        }
    }

    /// How many bytes of an address count.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Ip(IpAddr::V4(_)) => Some(4),
            Self::Ip(IpAddr::V6(_)) => Some(16),
            Self::Cidr(cidr) => Some(usize::from(cidr.bits).div_ceil(8)),
            _ => None,
        }
    }

    /// Whether `string()` has a text for it.
    pub(crate) fn has_text(&self) -> bool {
        matches!(self, Self::Ip(_) | Self::Cidr(_))
    }

    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Url(a), Self::Url(b)) => a.to_string() == b.to_string(),
            (Self::Quantity(a), Self::Quantity(b)) => a.compare(b).is_eq(),
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b).is_eq(),
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Message(a), Self::Message(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{url}"),
            Self::Quantity(quantity) => write!(f, "{quantity}"),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Cidr(cidr) => write!(f, "{cidr}"),
            Self::Semver(version) => write!(f, "{version}"),
            Self::Format(format) => write!(f, "{}", format.0),
            Self::Message(_) | Self::Authorization(_) => f.write_str(self.type_name()),
        }
    }
}

/// A named format of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format(&'static str);

/// The formats, and the size of their regular expressions as their cost takes it.
const FORMATS: [(&str, u64); 13] = [
    ("dns1123Label", 30),
    ("dns1123Subdomain", 60),
    ("dns1035Label", 30),
    ("qualifiedName", 60),
    ("dns1123LabelPrefix", 30),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035LabelPrefix", 30),
    ("labelValue", 40),
    ("uri", 1103),
    ("uuid", 78),
    ("byte", 84),
    ("date", 118),
    ("datetime", 118),
];

impl Format {
    /// The format of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        FORMATS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(known, _)| Self(known))
    }

    /// The name of the format, such as `dns1123Label`.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// The size of its regular expression, as costs count it.
    pub(crate) fn regex_size(self) -> u64 {
        FORMATS
            .iter()
            .find(|(name, _)| *name == self.0)
            .map_or(0, |(_, size)| *size)
    }
}
