//! The command line: which argument is a flag, which is its value.

use std::collections::{BTreeMap, VecDeque};

use super::table::Flag;
use super::{FlagError, FlagSet, Parsed, Syntax};

/// The unread rest of the command line, and the values so far.
struct Reading<'s> {
    set: &'s FlagSet,
    rest: VecDeque<String>,
    given: BTreeMap<&'static str, Vec<String>>,
    args: Vec<String>,
}

impl FlagSet {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn parse(
        &self,
        args: impl IntoIterator<Item = String>,
    ) -> Result<Parsed, FlagError> {
        let mut reading = Reading {
            set: self,
            rest: args.into_iter().collect(),
            given: BTreeMap::new(),
            args: Vec::new(),
        };
        while let Some(arg) = reading.rest.pop_front() {
            let is_flag = arg.len() > 1 && arg.starts_with('-');
            match self.syntax {
                _ if arg == "--" => break,
                Syntax::Pflag if !is_flag => reading.args.push(arg),
                Syntax::Pflag => match arg.strip_prefix("--") {
                    Some(long) => reading.long(&arg, long)?,
                    None => reading.short(&arg[1..])?,
                },
                Syntax::Go if !is_flag => {
                    reading.args.push(arg);
                    break;
                }
                Syntax::Go => reading.go(&arg)?,
            }
        }
        let Reading {
            rest,
            given,
            mut args,
            ..
        } = reading;
        args.extend(rest);
        Ok(Parsed::new(self.clone(), given, args))
    }
}

impl Reading<'_> {
    /// Reads `--name`, `--name=value` or `--name value`.
    fn long(&mut self, arg: &str, long: &str) -> Result<(), FlagError> {
        let (name, value) = named(arg, long)?;
        let Some(flag) = self.set.flags.get(name.replace('_', "-").as_str()) else {
            return Err(FlagError::Unknown(name.to_owned()));
        };
        let value = match value {
            Some(value) => value,
            None if flag.kind.is_switch() => "true".to_owned(),
            None => {
                let next = self.rest.pop_front();
                next.ok_or_else(|| FlagError::NeedsArgument(format!("--{name}")))?
            }
        };
        self.set_to(flag, value)
    }

    /// Reads shorthands: switches, and at last perhaps one with a value: `-v2`, `-v=2` or `-v 2`.
    fn short(&mut self, letters: &str) -> Result<(), FlagError> {
        let mut letters = letters;
        while let Some(letter) = letters.chars().next() {
            let mut flags = self.set.flags.values();
            let Some(flag) = flags.find(|flag| flag.shorthand == Some(letter)) else {
                return Err(FlagError::UnknownShorthand {
                    letter,
                    letters: letters.to_owned(),
                });
            };
            let after = &letters[letter.len_utf8()..];
            let value = match after.strip_prefix('=') {
                Some(value) if !value.is_empty() => {
                    letters = "";
                    value.to_owned()
                }
                _ if flag.kind.is_switch() => {
                    letters = after;
                    "true".to_owned()
                }
                _ if !after.is_empty() => {
                    letters = "";
                    after.to_owned()
                }
                _ => {
                    let next = self.rest.pop_front();
                    let needed = format!("{letter:?} in -{letters}");
                    letters = "";
                    next.ok_or(FlagError::NeedsArgument(needed))?
                }
            };
            self.set_to(flag, value)?;
        }
        Ok(())
    }

    /// Reads a flag of Go's package `flag`: one dash or two, and a switch has its value behind `=` only.
    fn go(&mut self, arg: &str) -> Result<(), FlagError> {
        let long = arg.strip_prefix("--").unwrap_or(&arg[1..]);
        let (name, value) = named(arg, long)?;
        let Some(flag) = self.set.flags.get(name) else {
            return Err(match name {
                "help" | "h" => FlagError::Help,
                _ => FlagError::NotDefined(name.to_owned()),
            });
        };
        let value = match value {
            Some(value) => value,
            None if flag.kind.is_switch() => "true".to_owned(),
            None => {
                let next = self.rest.pop_front();
                next.ok_or_else(|| FlagError::NeedsArgument(format!("-{name}")))?
            }
        };
        self.set_to(flag, value)
    }

    fn set_to(&mut self, flag: &Flag, value: String) -> Result<(), FlagError> {
        match flag.kind.check(&value) {
            Ok(()) => {
                let given = self.given.entry(flag.name).or_default();
                // An empty address leaves the one before.
                if !(flag.kind == super::Kind::Ip && value.is_empty()) {
                    given.push(value);
                }
                Ok(())
            }
            Err(why) => Err(self.refused(flag, value, why)),
        }
    }

    fn refused(&self, flag: &Flag, value: String, why: String) -> FlagError {
        let name = flag.name.to_owned();
        match self.set.syntax {
            Syntax::Pflag => FlagError::Invalid {
                flag: match flag.shorthand {
                    Some(letter) => format!("-{letter}, --{name}"),
                    None => format!("--{name}"),
                },
                value,
                why,
            },
            Syntax::Go => {
                let why = match flag.kind.is_basic() {
                    false => why,
                    true if why.ends_with("out of range") => "value out of range".to_owned(),
                    true => "parse error".to_owned(),
                };
                match flag.kind.is_switch() {
                    true => FlagError::InvalidBoolean { name, value, why },
                    false => FlagError::InvalidValue { name, value, why },
                }
            }
        }
    }
}

/// Splits `name=value`, of which `arg` is the whole argument.
fn named<'a>(arg: &str, long: &'a str) -> Result<(&'a str, Option<String>), FlagError> {
    if long.is_empty() || long.starts_with(['-', '=']) {
        return Err(FlagError::BadSyntax(arg.to_owned()));
    }
    Ok(match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    })
}
