//! The failure to get an answer.

use std::path::PathBuf;

use kubeproof_apiserver::Dropped;

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The server's URL cannot be used.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The case asks for what HTTP cannot say.
    #[error("{0} cannot be sent")]
    Unsendable(String),
    /// The authorities to trust cannot be read.
    #[error("{}: {why}", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The connection failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("{0}")]
    Http(#[source] hyper::Error),
    /// The server in this process dropped the connection.
    #[error("{0}")]
    Dropped(#[source] Dropped),
    /// No data came in time.
    #[error("no data was received in time")]
    Silent,
}
