use std::path::Path;

use super::kube_apiserver;

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_owned)
}

/// Flags with values that upstream would start with.
const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/tmp/k8s \
    --client-ca-file=/tmp/k8s/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
    --etcd-servers=http://127.0.0.1:1 --secure-port=2 --service-account-issuer=https://127.0.0.1:2/ \
    --service-account-key-file=/tmp/k8s/sa-signer.crt --service-account-signing-key-file=/tmp/k8s/sa-signer.key \
    --service-cluster-ip-range=10.0.0.0/24";

#[test]
fn the_table_of_kube_apiserver_is_complete() {
    let table = include_str!("kube_apiserver.txt");
    let flags = table
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    assert_eq!(flags.count(), 177);
    let help = kube_apiserver::help();
    for name in [
        "secure-port",
        "etcd-servers",
        "admission-control",
        "version",
        "v",
    ] {
        assert!(help.contains(&format!("--{name} ")), "{name}");
    }
    for hidden in [
        "insecure-port",
        "apiserver-count",
        "kubelet-https",
        "openshift-config",
    ] {
        assert!(!help.contains(&format!("--{hidden}")), "{hidden}");
    }
    let removed = kube_apiserver::flags().parse(words("--insecure-port=0"));
    let error = removed.expect_err("removed").to_string();
    assert_eq!(error, "unknown flag: --insecure-port");
}

#[test]
fn each_default_is_a_value_of_its_flag() {
    let lines = include_str!("kube_apiserver.txt").lines();
    let flags = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let given = flags.filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?.split(',').next()?;
        words.nth(1).map(|default| format!("--{name}={default}"))
    });
    let given: Vec<String> = given.collect();
    assert!(given.len() > 50, "{given:?}");
    let parsed = kube_apiserver::flags().parse(given).expect("defaults");
    assert_eq!(parsed.warning(), None);
}

#[test]
fn the_command_line_of_envtest_is_read() {
    let parsed = kube_apiserver::flags()
        .parse(words(ENVTEST))
        .expect("flags");
    assert_eq!(parsed.number("secure-port"), 2);
    assert_eq!(parsed.all("disable-admission-plugins"), ["ServiceAccount"]);
    assert_eq!(
        parsed.all("service-account-issuer"),
        ["https://127.0.0.1:2/"]
    );
    assert_eq!(parsed.warning(), None);
}

#[test]
fn the_version_is_printed_as_harnesses_read_it() {
    let version = |line| {
        let parsed = kube_apiserver::flags().parse(words(line)).expect("flags");
        kube_apiserver::version(&parsed)
    };
    let known = kubeproof_apiserver::KUBERNETES_VERSION;
    assert_eq!(version("--version"), Some(format!("Kubernetes {known}")));
    let raw = version("--version=raw").expect("a version");
    assert!(raw.contains(&format!("GitVersion:\"{known}\"")), "{raw}");
    assert_eq!(version("--version=false"), None);
    assert_eq!(version(""), None);
}

/// Reading a flag that the program lacks is a panic, so this finds the names in the code.
#[test]
fn the_code_reads_existing_flags_only() {
    let all = kube_apiserver::flags().help() + include_str!("kube_apiserver.txt");
    let reads = regex::Regex::new(
        r#"\.(?:text|is_set|all|is_on|map|duration|nanoseconds|number|float|ports)\(\s*"([a-z0-9-]+)"\s*\)"#,
    )
    .expect("a pattern");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let mut open = vec![folder.join("envtest"), folder.join("flags")];
    let mut found = 0;
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            for read in reads.captures_iter(&text) {
                found += 1;
                let name = &read[1];
                let is_known = all
                    .lines()
                    .any(|line| line.split([' ', ',']).next() == Some(name));
                assert!(is_known, "{}: no flag --{name}", path.display());
            }
        }
    }
    assert!(found > 0, "no flag is read");
}
