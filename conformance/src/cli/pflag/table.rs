//! The table of a program's flags, as text.
//!
//! `[SECTION]` begins a section of the help, `#` a comment. A flag is `NAME[,SHORTHAND] KIND [DEFAULT]`, and below it,
//! indented: its usage, and lines that begin with `taken:`, `ignored:` or `deprecated:`, or say `hidden` or `shown`.
//! Such lines directly below a section are about all of its flags.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{FlagSet, Kind, Syntax};

/// The treatment of a flag by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The flag has upstream's effect.
    Honored,
    /// The flag has no effect. No warning names it.
    Taken,
    /// The flag has no effect, for this reason; a warning names it.
    Ignored(&'static str),
}

/// A flag of a program.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) shorthand: Option<char>,
    pub(super) kind: Kind,
    /// The value if the command line has none, as text; empty for no default.
    pub(super) default: &'static str,
    pub(super) section: &'static str,
    pub(super) usage: &'static str,
    pub(super) treatment: Treatment,
    /// Upstream's advice to users of a flag that will go.
    pub(super) deprecated: Option<&'static str>,
    pub(super) is_hidden: bool,
}

impl FlagSet {
    /// Reads the table of a program.
    ///
    /// # Panics
    /// When the text is not a table; a test reads each.
    pub(crate) fn new(syntax: Syntax, table: &'static str) -> Self {
        let mut sections = Vec::new();
        let mut flags = BTreeMap::new();
        // The flags of a section so far, and the flag that the next lines describe.
        let (mut common, mut open) = (Flag::of(""), None::<Flag>);
        for line in table.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(about) = line.strip_prefix("  ") {
                open.as_mut().unwrap_or(&mut common).describe(about);
                continue;
            }
            keep(&mut flags, open.take());
            match line.strip_prefix('[') {
                Some(name) => {
                    common = Flag::of(name.trim_end_matches(']'));
                    sections.push(common.section);
                }
                None => open = Some(common.named(line)),
            }
        }
        keep(&mut flags, open);
        Self {
            syntax,
            flags: Arc::new(flags),
            sections: sections.into(),
        }
    }
}

fn keep(flags: &mut BTreeMap<&'static str, Flag>, flag: Option<Flag>) {
    if let Some(flag) = flag {
        let twice = flags.insert(flag.name, flag);
        assert!(twice.is_none(), "a flag is listed twice: {twice:?}");
    }
}

impl Flag {
    /// Returns a flag of a section, still without a name.
    fn of(section: &'static str) -> Self {
        Self {
            name: "",
            shorthand: None,
            kind: Kind::String,
            default: "",
            section,
            usage: "",
            treatment: Treatment::Honored,
            deprecated: None,
            is_hidden: false,
        }
    }

    /// Returns the flag of a line, which is otherwise like this one.
    fn named(&self, line: &'static str) -> Self {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let (names, kind, default) = (next(), next(), next());
        let (name, shorthand) = match names.split_once(',') {
            Some((name, letter)) => (name, letter.chars().next()),
            None => (names, None),
        };
        let kind = Kind::parse(kind).unwrap_or_else(|| panic!("no kind of flags: {line}"));
        Self {
            name,
            shorthand,
            kind,
            default,
            ..self.clone()
        }
    }

    fn describe(&mut self, line: &'static str) {
        if matches!(line, "hidden" | "shown") {
            self.is_hidden = line == "hidden";
        } else if line.starts_with("taken: ") {
            self.treatment = Treatment::Taken;
        } else if let Some(reason) = line.strip_prefix("ignored: ") {
            self.treatment = Treatment::Ignored(reason);
        } else if let Some(advice) = line.strip_prefix("deprecated: ") {
            self.deprecated = Some(advice);
            self.is_hidden = true;
        } else {
            assert!(self.usage.is_empty(), "two usages: {line}");
            self.usage = line;
        }
    }
}
