//! A harness in Rust: certificates, ports, and the programs of a control plane as child processes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustix::process::Signal;
use serde_json::json;

use crate::support::process::{output, send, stdout};

/// The time that harnesses give a program to start.
const START_MAX: Duration = Duration::from_secs(20);
/// The time in which a program ends.
const STOP_MAX: Duration = Duration::from_secs(5);

/// A certificate and its private key, in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Pair {
    /// Writes both next to each other, as NAME.crt and NAME.key.
    pub(super) fn write(&self, dir: &Path, name: &str) {
        let path = |extension: &str| dir.join(format!("{name}.{extension}"));
        fs::write(path("crt"), &self.certificate).unwrap();
        fs::write(path("key"), &self.key).unwrap();
    }
}

/// An authority of a test, as envtest's TinyCA.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("envtest-environment", "envtest");
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of a server.
    pub(super) fn serving(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A certificate of a user in a group.
    pub(super) fn client(&self, user: &str, group: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// The authority's own certificate and key: envtest signs tokens with such a pair.
    pub(super) fn itself(&self) -> Pair {
        Pair {
            certificate: self.0.pem(),
            key: self.0.key().serialize_pem(),
        }
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A name with an organization, which is a group of the user.
pub(super) fn named(user: &str, group: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, group);
    name.push(DnType::CommonName, user);
    name
}

/// A port that was free a moment ago, which is how harnesses choose theirs.
///
/// Each call has a port of its own, below those that Linux gives to connections and to sockets that
/// ask for any port. So no other test takes it before the program listens.
pub(super) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);

    // Processes that run at the same time begin far from each other.
    let begin = std::process::id().wrapping_mul(331);
    loop {
        let offset = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The directories of one control plane.
pub(super) struct Plane {
    /// The programs.
    pub(super) assets: PathBuf,
    /// Everything else.
    pub(super) dir: PathBuf,
}

impl Plane {
    /// Empty directories, and the programs as `kubeproof envtest` writes them.
    pub(super) fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("envtest")
            .join(name);
        let _ = fs::remove_dir_all(&root);
        let (assets, dir) = (root.join("assets"), root.join("certs"));
        fs::create_dir_all(&dir).unwrap();
        let printed = output(&["envtest", "--into", assets.to_str().unwrap()]);
        assert!(printed.status.success(), "{printed:?}");
        assert_eq!(stdout(&printed).trim(), assets.to_str().unwrap());
        Self { assets, dir }
    }

    /// The path of a file, as text for a command line.
    pub(super) fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    /// A command that runs one of the programs.
    pub(super) fn program(&self, name: &str) -> Command {
        Command::new(self.assets.join(name))
    }

    /// Runs a program to its end.
    pub(super) fn output<A: AsRef<OsStr>>(&self, name: &str, args: &[A]) -> Output {
        self.program(name).args(args).output().unwrap()
    }

    /// Starts a program. Its errors go to a file.
    pub(super) fn start<A: AsRef<OsStr>>(&self, name: &str, args: &[A]) -> Running {
        self.start_with(name, args, &[])
    }

    /// Starts a program with environment variables.
    pub(super) fn start_with<A: AsRef<OsStr>>(
        &self,
        name: &str,
        args: &[A],
        variables: &[(&str, &str)],
    ) -> Running {
        let errors = self.dir.join(format!("{name}.stderr"));
        let mut command = self.program(name);
        command
            .args(args)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap());
        Running {
            child: command.spawn().unwrap(),
            errors,
        }
    }
}

/// A program of a control plane. It is killed with the test.
pub(super) struct Running {
    child: Child,
    errors: PathBuf,
}

impl Running {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's standard error so far.
    pub(super) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Tries until `probe` returns a value; fails with the program's errors when it has ended or the time is over.
    pub(super) async fn wait_for<T>(
        &mut self,
        what: &str,
        probe: impl AsyncFn() -> Option<T>,
    ) -> T {
        let began = Instant::now();
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            let ended = self.child.try_wait().unwrap();
            let is_late = began.elapsed() > START_MAX;
            assert!(
                ended.is_none() && !is_late,
                "{what}: {ended:?}: {}",
                self.errors()
            );
        }
    }

    /// Ends the program by a signal.
    pub(super) fn stop(mut self, signal: Signal) -> ExitStatus {
        let began = Instant::now();
        send(signal, self.child.id());
        while began.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
        }
        panic!("it ignores {signal:?}: {}", self.errors());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a client knows the server, and the server the client.
#[derive(Default)]
pub(super) struct Access<'p> {
    /// The authority of the server; without it any certificate is accepted.
    pub(super) authority: Option<String>,
    pub(super) user: Option<&'p Pair>,
}

/// A client as client-go makes it from envtest's `rest.Config`.
pub(super) async fn client(url: &str, access: Access<'_>) -> Client {
    let encoded = |pem: &str| STANDARD.encode(pem);
    let cluster = match &access.authority {
        Some(authority) => json!({"server": url, "certificate-authority-data": encoded(authority)}),
        None => json!({"server": url, "insecure-skip-tls-verify": true}),
    };
    let user = match access.user {
        Some(pair) => json!({
            "client-certificate-data": encoded(&pair.certificate),
            "client-key-data": encoded(&pair.key),
        }),
        None => json!({}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": "plane", "user": user}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "plane"}}],
        "current-context": "plane",
    });
    let config = Kubeconfig::from_yaml(&config.to_string()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await;
    connect(config.unwrap())
}

/// A client for a server on loopback, which needs neither the proxy nor the authorities of the machine.
pub(super) fn connect(mut config: Config) -> Client {
    config.proxy_url = None;
    config.root_cert.get_or_insert_default();
    Client::try_from(config).unwrap()
}

/// The body of a GET, if the server answers with success.
pub(super) async fn get(client: &Client, path: &str) -> Option<String> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.ok()
}
