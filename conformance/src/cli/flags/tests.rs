use std::collections::BTreeSet;
use std::path::Path;

use super::super::pflag::{FlagSet, Parsed, Syntax};
use super::{Invocation, Refusal, etcd, kube_apiserver, request_timeouts};

/// The flags of controller-runtime's envtest 0.17 to 0.24.
const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/tmp/k8s \
    --client-ca-file=/tmp/k8s/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
    --etcd-servers=http://127.0.0.1:1 --secure-port=2 --service-account-issuer=https://127.0.0.1:2/ \
    --service-account-key-file=/tmp/k8s/sa-signer.crt --service-account-signing-key-file=/tmp/k8s/sa-signer.key \
    --service-cluster-ip-range=10.0.0.0/24";
/// The flags of the old template `APIServer.Args`.
const LEGACY: &str = "--advertise-address=127.0.0.1 --etcd-servers=http://127.0.0.1:1 --cert-dir=/tmp/k8s --secure-port=2 \
    --disable-admission-plugins=ServiceAccount --service-cluster-ip-range=10.0.0.0/24 --allow-privileged=true \
    --authorization-mode=RBAC --client-ca-file=/tmp/k8s/ca.crt --service-account-issuer=https://127.0.0.1:2/ \
    --service-account-key-file=/tmp/k8s/sa-signer.crt --service-account-signing-key-file=/tmp/k8s/sa-signer.key";
/// The flags of fabric8's kube-api-test.
const FABRIC8: &str = "--cert-dir /tmp/f8 --secure-port 2 --etcd-servers http://0.0.0.0:1 --authorization-mode RBAC \
    --service-account-issuer https://localhost --service-account-signing-key-file /tmp/f8/apiserver.key \
    --service-account-signing-key-file /tmp/f8/apiserver.key --service-account-key-file /tmp/f8/apiserver.key \
    --service-account-issuer /tmp/f8/apiserver.crt --disable-admission-plugins ServiceAccount \
    --client-ca-file /tmp/f8/client.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged";
/// The flags of kwokctl's binary runtime, without admission plugins.
const KWOK: &str = "--etcd-prefix=/registry --allow-privileged=true --endpoint-reconciler-type=none --admission-control= \
    --max-requests-inflight=0 --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false \
    --etcd-servers=http://127.0.0.1:1 --authorization-mode=Node,RBAC --bind-address=0.0.0.0 --secure-port=2 \
    --tls-cert-file=/k/admin.crt --tls-private-key-file=/k/admin.key --client-ca-file=/k/ca.crt \
    --service-account-key-file=/k/admin.key --service-account-signing-key-file=/k/admin.key \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --proxy-client-key-file=/k/admin.key \
    --proxy-client-cert-file=/k/admin.crt --requestheader-client-ca-file=/k/ca.crt \
    --requestheader-allowed-names=kwok --requestheader-username-headers=X-Remote-User \
    --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --audit-policy-file=/k/audit.yaml --audit-log-path=/k/audit.log --v=4";
/// The flags that upstream needs to start.
const NEEDED: &str = "--etcd-servers=http://127.0.0.1:1 --service-account-issuer=https://x \
    --service-account-key-file=/k/sa.key --service-account-signing-key-file=/k/sa.key \
    --service-cluster-ip-range=10.0.0.0/24";

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_owned)
}

fn served(line: &str) -> Parsed {
    match kube_apiserver::read(words(line)) {
        Ok(Invocation::Serve(parsed)) => *parsed,
        other => panic!("{line}: {other:?}"),
    }
}

fn printed(invocation: Result<Invocation, Refusal>) -> String {
    match invocation {
        Ok(Invocation::Print(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn names(table: &str) -> impl Iterator<Item = &str> {
    let flags = table
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    flags.filter_map(|line| line.split([' ', ',']).next())
}

#[test]
fn the_table_of_kube_apiserver_is_complete() {
    assert_eq!(names(include_str!("kube_apiserver.txt")).count(), 177);
    let help = printed(kube_apiserver::read(words("--help")));
    assert_eq!(
        help.lines().filter(|line| line.contains(" --")).count(),
        172
    );
    assert_eq!(
        printed(kube_apiserver::read(words("--secure-port=1 -h"))),
        help
    );
    for hidden in [
        "insecure-port",
        "apiserver-count",
        "kubelet-https",
        "openshift-config",
    ] {
        assert!(!help.contains(&format!("--{hidden}")), "{hidden}");
    }
}

#[test]
fn the_table_of_etcd_is_complete() {
    assert_eq!(names(include_str!("etcd.txt")).count(), 153);
    let help = printed(etcd::read(words("--help")));
    assert_eq!(printed(etcd::read(words("-h"))), help);
    let fsync = regex::Regex::new(r"(?m)^\s*--unsafe-no-fsync\b").expect("a pattern");
    assert!(fsync.is_match(&help), "{help}");
    assert!(!help.contains("--max-retry-attempts"), "{help}");
}

#[test]
fn each_default_is_a_value_of_its_flag() {
    let given = |table: &'static str| {
        let flags = table
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
        let given = flags.filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.split(',').next()?;
            words.nth(1).map(|default| format!("--{name}={default}"))
        });
        given.collect::<Vec<String>>()
    };
    for (syntax, table) in [
        (Syntax::Pflag, include_str!("kube_apiserver.txt")),
        (Syntax::Go, include_str!("etcd.txt")),
    ] {
        let given = given(table);
        assert!(given.len() > 50, "{given:?}");
        let parsed = FlagSet::new(syntax, table).parse(given).expect("defaults");
        assert_eq!(parsed.warning(), None);
    }
}

#[test]
fn command_lines_of_harnesses_are_read_without_a_warning() {
    for line in [ENVTEST, LEGACY, FABRIC8, KWOK, NEEDED] {
        let parsed = served(line);
        assert_eq!(parsed.warning(), None, "{line}");
        assert!(!parsed.all("etcd-servers").is_empty(), "{line}");
    }
    let parsed = served(ENVTEST);
    assert_eq!(parsed.number("secure-port"), 2);
    assert_eq!(parsed.all("disable-admission-plugins"), ["ServiceAccount"]);
    let parsed = served(FABRIC8);
    assert_eq!(
        parsed.all("service-account-issuer"),
        ["https://localhost", "/tmp/f8/apiserver.crt"]
    );
    let key = parsed.text("service-account-signing-key-file");
    assert_eq!(key, Some("/tmp/f8/apiserver.key"));
    assert!(parsed.is_on("allow-privileged"));
    let parsed = served(KWOK);
    assert!(parsed.is_set("admission-control") && parsed.all("admission-control").is_empty());
    assert_eq!(parsed.all("authorization-mode"), ["Node", "RBAC"]);
    let want = "Flag --admission-control has been deprecated, Use --enable-admission-plugins or \
        --disable-admission-plugins instead. Will be removed in a future version.";
    assert_eq!(parsed.deprecated(), [want]);
}

#[test]
fn command_lines_of_etcd_are_read_with_one_dash_and_two() {
    for line in [
        "--advertise-client-urls=http://127.0.0.1:1 --data-dir=/tmp/etcd --listen-client-urls=http://127.0.0.1:1 \
         --listen-peer-urls=http://127.0.0.1:3 --unsafe-no-fsync=true",
        "-data-dir /tmp/etcd -wal-dir /tmp/wal --listen-client-urls http://127.0.0.1:1 \
         --advertise-client-urls http://0.0.0.0:1 --initial-cluster default=http://localhost:3 \
         --initial-advertise-peer-urls http://localhost:3 --listen-peer-urls http://localhost:3",
        "--name=node0 --auto-compaction-retention=1 --quota-backend-bytes=8589934592 --data-dir=/tmp/etcd \
         --initial-advertise-peer-urls=http://0.0.0.0:3 --listen-peer-urls=http://0.0.0.0:3 \
         --advertise-client-urls=http://0.0.0.0:1 --listen-client-urls=http://127.0.0.1:1 \
         --initial-cluster=node0=http://0.0.0.0:3 --log-level=debug",
        "--listen-client-urls=http://127.0.0.1:1 --listen-peer-urls=http://localhost:0 --data-dir=/tmp/etcd",
    ] {
        let invocation = etcd::read(words(line));
        let Ok(Invocation::Serve(parsed)) = invocation else {
            panic!("{line}: {invocation:?}");
        };
        assert_eq!(
            parsed.text("listen-client-urls"),
            Some("http://127.0.0.1:1")
        );
        assert_eq!(parsed.text("data-dir"), Some("/tmp/etcd"));
        assert_eq!(parsed.warning(), None, "{line}");
    }
    for (line, want, code) in [
        (
            "--nonsense",
            "flag provided but not defined: -nonsense\nUsage:\n",
            2,
        ),
        (
            "--listen-client-urls=x",
            "invalid value \"x\" for flag -listen-client-urls: URL scheme must be http, https, unix, or unixs: x\nUsage:\n",
            2,
        ),
        ("x", "\"x\" is not a valid flag", 1),
    ] {
        let refusal = etcd::read(words(line)).expect_err(line);
        assert!(
            refusal.message.starts_with(want),
            "{line}: {}",
            refusal.message
        );
        assert_eq!(refusal.code, code, "{line}");
    }
}

#[test]
fn versions_are_printed_as_harnesses_read_them() {
    let known = kubeproof_apiserver::KUBERNETES_VERSION;
    let server = printed(kube_apiserver::read(words("--version")));
    assert_eq!(server, format!("Kubernetes {known}\n"));
    let raw = printed(kube_apiserver::read(words("--version=raw")));
    assert!(raw.contains(&format!("GitVersion:\"{known}\"")), "{raw}");
    assert!(kube_apiserver::read(words("--version=false")).is_err());
    // The pattern of kwokctl, for both programs.
    let kwok =
        regex::Regex::new(r"(kubernetes|version)?:? ?v?(\d+\.\d+\.\d+(-\S*)?)").expect("a pattern");
    let etcd = printed(etcd::read(words("--version")));
    assert!(
        etcd.starts_with(&format!("etcd Version: {}\nGit SHA: ", etcd::VERSION)),
        "{etcd}"
    );
    for (text, want) in [
        (&server, known.trim_start_matches('v')),
        (&etcd, etcd::VERSION),
    ] {
        let text = text.to_lowercase();
        let found = kwok.captures(&text).and_then(|found| found.get(2));
        assert_eq!(found.map(|found| found.as_str()), Some(want));
    }
}

/// Command lines, and what a kube-apiserver v1.36.2 prints.
const REFUSED: &[(&str, &str)] = &[
    ("--nonsense", "Error: unknown flag: --nonsense"),
    ("--insecure-port=0", "Error: unknown flag: --insecure-port"),
    (
        "--secure-port",
        "Error: flag needs an argument: --secure-port",
    ),
    ("-z", "Error: unknown shorthand flag: 'z' in -z"),
    (
        "foo",
        "Error: \"kube-apiserver\" does not take any arguments, got [\"foo\"]",
    ),
    (
        "--allow-privileged true",
        "Error: \"kube-apiserver\" does not take any arguments, got [\"true\"]",
    ),
    (
        "--secure-port=x",
        "Error: invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
    ),
    (
        "",
        "[--etcd-servers must be specified, service-account-issuer is a required flag, either \
         `--service-account-key-file` or `--service-account-signing-endpoint` must be set, \
         --service-account-signing-key-file and --service-account-issuer are required flags]",
    ),
    (
        "--etcd-servers=http://127.0.0.1:1 --cert-dir=/tmp/oh",
        "[service-account-issuer is a required flag, either `--service-account-key-file` or \
         `--service-account-signing-endpoint` must be set, --service-account-signing-key-file and \
         --service-account-issuer are required flags]",
    ),
    (
        "--authorization-mode=Nonsense",
        "[--etcd-servers must be specified, service-account-issuer is a required flag, either \
         `--service-account-key-file` or `--service-account-signing-endpoint` must be set, authorization-mode \
         \"Nonsense\" is not a valid mode, --service-account-signing-key-file and --service-account-issuer are \
         required flags]",
    ),
    (
        "NEEDED --authorization-mode=Nonsense",
        "authorization-mode \"Nonsense\" is not a valid mode",
    ),
    (
        "NEEDED --enable-admission-plugins=Nonsense",
        "enable-admission-plugins plugin \"Nonsense\" is unknown",
    ),
    (
        "NEEDED --runtime-config=nonsense/v1=true",
        "unknown api groups nonsense/v1",
    ),
];

/// Command lines after the needed flags, and the words of upstream's source.
const INVALID: &[(&str, &str)] = &[
    (
        "--secure-port=0",
        "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
    ),
    (
        "--authorization-mode=Webhook",
        "authorization-mode Webhook's authorization config file not passed",
    ),
    (
        "--authorization-mode=ABAC",
        "authorization-mode ABAC's authorization policy file not passed",
    ),
    (
        "--authorization-mode=RBAC,RBAC",
        "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
    ),
    (
        "--authorization-webhook-config-file=x",
        "cannot specify --authorization-webhook-config-file without mode Webhook",
    ),
    (
        "--authorization-mode=RBAC --authorization-config=x",
        "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined",
    ),
    (
        "--service-account-issuer=https://x",
        "service-account-issuer \"https://x\" is already specified",
    ),
    (
        "--service-account-jwks-uri=http://x",
        "service-account-jwks-uri requires https scheme, parsed as: http://x",
    ),
    (
        "--service-account-max-token-expiration=1m",
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
    ),
    (
        "--max-requests-inflight=-1",
        "--max-requests-inflight can not be negative value",
    ),
    (
        "--goaway-chance=0.1",
        "--goaway-chance can not be less than 0 or greater than 0.02",
    ),
    (
        "--request-timeout=-1s",
        "--request-timeout can not be negative value",
    ),
    (
        "--enable-admission-plugins=Priority --disable-admission-plugins=Priority",
        "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
    ),
    (
        "--admission-control=Priority --enable-admission-plugins=PodSecurity",
        "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
    ),
    (
        "--enable-priority-and-fairness=false --runtime-config=api/all=false",
        "invalid runtime-config with only api/all=false",
    ),
    (
        "--runtime-config=api/all=false,v1=true",
        "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true",
    ),
    ("--runtime-config=x", "runtime-config invalid key x"),
    ("--feature-gates=A", "missing bool value for A"),
    (
        "--feature-gates=A=x",
        "invalid value of A=x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
    ),
    (
        "--audit-log-path=- --audit-log-format=x",
        "invalid audit log format x, allowed formats are \"legacy,json\"",
    ),
    (
        "--audit-log-path=- --audit-log-mode=x",
        "invalid audit log mode x, allowed modes are \"batch,blocking,blocking-strict\"",
    ),
    (
        "--audit-log-path=- --audit-log-maxage=-1",
        "--audit-log-maxage -1 can't be a negative number",
    ),
    (
        "--service-cluster-ip-range=x",
        "service-cluster-ip-range[0] is not a valid cidr",
    ),
    (
        "--service-cluster-ip-range=10.0.0.0/30",
        "error determining service IP ranges for primary service cidr: the service cluster IP range must be at least 8 IP addresses",
    ),
    (
        "--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24",
        "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
    ),
    (
        "--advertise-address=::1",
        "service IP family \"10.0.0.0/24\" must match public address family \"::1\"",
    ),
    (
        "--kubernetes-service-node-port=80",
        "kubernetes service node port range 30000-32767 doesn't contain 80",
    ),
    (
        "--requestheader-group-headers=,",
        "empty value in \"requestheader-group-headers\"",
    ),
    (
        "--oidc-client-id=x",
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
    ),
    (
        "--apiserver-count=0",
        "--apiserver-count should be a positive number, but value '0' provided",
    ),
    (
        "--watch-cache-sizes=pods",
        "invalid value of watch cache size: pods",
    ),
    (
        "--logging-format=x",
        "format: Invalid value: \"x\": Unsupported log format",
    ),
    (
        "--peer-ca-file=x",
        "--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on",
    ),
    (
        "--coordinated-leadership-retry-period=10s",
        "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
    ),
];

#[test]
fn command_lines_are_refused_as_by_the_real_program() {
    let refused = REFUSED
        .iter()
        .map(|(line, want)| (line.replace("NEEDED", NEEDED), *want));
    let invalid = INVALID
        .iter()
        .map(|(line, want)| (format!("{NEEDED} {line}"), *want));
    for (line, want) in refused.chain(invalid) {
        let refusal = kube_apiserver::read(words(&line)).expect_err(&line);
        let want = match want.starts_with("Error: ") {
            true => want.to_owned(),
            false => format!(
                "\"command failed\" err={}",
                kubeproof_apiserver::status::quoted(want)
            ),
        };
        assert_eq!(
            refusal,
            Refusal {
                message: want,
                code: 1
            },
            "{line}"
        );
    }
}

/// The source with the tables of kubectl's commands.
const KUBECTL: &str = include_str!("../envtest/kubectl/flags.rs");

/// Reading a flag that the program lacks is a panic, so this finds the names in the code.
#[test]
fn the_code_reads_existing_flags_only() {
    let known: Vec<&str> = names(include_str!("kube_apiserver.txt"))
        .chain(names(include_str!("etcd.txt")))
        .collect();
    let reads = regex::Regex::new(
        r#"\.(?:text|is_set|all|is_on|map|duration|nanoseconds|number|float|ports)\(\s*"([a-z0-9-]+)"\s*\)"#,
    )
    .expect("a pattern");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let mut open = vec![folder.join("envtest"), folder.join("flags")];
    let mut found = 0;
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // Some programs have their table in the file that reads it, kubectl in one for all of its files.
            let own: Vec<&str> = match text.contains("FlagSet::new(") {
                true => names(&text).collect(),
                false if folder.ends_with("kubectl") => names(KUBECTL).collect(),
                false => Vec::new(),
            };
            for read in reads.captures_iter(&text) {
                found += 1;
                assert!(
                    known.contains(&&read[1]) || own.contains(&&read[1]),
                    "{}: no flag --{}",
                    path.display(),
                    &read[1]
                );
            }
        }
    }
    assert!(found > 0, "no flag is read");
}

/// Flags that lead to a text, which the reading of the command line returns.
const READ_ELSEWHERE: &[&str] = &["help", "version"];

#[test]
fn exactly_the_honored_flags_are_read() {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let program = cli.join("envtest/kube_apiserver");
    let files = std::fs::read_dir(&program).expect("a folder");
    let files = files.map(|entry| entry.expect("an entry").path());
    let code: String = files
        .chain([program.with_extension("rs"), cli.join("flags/settings.rs")])
        .map(|path| std::fs::read_to_string(path).expect("a source file"))
        .collect();
    let table = include_str!("kube_apiserver.txt");
    let mut name = "";
    let (mut honored, mut ignored) = (BTreeSet::new(), BTreeSet::new());
    for line in table.lines() {
        if line.starts_with(|first: char| first.is_ascii_lowercase()) {
            name = line.split([' ', ',']).next().expect("a name");
            honored.insert(name);
        } else if line.starts_with("  taken: ") {
            honored.remove(name);
        } else if line.starts_with("  ignored: ") {
            honored.remove(name);
            ignored.insert(name);
        }
    }
    let is_read = |name: &&&str| code.contains(&format!("\"{name}\""));
    let unread: Vec<_> = honored
        .iter()
        .filter(|name| !is_read(name) && !READ_ELSEWHERE.contains(name))
        .collect();
    assert!(unread.is_empty(), "honored in the table only: {unread:?}");
    let read: Vec<_> = ignored.iter().filter(is_read).collect();
    assert!(
        read.is_empty(),
        "without effect in the table only: {read:?}"
    );
}

#[test]
fn time_limits_are_settings_of_the_server() {
    let limits = |flags: &str| request_timeouts(&served(&format!("{NEEDED} {flags}")));
    let usual = limits("");
    assert_eq!(
        (usual.request.as_secs(), usual.min_watch.as_secs()),
        (60, 1800)
    );
    let own = limits("--request-timeout=1m30s --min-request-timeout=5");
    assert_eq!((own.request.as_secs(), own.min_watch.as_secs()), (90, 5));
}
