//! Rows of the table: measurements of this server, and of another in turns with it.

use crate::bare::Answers;
use crate::client::{Connection, Target};
use crate::options::Options;
use crate::server::Server;
use crate::size::sized;

/// The unit of a row, which says whether more or less is better.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
}

impl Unit {
    fn print(self, value: f64) -> String {
        match self {
            Self::PerSecond => format!("{value:.0} /s"),
            Self::Milliseconds => format!("{value:.2} ms"),
        }
    }

    /// How many times as good `ours` is as `theirs`.
    fn ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::PerSecond => ours / theirs,
            Self::Milliseconds => theirs / ours,
        }
    }
}

/// What is measured of both servers.
pub(crate) struct Row {
    name: String,
    unit: Unit,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    bare: Vec<f64>,
}

impl Row {
    pub(crate) fn new(name: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            ours: Vec::new(),
            theirs: Vec::new(),
            bare: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, side: Side, value: f64) {
        match side {
            Side::Ours => self.ours.push(value),
            Side::Theirs => self.theirs.push(value),
            Side::Bare => self.bare.push(value),
        }
    }

    pub(crate) fn add_ours(&mut self, value: f64) {
        self.add(Side::Ours, value);
    }

    /// Prints the median, with the least and the most; and of the ratios of each turn the same.
    pub(crate) fn print(&self) {
        let unit = |value| self.unit.print(value);
        println!("{}: {}", self.name, spread(&self.ours, unit));
        for (name, others) in [("the other", &self.theirs), ("a bare server", &self.bare)] {
            if others.is_empty() {
                continue;
            }
            let turns = self.ours.iter().zip(others);
            let ratios: Vec<f64> = turns
                .map(|(ours, theirs)| self.unit.ratio(*ours, *theirs))
                .collect();
            let ratio = spread(&ratios, |ratio| format!("{ratio:.2}"));
            println!("    {name} {}, ratio {ratio}", spread(others, unit));
        }
    }
}

/// The median of `values`, which are not empty, with the least and the most.
fn spread(values: &[f64], print: impl Fn(f64) -> String) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    let middle = print(sorted[sorted.len() / 2]);
    format!("{middle} ({} to {})", print(least), print(most))
}

/// One of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This build's.
    Ours,
    /// The one to compare with.
    Theirs,
    /// The one that only answers.
    Bare,
}

/// This build's server, the other one, and the bare one.
pub(crate) struct Servers {
    ours: Server,
    theirs: Option<Target>,
    bare: Server,
}

impl Servers {
    /// Starts this build's server.
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            ours: Server::start(options.tls),
            theirs: options.against.clone(),
            bare: Server::bare(options.tls),
        }
    }

    /// The rounds, each with the servers in its order: they take turns in being first. In the first round this build's
    /// server is the first, as the bare one answers with as many bytes.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, Vec<(Side, &Target)>)> {
        (0..sized(5)).map(|round| {
            let ours = std::iter::once((Side::Ours, &self.ours.target));
            let theirs = self.theirs.iter().map(|target| (Side::Theirs, target));
            let bare = std::iter::once((Side::Bare, &self.bare.target));
            let mut servers: Vec<_> = ours.chain(theirs).chain(bare).collect();
            if round % 2 == 1 {
                servers.reverse();
            }
            (round, servers)
        })
    }

    /// Processor time that a server of this machine has taken so far, in µs; `None` for the other one.
    pub(crate) fn processor_us(&self, side: Side) -> Option<f64> {
        match side {
            Side::Ours => Some(self.ours.child.processor_us()),
            Side::Theirs => None,
            Side::Bare => Some(self.bare.child.processor_us()),
        }
    }

    /// Resident memory of this build's server in MB.
    pub(crate) fn resident_mb(&self) -> f64 {
        self.ours.child.resident_mb()
    }

    /// Sets what the bare server answers with.
    pub(crate) async fn set_answers(&self, answers: Answers) {
        let mut connection = Connection::open(&self.bare.target).await;
        let (code, _) = connection.request("PUT", &answers.path(), "", b"").await;
        assert_eq!(code, 200, "the bare server takes any answers");
    }
}
