//! Kinds of flags: which values they take, and what pflag calls them.

use super::{csv, go};

/// A kind of flag. Tables and the help name kinds as pflag does, except where a comment has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    String,
    Int,
    Uint,
    /// A number of etcd; its errors are those of `strconv` in both syntaxes.
    Uint32,
    Float,
    Float32,
    Duration,
    /// Values between commas; repeated flags add to them.
    Strings,
    /// One value for each repetition.
    StringArray,
    Int32Slice,
    Ip,
    /// `KEY=VALUE` or `KEY` between commas.
    MapStringString,
    /// `claim` in tables: one `KEY=VALUE` for each repetition.
    Claim,
    StringToString,
    /// `gates` in tables: `NAME=BOOL` or `COMPONENT:NAME=BOOL` between commas.
    Gates,
    NamedCertKey,
    PortRange,
    Quantity,
    Level,
    Vmodule,
    /// A switch that also takes `raw` and versions.
    Version,
    /// URLs of listeners between commas.
    Urls,
    /// A switch that also takes words.
    Mode,
}

/// A kind, its name in tables, and its name in the help.
const NAMES: [(Kind, &str, &str); 24] = [
    (Kind::Bool, "bool", ""),
    (Kind::String, "string", "string"),
    (Kind::Int, "int", "int"),
    (Kind::Uint, "uint", "uint"),
    (Kind::Uint32, "uint32", "uint"),
    (Kind::Float, "float", "float"),
    (Kind::Float32, "float32", "float32"),
    (Kind::Duration, "duration", "duration"),
    (Kind::Strings, "strings", "strings"),
    (Kind::StringArray, "stringArray", "stringArray"),
    (Kind::Int32Slice, "int32Slice", "int32Slice"),
    (Kind::Ip, "ip", "ip"),
    (Kind::MapStringString, "mapStringString", "mapStringString"),
    (Kind::Claim, "claim", "mapStringString"),
    (Kind::StringToString, "stringToString", "stringToString"),
    (Kind::Gates, "gates", "colonSeparatedMultimapStringString"),
    (Kind::NamedCertKey, "namedCertKey", "namedCertKey"),
    (Kind::PortRange, "portRange", "portRange"),
    (Kind::Quantity, "quantity", "quantity"),
    (Kind::Level, "Level", "Level"),
    (Kind::Vmodule, "pattern=N,...", "pattern=N,..."),
    (Kind::Version, "version", "version[=true]"),
    (Kind::Urls, "urls", "urls"),
    (Kind::Mode, "mode", "string"),
];

const PORT_MAX: i64 = 65_535;

impl Kind {
    /// Reads a kind's name in a table.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut named = NAMES.iter().filter(|(_, known, _)| *known == name);
        named.next().map(|(kind, ..)| *kind)
    }

    /// Returns the kind's name in the help.
    pub(super) fn shown(self) -> &'static str {
        let mut named = NAMES.iter().filter(|(kind, ..)| *kind == self);
        named.next().map_or("", |(_, _, shown)| shown)
    }

    /// Reports whether the flag means `true` when it has no value.
    pub(super) fn is_switch(self) -> bool {
        matches!(self, Self::Bool | Self::Version | Self::Mode)
    }

    /// Reports whether repetitions of the flag add to each other. Otherwise the last counts.
    pub(super) fn is_collected(self) -> bool {
        matches!(
            self,
            Self::Strings
                | Self::StringArray
                | Self::Int32Slice
                | Self::MapStringString
                | Self::Claim
                | Self::StringToString
                | Self::Gates
                | Self::NamedCertKey
                | Self::Vmodule
        )
    }

    /// Reports whether Go's `flag` replaces the reason of an error by `parse error`.
    pub(super) fn is_basic(self) -> bool {
        matches!(
            self,
            Self::Bool | Self::Int | Self::Uint | Self::Float | Self::Duration
        )
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The reason, in the words of the Go function that would have read the value.
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::String | Self::StringArray | Self::MapStringString | Self::Mode => Ok(()),
            Self::Bool => go::switch(value).map(drop),
            Self::Int => go::integer(value, 64).map(drop),
            Self::Uint => go::unsigned(value).map(drop),
            Self::Uint32 => match go::unsigned(value)? {
                value if value <= u64::from(u32::MAX) => Ok(()),
                _ => Err(go::out_of_range("ParseUint", value)),
            },
            Self::Float | Self::Float32 => go::float(value).map(drop),
            Self::Duration => go::nanoseconds(value).map(drop),
            Self::Strings => csv::fields(value).map(drop),
            Self::Int32Slice => value
                .split(',')
                .try_for_each(|one| go::integer(one, 32).map(drop)),
            Self::Ip => match value.trim().parse::<std::net::IpAddr>() {
                Err(_) if !value.is_empty() => {
                    Err(format!("failed to parse IP: {}", go::quoted(value)))
                }
                _ => Ok(()),
            },
            Self::Claim => match value.contains('=') {
                true => Ok(()),
                false => Err("malformed pair, expect string=string".to_owned()),
            },
            Self::StringToString => string_to_string(value).map(drop),
            // The gates themselves are checked when the program starts.
            Self::Gates => Ok(()),
            Self::NamedCertKey => named_cert_key(value),
            Self::PortRange => port_range(value).map(drop),
            Self::Quantity => quantity(value),
            Self::Level => go::level(value).map(drop),
            Self::Vmodule => vmodule(value),
            Self::Version => match value {
                "raw" => Ok(()),
                _ if value.starts_with('v') => version(value),
                _ => go::switch(value).map(drop),
            },
            Self::Urls => urls(value),
        }
    }
}

/// Returns the pairs of a `stringToString`. Its values may contain commas when the pair is in quotation marks.
pub(super) fn string_to_string(value: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = match value.matches('=').count() {
        0 | 1 => vec![value.trim_matches('"').to_owned()],
        _ => csv::fields(value)?,
    };
    let read = |pair: String| match pair.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{pair} must be formatted as key=value")),
    };
    pairs.into_iter().map(read).collect()
}

/// Returns the first and the last port of a range: `N`, `N-M` or `N+COUNT`. An empty text means no range.
pub(super) fn port_range(value: &str) -> Result<Option<(i64, i64)>, String> {
    let value = value.trim();
    if value.is_empty() {
        return Ok(None);
    }
    let (low, high) = match (value.split_once('-'), value.split_once('+')) {
        (None, None) => {
            let port = go::atoi(value)?;
            (port, port)
        }
        (Some((low, high)), None) => (go::atoi(low)?, go::atoi(high)?),
        (None, Some((low, count))) => {
            let low = go::atoi(low)?;
            (low, low.saturating_add(go::atoi(count)?))
        }
        (Some(_), Some(_)) => return Err(format!("unable to parse port range: {value}")),
    };
    if low > PORT_MAX || high > PORT_MAX {
        return Err(format!(
            "the port range cannot be greater than 65535: {value}"
        ));
    }
    if high < low {
        return Err(format!("end port cannot be less than start port: {value}"));
    }
    Ok(Some((low, high)))
}

fn named_cert_key(value: &str) -> Result<(), String> {
    let (files, names) = match value.split_once(':') {
        Some((files, names)) => (files, Some(names)),
        None => (value, None),
    };
    if names.is_some_and(|names| names.trim().is_empty()) {
        return Err("empty names list is not allowed".to_owned());
    }
    match files.split(',').count() {
        2 => Ok(()),
        _ => Err("expected comma separated certificate and key file paths".to_owned()),
    }
}

fn vmodule(value: &str) -> Result<(), String> {
    for setting in value.split(',').filter(|setting| !setting.is_empty()) {
        let parts: Vec<&str> = setting.split('=').collect();
        let [pattern, level] = parts[..] else {
            return Err(format!(
                "{} does not have the pattern=N format",
                go::quoted(setting)
            ));
        };
        if pattern.is_empty() || level.is_empty() {
            return Err(format!(
                "{} does not have the pattern=N format",
                go::quoted(setting)
            ));
        }
        go::level(level)
            .map_err(|why| format!("parsing verbosity in {}: {why}", go::quoted(setting)))?;
    }
    Ok(())
}

fn quantity(value: &str) -> Result<(), String> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let is_number = number.matches('.').count() <= 1 && number.contains(|c| c != '.');
    let is_suffix = match suffix {
        "" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        "n" | "u" | "m" | "k" | "K" | "M" | "G" | "T" | "P" | "E" => true,
        _ => suffix
            .strip_prefix(['e', 'E'])
            .is_some_and(|exponent| go::atoi(exponent).is_ok()),
    };
    match is_number && is_suffix {
        true => Ok(()),
        false => Err("quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()),
    }
}

/// Checks a version that the program is to report: its own, perhaps with the name of a build.
fn version(value: &str) -> Result<(), String> {
    let known = kubeproof_apiserver::KUBERNETES_VERSION;
    let numbers = value.split(['-', '+']).next();
    match numbers == Some(known) {
        true => Ok(()),
        false => Err(format!(
            "version {} must match major/minor/patch of default version {}",
            go::quoted(value),
            go::quoted(known)
        )),
    }
}

fn urls(value: &str) -> Result<(), String> {
    for url in value
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
    {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        match scheme {
            "http" | "https" => {}
            "unix" | "unixs" => continue,
            _ => {
                return Err(format!(
                    "URL scheme must be http, https, unix, or unixs: {url}"
                ));
            }
        }
        let (host, path) = match rest.split_once('/') {
            Some((host, _)) => (host, true),
            None => (rest, false),
        };
        if host.rsplit_once(':').is_none() {
            return Err(format!(
                "URL address does not have the form \"host:port\": {url}"
            ));
        }
        if path {
            return Err(format!("URL must not contain a path: {url}"));
        }
    }
    Ok(())
}
