//! The help of a program: its flags in sections, as cobra and etcd print them.

use super::table::{Flag, Treatment};
use super::{FlagSet, Kind, Syntax};

impl FlagSet {
    /// Returns all flags in sections, each with its usage. Flags without effect say so.
    pub(crate) fn help(&self) -> String {
        let mut help = String::new();
        for section in self.sections.iter() {
            let flags: Vec<&Flag> = self
                .flags
                .values()
                .filter(|flag| flag.section == *section && !flag.is_hidden)
                .collect();
            match self.syntax {
                _ if flags.is_empty() => {}
                Syntax::Pflag => aligned(&mut help, section, &flags),
                Syntax::Go => indented(&mut help, section, &flags),
            }
        }
        help
    }
}

/// Writes a section as Kubernetes does: usages in a column of their own.
fn aligned(help: &mut String, section: &str, flags: &[&Flag]) {
    let (first, rest) = section.split_at(1);
    help.push_str(&format!("\n{}{rest} flags:\n\n", first.to_uppercase()));
    let heads: Vec<String> = flags.iter().map(|flag| head(flag)).collect();
    let width = heads.iter().map(String::len).max().unwrap_or(0);
    for (flag, head) in flags.iter().zip(heads) {
        let mut usage = usage(flag);
        if let Some(default) = default(flag) {
            usage += &format!(" (default {default})");
        }
        if let Some(advice) = flag.deprecated {
            usage += &format!(" (DEPRECATED: {advice})");
        }
        help.push_str(&format!("{head:width$}   {usage}\n"));
    }
}

/// Writes a section as etcd does: names with their defaults, and usages below.
fn indented(help: &mut String, section: &str, flags: &[&Flag]) {
    help.push_str(&format!("\n{section}:\n"));
    for flag in flags {
        help.push_str(&format!("  --{} '{}'\n", flag.name, flag.default));
        let usage = usage(flag);
        if !usage.is_empty() {
            help.push_str(&format!("    {usage}\n"));
        }
    }
}

fn head(flag: &Flag) -> String {
    let name = match flag.shorthand {
        Some(letter) => format!("  -{letter}, --{}", flag.name),
        None => format!("      --{}", flag.name),
    };
    match flag.kind.shown() {
        "" => name,
        kind => format!("{name} {kind}"),
    }
}

fn usage(flag: &Flag) -> String {
    let usage = flag.usage;
    match flag.treatment {
        Treatment::Honored | Treatment::Taken => usage.to_owned(),
        Treatment::Ignored(reason) => {
            let words = format!("{usage} Without effect: {reason}.");
            words.trim_start().to_owned()
        }
    }
}

/// Returns the default as the help mentions it, which leaves out zeros.
fn default(flag: &Flag) -> Option<String> {
    let default = flag.default;
    match flag.kind {
        Kind::Int32Slice | Kind::NamedCertKey | Kind::StringToString => Some("[]".to_owned()),
        _ if matches!(default, "" | "false" | "0s" | "0") => None,
        Kind::String => Some(format!("{default:?}")),
        Kind::Strings => Some(format!("[{default}]")),
        _ => Some(default.to_owned()),
    }
}
