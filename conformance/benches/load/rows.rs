//! Rows of the table: measurements of this server, and of another in turns with it.

use crate::client::Target;
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
}

impl Row {
    pub(crate) fn new(name: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            ours: Vec::new(),
            theirs: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, side: Side, value: f64) {
        match side {
            Side::Ours => self.ours.push(value),
            Side::Theirs => self.theirs.push(value),
        }
    }

    pub(crate) fn add_ours(&mut self, value: f64) {
        self.add(Side::Ours, value);
    }

    /// Prints the median, with the least and the most; and of the ratios of each turn the same.
    pub(crate) fn print(&self) {
        let unit = |value| self.unit.print(value);
        let mut line = format!("{}: {}", self.name, spread(&self.ours, unit));
        if !self.theirs.is_empty() {
            let turns = self.ours.iter().zip(&self.theirs);
            let ratios: Vec<f64> = turns
                .map(|(ours, theirs)| self.unit.ratio(*ours, *theirs))
                .collect();
            line += &format!("; the other {}", spread(&self.theirs, unit));
            line += &format!("; ratio {}", spread(&ratios, |ratio| format!("{ratio:.2}")));
        }
        println!("{line}");
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

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

/// This build's server, and the other one.
pub(crate) struct Servers {
    pub(crate) ours: Server,
    theirs: Option<Target>,
}

impl Servers {
    /// Starts this build's server.
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            ours: Server::start(options.tls),
            theirs: options.against.clone(),
        }
    }

    /// The rounds, each with the servers in its order: they take turns in being first.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, Vec<(Side, &Target)>)> {
        (0..sized(5)).map(|round| {
            let ours = std::iter::once((Side::Ours, &self.ours.target));
            let theirs = self.theirs.iter().map(|target| (Side::Theirs, target));
            let mut servers: Vec<_> = ours.chain(theirs).collect();
            if round % 2 == 1 {
                servers.reverse();
            }
            (round, servers)
        })
    }
}
