//! The command line: which argument is the command, and the flags of each command.
//!
//! Source: cobra `command.go` for the search, kubectl for the flags.

use super::failure::Failure;
use crate::cli::pflag::{FlagSet, Parsed, Syntax};

/// Makes the table of a command, which also has the flags of all commands.
macro_rules! with_global_flags {
    ($own:literal) => {
        concat!(
            "\
[flags of all commands]
as string
  Name of the user to act as.
as-group stringArray
  Group to act as.
as-uid string
  UID to act as.
certificate-authority string
  File with the certificates of the server's authority.
client-certificate string
  File with the client certificate.
client-key string
  File with the key of the client certificate.
cluster string
  Name of the cluster in the kubeconfig.
context string
  Name of the context in the kubeconfig.
disable-compression bool false
  taken: responses are not compressed
help,h bool false
  Print this text.
insecure-skip-tls-verify bool false
  Accept every certificate of the server.
kubeconfig string
  Kubeconfig to use instead of those in KUBECONFIG.
log-flush-frequency duration 5s
  taken: there is no log
match-server-version bool false
  taken: the versions are always equal
namespace,n string
  Namespace of the request.
password string
  Password for basic authentication.
request-timeout string 0
  Time for a single request, in seconds or with a unit; 0 is no limit.
server,s string
  Address of the server.
tls-server-name string
  Name to look for in the server's certificate.
token string
  Bearer token.
user string
  Name of the user in the kubeconfig.
username string
  User name for basic authentication.
v,v Level 0
  taken: there is no log
vmodule pattern=N,...
  taken: there is no log
warnings-as-errors bool false
  Fail when the server sends a warning.
[flags of the command]
",
            $own
        )
    };
}

const GET: &str = with_global_flags!(
    "\
all-namespaces,A bool false
  Objects of all namespaces.
chunk-size int 500
  taken: lists are read whole
field-selector string
  Selector by fields.
ignore-not-found bool false
  Succeed without output for objects that do not exist.
no-headers bool false
  Leave out the first line of tables.
output,o string
  Format: json, yaml, name or wide.
raw string
  Path to read from the server as it is.
selector,l string
  Selector by labels.
server-print bool true
  taken: the server prints tables
show-kind bool false
  Show the resource before the name.
show-labels bool false
  Show labels in the last column.
show-managed-fields bool false
  Keep managedFields in JSON and YAML.
"
);

const APPLY: &str = with_global_flags!(
    "\
dry-run mode none
  Change nothing: none, client or server.
field-manager string
  Name of the manager that owns the applied fields.
filename,f strings
  File, directory or - for standard input.
force-conflicts bool false
  Take fields of other managers over.
output,o string
  Format: json, yaml or name.
overwrite bool true
  taken: fields of other managers are overwritten without --server-side
recursive,R bool false
  Read directories with those below them.
server-side bool false
  Let the server merge the fields, with conflicts.
show-managed-fields bool false
  Keep managedFields in JSON and YAML.
validate mode strict
  Treatment of unknown fields: strict, warn or ignore.
"
);

const VERSION: &str = with_global_flags!(
    "\
client bool false
  Only the version of this program.
output,o string
  Format: json or yaml.
"
);

const CONFIG: &str = with_global_flags!(
    "\
current bool false
  Modify the current context.
embed-certs bool false
  Store the content of certificate files.
flatten bool false
  Show the content of certificate files.
minify bool false
  Leave out all but the current context.
no-headers bool false
  Leave out the first line of tables.
output,o string
  Format: json, yaml or name.
proxy-url string
  URL of a proxy for requests to the cluster.
raw bool false
  Show credentials.
set-raw-bytes bool false
  Store the value in base64.
"
);

const GLOBAL: &str = with_global_flags!("");

/// A command that is not left to an installed kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Get,
    Apply,
    Version,
    Config,
}

impl Command {
    pub(super) const ALL: [Self; 4] = [Self::Get, Self::Apply, Self::Version, Self::Config];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Apply => "apply",
            Self::Version => "version",
            Self::Config => "config",
        }
    }

    fn flags(self) -> FlagSet {
        let table = match self {
            Self::Get => GET,
            Self::Apply => APPLY,
            Self::Version => VERSION,
            Self::Config => CONFIG,
        };
        FlagSet::new(Syntax::Pflag, table)
    }

    /// Returns the flags of the command.
    pub(super) fn help(self) -> String {
        let name = self.name();
        format!("Usage: kubectl {name} [flags]\n{}", self.flags().help())
    }
}

/// The outcome of reading a command line.
pub(super) enum Line {
    Command(Command, Parsed),
    /// No command, or one that this program does not have.
    Other(Option<String>),
}

/// Reads the arguments after the program's name.
pub(super) fn read(args: impl IntoIterator<Item = String>) -> Result<Line, Failure> {
    let mut args: Vec<String> = args.into_iter().collect();
    let Some(place) = command(&args) else {
        return Ok(Line::Other(None));
    };
    let name = args.remove(place);
    let mut known = Command::ALL.into_iter();
    let Some(command) = known.find(|command| command.name() == name) else {
        return Ok(Line::Other(Some(name)));
    };
    let parsed = command.flags().parse(args);
    let parsed = parsed.map_err(|fault| {
        Failure::error(format_args!(
            "{fault}\nSee 'kubectl {name} --help' for usage."
        ))
    })?;
    Ok(Line::Command(command, parsed))
}

/// Returns the place of the first argument that is neither a flag nor the value of one.
fn command(args: &[String]) -> Option<usize> {
    let switches = [
        "--disable-compression",
        "--help",
        "-h",
        "--insecure-skip-tls-verify",
        "--match-server-version",
        "--warnings-as-errors",
    ];
    let mut place = 0;
    while let Some(arg) = args.get(place) {
        let is_flag = arg.len() > 1 && arg.starts_with('-');
        if !is_flag {
            return Some(place);
        }
        let has_value = match arg.starts_with("--") {
            true => arg.contains('='),
            false => arg.len() > 2,
        };
        place += match has_value || switches.contains(&arg.as_str()) {
            true => 1,
            false => 2,
        };
    }
    None
}

/// Returns the text about the program.
pub(super) fn usage() -> String {
    let flags = FlagSet::new(Syntax::Pflag, GLOBAL).help();
    format!("Usage: kubectl get|apply|version|config [flags]\n{flags}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line, Failure> {
        read(text.split_whitespace().map(str::to_owned))
    }

    fn parsed(text: &str) -> (Command, Parsed) {
        match line(text) {
            Ok(Line::Command(command, parsed)) => (command, parsed),
            Ok(Line::Other(name)) => panic!("{text}: {name:?}"),
            Err(Failure(why)) => panic!("{text}: {why}"),
        }
    }

    #[test]
    fn flags_may_precede_the_command() {
        let (command, get) = parsed("--client-key=k -n x --request-timeout 5s get ns -n y default");
        assert_eq!(command, Command::Get);
        assert_eq!(get.args(), ["ns", "default"]);
        assert_eq!(get.text("namespace"), Some("y"));
        assert_eq!(get.text("client-key"), Some("k"));
        let (command, config) = parsed("--insecure-skip-tls-verify config view --raw");
        assert_eq!(command, Command::Config);
        assert!(config.is_on("raw"));
    }

    #[test]
    fn modes_are_switches_with_words() {
        let (_, apply) = parsed("apply -f a,b --validate --dry-run=server -f c");
        assert_eq!(apply.all("filename"), ["a", "b", "c"]);
        assert_eq!(apply.text("validate"), Some("true"));
        assert_eq!(apply.text("dry-run"), Some("server"));
        assert_eq!(parsed("apply").1.text("validate"), Some("strict"));
    }

    #[test]
    fn unknown_flags_and_commands_are_named() {
        let Err(Failure(why)) = line("get --nope") else {
            panic!("the flag does not exist");
        };
        assert_eq!(
            why,
            "error: unknown flag: --nope\nSee 'kubectl get --help' for usage."
        );
        for (text, name) in [
            ("-n x wait pods", Some("wait")),
            ("--help", None),
            ("", None),
        ] {
            assert!(
                matches!(line(text), Ok(Line::Other(other)) if other.as_deref() == name),
                "{text}"
            );
        }
    }
}
