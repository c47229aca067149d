//! The command line.

use std::net::SocketAddr;

use kubeproof::exchange::{Trust, connector};

use crate::client::Target;

/// The choices of the command line.
pub(crate) struct Options {
    /// Whether this program serves TLS.
    pub(crate) tls: bool,
    /// The server to compare with.
    pub(crate) against: Option<Target>,
    sections: Vec<String>,
}

impl Options {
    /// Reads the arguments after the program's name. Cargo's own `--bench` is ignored.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let (mut tls, mut sections) = (true, Vec::new());
        let (mut url, mut token, mut authority) = (None, String::new(), None);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.unwrap_or_else(|| panic!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--bench" => {}
                "--plain" => tls = false,
                "--against" => url = Some(value()),
                "--token" => token = value(),
                "--ca" => authority = Some(value()),
                section if !section.starts_with("--") => sections.push(argument),
                unknown => panic!("unknown option {unknown}"),
            }
        }
        let against = url.map(|url| {
            let (scheme, address) = url.split_once("://").expect("a URL has a scheme");
            let address: SocketAddr = address
                .trim_end_matches('/')
                .parse()
                .expect("the URL has an IP address and a port");
            let trust = match authority {
                Some(file) => Trust::Authority(file.into()),
                None => Trust::Anybody,
            };
            let tls =
                (scheme == "https").then(|| connector(&trust).expect("the authority can be read"));
            let token = token.clone();
            Target {
                address,
                tls,
                token,
            }
        });
        Self {
            tls,
            against,
            sections,
        }
    }

    /// Whether `section` is to be measured.
    pub(crate) fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|named| named == section)
    }
}
