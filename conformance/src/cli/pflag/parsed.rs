//! The values of a command line, by the names of flags.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::{self, Kind};
use super::table::{Flag, Treatment};
use super::{FlagSet, csv, go};

/// The values of a command line.
///
/// Each method panics when the program has no flag of the name; `flags::tests` finds such names in the code.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    set: FlagSet,
    /// Only valid values, in the order of the command line.
    given: BTreeMap<&'static str, Vec<String>>,
    args: Vec<String>,
}

impl Parsed {
    pub(super) fn new(
        set: FlagSet,
        given: BTreeMap<&'static str, Vec<String>>,
        args: Vec<String>,
    ) -> Self {
        Self { set, given, args }
    }

    /// Returns the arguments that are no flags.
    pub(crate) fn args(&self) -> &[String] {
        &self.args
    }

    /// Reports whether the command line has the flag.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.given.contains_key(self.flag(name).name)
    }

    /// Returns the flag's last value, or else its default; `None` for an empty value.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let flag = self.flag(name);
        let given = self.given.get(flag.name).and_then(|given| given.last());
        let text = given.map_or(flag.default, String::as_str);
        (!text.is_empty()).then_some(text)
    }

    /// Returns all values of a list: `strings`, or a flag that is repeated.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let flag = self.flag(name);
        let given = self.repeated(flag);
        match flag.kind {
            Kind::Strings => given
                .into_iter()
                .flat_map(|line| csv::fields(line).unwrap_or_default())
                .collect(),
            Kind::Int32Slice => given
                .into_iter()
                .flat_map(|line| line.split(',').map(str::to_owned))
                .collect(),
            _ => given.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Reports whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name)
            .is_some_and(|text| go::switch(text) == Ok(true))
    }

    /// Returns the pairs of a flag with keys and values; the later of equal keys counts. Feature gates have no
    /// component in their name, and a key without a value has an empty one.
    pub(crate) fn map(&self, name: &str) -> BTreeMap<String, String> {
        let flag = self.flag(name);
        let mut pairs = BTreeMap::new();
        for line in self.repeated(flag) {
            match flag.kind {
                Kind::StringToString => {
                    pairs.extend(kind::string_to_string(line).unwrap_or_default());
                }
                Kind::Claim => pairs.extend([pair(line)]),
                Kind::Gates => {
                    let gates = line.split(',').filter(|gate| !gate.is_empty());
                    pairs.extend(gates.map(|gate| pair(gate.trim_start_matches("kube:"))));
                }
                _ => {
                    let entries = line.split(',').filter(|entry| !entry.is_empty());
                    pairs.extend(entries.map(pair));
                }
            }
        }
        pairs
    }

    /// Returns the value of an `int`, an `uint` or a `Level`.
    pub(crate) fn number(&self, name: &str) -> i64 {
        let text = self.text(name).unwrap_or("0");
        match self.flag(name).kind {
            Kind::Uint | Kind::Uint32 => go::unsigned(text)
                .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
                .expect("only numbers are kept"),
            Kind::Level => go::level(text).expect("only levels are kept"),
            _ => go::integer(text, 64).expect("the flag is a number"),
        }
    }

    /// Returns the value of a `float`.
    pub(crate) fn float(&self, name: &str) -> f64 {
        let text = self.text(name).unwrap_or("0");
        go::float(text).expect("the flag is a number")
    }

    /// Returns the value of a `duration`. Negative ones are zero.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanoseconds(name)).unwrap_or(0))
    }

    /// Returns the value of a `duration` with its sign.
    pub(crate) fn nanoseconds(&self, name: &str) -> i64 {
        let text = self.text(name).unwrap_or("0");
        go::nanoseconds(text).expect("the flag is a duration")
    }

    /// Returns the first and the last port of a `portRange`, if it has any.
    pub(crate) fn ports(&self, name: &str) -> Option<(i64, i64)> {
        let text = self.text(name).unwrap_or("");
        kind::port_range(text).expect("the flag is a range of ports")
    }

    /// Returns the flags of the command line that have no effect and another value than by default.
    #[cfg(test)]
    pub(crate) fn ignored(&self) -> Vec<&'static str> {
        self.refused().map(|(flag, _)| flag.name).collect()
    }

    /// Returns one line about [`ignored`](Self::ignored) flags, with the reasons, if there are any.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut reasons = BTreeMap::<&str, Vec<String>>::new();
        for (flag, reason) in self.refused() {
            let names = reasons.entry(reason).or_default();
            names.push(format!("--{}", flag.name));
        }
        let reasons: Vec<String> = reasons
            .into_iter()
            .map(|(reason, names)| format!("{} ({reason})", names.join(", ")))
            .collect();
        (!reasons.is_empty()).then(|| format!("flags without effect: {}", reasons.join("; ")))
    }

    /// Returns pflag's line for each use of a deprecated flag.
    pub(crate) fn deprecated(&self) -> Vec<String> {
        let uses = self.given.iter().flat_map(|(name, given)| {
            let advice = self.flag(name).deprecated;
            let line = advice.map(|advice| format!("Flag --{name} has been deprecated, {advice}"));
            std::iter::repeat_n(line, given.len())
        });
        uses.flatten().collect()
    }

    fn refused(&self) -> impl Iterator<Item = (&Flag, &'static str)> {
        self.given.keys().filter_map(|name| {
            let flag = self.flag(name);
            let is_default = self.text(name).unwrap_or("") == flag.default;
            match flag.treatment {
                Treatment::Ignored(reason) if !is_default => Some((flag, reason)),
                _ => None,
            }
        })
    }

    /// The values that count: all of a flag that collects them, else the last.
    fn repeated(&self, flag: &Flag) -> Vec<&str> {
        let given = self.given.get(flag.name);
        let Some(given) = given.filter(|given| !given.is_empty()) else {
            return (!flag.default.is_empty())
                .then_some(flag.default)
                .into_iter()
                .collect();
        };
        let first = match flag.kind.is_collected() {
            true => 0,
            false => given.len() - 1,
        };
        given[first..].iter().map(String::as_str).collect()
    }

    fn flag(&self, name: &str) -> &Flag {
        let flag = self.set.flags.get(name);
        flag.unwrap_or_else(|| panic!("the program has a flag --{name}"))
    }
}

fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.trim().to_owned(), value.trim().to_owned())
}
