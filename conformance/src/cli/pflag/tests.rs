use std::time::Duration;

use super::{FlagSet, Parsed, Syntax};

/// A flag of each kind.
const TABLE: &str = "\
[first]
all-of-it,a bool false
  A switch.
brief,b bool false
  Another.
audiences strings x,y
  Values.
files stringArray
  One at a time.
port int 6443
  A number.
curves int32Slice
  Numbers.
burst uint 3
  A count.
chance float 0
  A fraction.
wait duration 1m0s
  A time.
address ip 0.0.0.0
  An address.
name string
  A text.
old string
  Replaced.
  ignored: nothing reads it
  deprecated: use --name

[second part]
v,v Level 0
  Verbosity.
vmodule pattern=N,...
  More of it.
gates gates
  Features.
config mapStringString
  Pairs.
claim claim
  A pair.
labels stringToString
  Labels.
certs namedCertKey
  Files.
ports portRange 30000-32767
  Ports.
size quantity 0
  Bytes.
version version false
  The version.
urls urls
  Listeners.
";

fn read(syntax: Syntax, line: &str) -> Result<Parsed, String> {
    let words = line.split_whitespace().map(str::to_owned);
    let parsed = FlagSet::new(syntax, TABLE).parse(words);
    parsed.map_err(|error| error.to_string())
}

fn pflag(line: &str) -> Parsed {
    read(Syntax::Pflag, line).expect(line)
}

#[test]
fn a_flag_has_its_value_behind_an_equals_sign_or_in_the_next_argument() {
    for (line, port) in [
        ("", 6443),
        ("--port=1", 1),
        ("--port 1", 1),
        ("--port 1 --port=0x10", 16),
        ("--port -5", -5),
        ("--port=1_000", 1000),
    ] {
        assert_eq!(pflag(line).number("port"), port, "{line}");
    }
    assert_eq!(pflag("--port=0x1_0").number("port"), 16);
    assert_eq!(pflag("--name=a=b").text("name"), Some("a=b"));
    assert_eq!(pflag("--name --port").text("name"), Some("--port"));
    assert_eq!(pflag("--name=").text("name"), None);
    assert!(pflag("--name=").is_set("name"));
}

#[test]
fn a_switch_takes_no_value_from_the_next_argument() {
    let parsed = pflag("--all-of-it false --brief=F");
    assert!(parsed.is_on("all-of-it"));
    assert!(!parsed.is_on("brief"));
    assert_eq!(parsed.args(), ["false"]);
    assert!(pflag("--all_of_it").is_on("all-of-it"));
}

#[test]
fn shorthands_combine() {
    for line in [
        "-v 2",
        "-v2",
        "-v=2",
        "--v=2",
        "--v 2",
        "-abv2",
        "-ba -v 2",
        "-a=true -v2",
    ] {
        let parsed = pflag(line);
        assert_eq!(parsed.number("v"), 2, "{line}");
        assert_eq!(parsed.is_on("all-of-it"), line.contains('a'), "{line}");
    }
}

#[test]
fn flags_may_follow_arguments_until_two_dashes() {
    let parsed = pflag("one --port=1 - two -- --port=2");
    assert_eq!(parsed.args(), ["one", "-", "two", "--port=2"]);
    assert_eq!(parsed.number("port"), 1);
}

#[test]
fn lists_add_up_and_scalars_are_replaced() {
    assert_eq!(pflag("").all("audiences"), ["x", "y"]);
    let parsed = pflag("--audiences=a,b --audiences=\"c,d\",e --audiences=");
    assert_eq!(parsed.all("audiences"), ["a", "b", "c,d", "e"]);
    assert_eq!(pflag("--files=a,b --files c").all("files"), ["a,b", "c"]);
    assert_eq!(
        pflag("--curves=23,24 --curves=29").all("curves"),
        ["23", "24", "29"]
    );
    assert_eq!(
        pflag("--wait=1h --wait=1.5s").duration("wait"),
        Duration::from_millis(1500)
    );
    assert_eq!(pflag("--chance=1e-2").float("chance"), 0.01);
    assert_eq!(pflag("--wait=-2m").nanoseconds("wait"), -120_000_000_000);
    assert_eq!(
        pflag("--address=::1 --address=").text("address"),
        Some("::1")
    );
    assert!(pflag("--address=").is_set("address"));
    assert!(pflag("--audiences=").all("audiences").is_empty());
}

#[test]
fn pairs_are_merged() {
    let parsed = pflag("--config=v1,api/all=true --config=v1=false --gates=A=true,kube:B=false");
    let config = parsed.map("config");
    assert_eq!(config["v1"], "false");
    assert_eq!(config["api/all"], "true");
    let gates = parsed.map("gates");
    assert_eq!(
        (gates["A"].as_str(), gates["B"].as_str()),
        ("true", "false")
    );
    let labels = pflag("--labels=a=1,\"b=2,3\" --labels=a=4").map("labels");
    assert_eq!((labels["a"].as_str(), labels["b"].as_str()), ("4", "2,3"));
    assert_eq!(pflag("--claim=a=b,c").map("claim")["a"], "b,c");
    assert_eq!(pflag("").ports("ports"), Some((30000, 32767)));
    assert_eq!(pflag("--ports=80+5").ports("ports"), Some((80, 85)));
    assert_eq!(pflag("--ports=").ports("ports"), None);
}

/// Command lines, and the words of pflag about them.
const FAULTS: &[(&str, &str)] = &[
    ("--what", "unknown flag: --what"),
    ("--wh_at=5", "unknown flag: --wh_at"),
    ("-x", "unknown shorthand flag: 'x' in -x"),
    ("-axb", "unknown shorthand flag: 'x' in -xb"),
    ("-port", "unknown shorthand flag: 'p' in -port"),
    ("--name", "flag needs an argument: --name"),
    ("-av", "flag needs an argument: 'v' in -v"),
    (
        "--port=_1",
        "invalid argument \"_1\" for \"--port\" flag: strconv.ParseInt: parsing \"_1\": invalid syntax",
    ),
    ("--=", "bad flag syntax: --="),
    ("---name", "bad flag syntax: ---name"),
    (
        "--all-of-it=x",
        "invalid argument \"x\" for \"-a, --all-of-it\" flag: strconv.ParseBool: parsing \"x\": invalid syntax",
    ),
    (
        "--port=x",
        "invalid argument \"x\" for \"--port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
    ),
    (
        "--port=",
        "invalid argument \"\" for \"--port\" flag: strconv.ParseInt: parsing \"\": invalid syntax",
    ),
    (
        "--port=9223372036854775808",
        "invalid argument \"9223372036854775808\" for \"--port\" flag: strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
    ),
    (
        "--curves=1,2147483648",
        "invalid argument \"1,2147483648\" for \"--curves\" flag: strconv.ParseInt: parsing \"2147483648\": value out of range",
    ),
    (
        "--burst=-1",
        "invalid argument \"-1\" for \"--burst\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
    ),
    (
        "--chance=x",
        "invalid argument \"x\" for \"--chance\" flag: strconv.ParseFloat: parsing \"x\": invalid syntax",
    ),
    (
        "--wait=5",
        "invalid argument \"5\" for \"--wait\" flag: time: missing unit in duration \"5\"",
    ),
    (
        "--wait=5d",
        "invalid argument \"5d\" for \"--wait\" flag: time: unknown unit \"d\" in duration \"5d\"",
    ),
    (
        "--wait=x",
        "invalid argument \"x\" for \"--wait\" flag: time: invalid duration \"x\"",
    ),
    (
        "--address=here",
        "invalid argument \"here\" for \"--address\" flag: failed to parse IP: \"here\"",
    ),
    (
        "-v=x",
        "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid syntax",
    ),
    (
        "-v=-1",
        "invalid argument \"-1\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
    ),
    (
        "--vmodule=a",
        "invalid argument \"a\" for \"--vmodule\" flag: \"a\" does not have the pattern=N format",
    ),
    (
        "--vmodule=a=x",
        "invalid argument \"a=x\" for \"--vmodule\" flag: parsing verbosity in \"a=x\": strconv.ParseUint: parsing \"x\": invalid syntax",
    ),
    (
        "--claim=a",
        "invalid argument \"a\" for \"--claim\" flag: malformed pair, expect string=string",
    ),
    (
        "--labels=a",
        "invalid argument \"a\" for \"--labels\" flag: a must be formatted as key=value",
    ),
    (
        "--certs=a",
        "invalid argument \"a\" for \"--certs\" flag: expected comma separated certificate and key file paths",
    ),
    (
        "--certs=a,b:",
        "invalid argument \"a,b:\" for \"--certs\" flag: empty names list is not allowed",
    ),
    (
        "--ports=9-8",
        "invalid argument \"9-8\" for \"--ports\" flag: end port cannot be less than start port: 9-8",
    ),
    (
        "--ports=9-70000",
        "invalid argument \"9-70000\" for \"--ports\" flag: the port range cannot be greater than 65535: 9-70000",
    ),
    (
        "--ports=x",
        "invalid argument \"x\" for \"--ports\" flag: strconv.Atoi: parsing \"x\": invalid syntax",
    ),
    (
        "--size=x",
        "invalid argument \"x\" for \"--size\" flag: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    (
        "--audiences=a\"b",
        "invalid argument \"a\\\"b\" for \"--audiences\" flag: parse error on line 1, column 2: bare \" in non-quoted-field",
    ),
    (
        "--audiences=\"a",
        "invalid argument \"\\\"a\" for \"--audiences\" flag: parse error on line 1, column 3: extraneous or missing \" in quoted-field",
    ),
    (
        "--version=v1.35.0",
        "invalid argument \"v1.35.0\" for \"--version\" flag: version \"v1.35.0\" must match major/minor/patch of default version \"v1.36.2\"",
    ),
    (
        "--version=x",
        "invalid argument \"x\" for \"--version\" flag: strconv.ParseBool: parsing \"x\": invalid syntax",
    ),
];

#[test]
fn faults_are_in_the_words_of_pflag() {
    for (line, want) in FAULTS {
        let error = read(Syntax::Pflag, line).map(drop);
        assert_eq!(error, Err((*want).to_owned()), "{line}");
    }
    for fine in [
        "--size=64Ki",
        "--size=1.5M",
        "--version=raw",
        "--version",
        "--vmodule=a=1,b*=2,",
        "--certs=a,b:c",
    ] {
        assert!(read(Syntax::Pflag, fine).is_ok(), "{fine}");
    }
}

#[test]
fn gos_flag_takes_one_dash_or_two_and_ends_at_the_first_argument() {
    let parsed = read(
        Syntax::Go,
        "-port 1 --name x -all-of-it --burst=4 rest -port 2",
    )
    .expect("flags");
    assert_eq!(parsed.number("port"), 1);
    assert_eq!(parsed.text("name"), Some("x"));
    assert!(parsed.is_on("all-of-it"));
    assert_eq!(parsed.number("burst"), 4);
    assert_eq!(parsed.args(), ["rest", "-port", "2"]);
    for (line, want) in [
        ("-what", "flag provided but not defined: -what"),
        ("--what=5", "flag provided but not defined: -what"),
        ("-all_of_it", "flag provided but not defined: -all_of_it"),
        ("-name", "flag needs an argument: -name"),
        ("-=x", "bad flag syntax: -=x"),
        ("---x", "bad flag syntax: ---x"),
        (
            "-all-of-it=x",
            "invalid boolean value \"x\" for -all-of-it: parse error",
        ),
        ("-port x", "invalid value \"x\" for flag -port: parse error"),
        (
            "-port 9223372036854775808",
            "invalid value \"9223372036854775808\" for flag -port: value out of range",
        ),
        ("-wait 5", "invalid value \"5\" for flag -wait: parse error"),
        (
            "-urls x",
            "invalid value \"x\" for flag -urls: URL scheme must be http, https, unix, or unixs: x",
        ),
        (
            "-urls http://x",
            "invalid value \"http://x\" for flag -urls: URL address does not have the form \"host:port\": http://x",
        ),
        (
            "-urls http://x:1/a",
            "invalid value \"http://x:1/a\" for flag -urls: URL must not contain a path: http://x:1/a",
        ),
        ("-h", "flag: help requested"),
        ("--help", "flag: help requested"),
    ] {
        let error = read(Syntax::Go, line).map(drop);
        assert_eq!(error, Err(want.to_owned()), "{line}");
    }
}

#[test]
fn a_flag_without_effect_is_named_in_one_warning_and_a_deprecated_one_in_its_own() {
    let parsed = pflag("--old=x --old=y --name=z");
    assert_eq!(parsed.ignored(), ["old"]);
    let warning = parsed.warning();
    let want = "flags without effect: --old (nothing reads it)";
    assert_eq!(warning.as_deref(), Some(want));
    let line = "Flag --old has been deprecated, use --name";
    assert_eq!(parsed.deprecated(), [line, line]);
    // The default needs no warning.
    assert_eq!(pflag("--old=").warning(), None);
    assert_eq!(pflag("--name=z").warning(), None);
}

#[test]
fn the_help_has_a_column_of_usages_in_each_section() {
    let help = FlagSet::new(Syntax::Pflag, TABLE).help();
    let (first, second) = help
        .split_once("\nSecond part flags:\n\n")
        .expect("two sections");
    let want = "
First flags:

      --address ip          An address. (default 0.0.0.0)
  -a, --all-of-it           A switch.
      --audiences strings   Values. (default [x,y])
  -b, --brief               Another.
      --burst uint          A count. (default 3)
      --chance float        A fraction.
      --curves int32Slice   Numbers. (default [])
      --files stringArray   One at a time.
      --name string         A text.
      --port int            A number. (default 6443)
      --wait duration       A time. (default 1m0s)
";
    assert_eq!(first, want);
    assert!(second.contains("\n  -v, --v Level "), "{second}");
    assert!(
        second.contains("\n      --version version[=true] "),
        "{second}"
    );
    let help = FlagSet::new(Syntax::Go, TABLE).help();
    assert!(
        help.contains("\nfirst:\n  --address '0.0.0.0'\n    An address.\n"),
        "{help}"
    );
}
