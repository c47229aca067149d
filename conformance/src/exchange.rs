//! Recorded exchanges: requests with the answers a real API server gave, and their replay.
//!
//! A case is a list of steps, each a request; its recording is the list of normalized answers. The
//! files are described in `fixtures/recorded/README.md`.
//!
//! - `format`: the files, their cases and steps
//! - `text`: JSON as the files and the requests' bodies are written
//! - `variables`: `${…}` in requests
//! - `selection`: the part of an answer that a step compares
//! - `transport`: how a request reaches a server, in process or, by `http1` and `tls`, over the
//!   network
//! - `replay`: a case to its answers, which `watch` collects of streams
//! - `normalize`: what legitimately differs between two servers, as stable marks
//! - `compare`: the differences between two answers
//! - `variant`: random variants of cases, to find differences that no case shows
//! - `divergences`: the cases that are known to differ, and the table of them in `docs/fidelity.md`

mod compare;
mod divergences;
mod error;
mod format;
mod http1;
mod normalize;
mod replay;
mod selection;
mod text;
mod tls;
mod transport;
mod variables;
mod variant;
mod watch;

pub use compare::{Difference, compare};
pub use divergences::{Divergences, DivergencesError, Summary};
pub use error::TransportError;
pub use format::{Case, Exchange, FormatError, RecordedFile, recorded_dir};
pub use replay::{replay, replay_in_process};
pub use tls::{Trust, connector};
pub use transport::{NetworkOptions, Target};
pub use variant::Variants;
