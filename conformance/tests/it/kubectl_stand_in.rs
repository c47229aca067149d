//! The `kubectl` of `kubeproof envtest` where no other is installed: the commands that test harnesses call.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::process::{file, output, serve, stdout, terminate};

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {l: q}}\ndata: {x: '1'}\n";

/// A directory of one test with the programs of `kubeproof envtest`.
struct Programs {
    root: PathBuf,
    kubeconfig: PathBuf,
}

impl Programs {
    fn new(name: &str) -> Self {
        let root =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-stand-in-{name}"));
        let _ = std::fs::remove_dir_all(&root);
        let bin = root.join("bin");
        let written = output(&["envtest", "--into", bin.to_str().expect("UTF-8")]);
        assert!(written.status.success(), "{written:?}");
        Self {
            kubeconfig: root.join("kubeconfig"),
            root,
        }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("it can be made");
        std::fs::write(&path, content).expect("it can be written");
        self.path(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.root.join("bin/kubectl"));
        command
            .args(arguments.split_whitespace())
            .env("PATH", "")
            .env("KUBECONFIG", &self.kubeconfig);
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("kubectl runs")
    }

    /// Returns what a command prints that must succeed.
    fn done(&self, arguments: &str) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.status.code(), Some(0), "{arguments}: {ended:?}");
        stdout(&ended)
    }

    /// Returns the error of a command that must fail.
    fn refused(&self, arguments: &str) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments}: {ended:?}");
        String::from_utf8(ended.stderr).expect("UTF-8")
    }

    /// Starts a server, whose kubeconfig is the current one.
    fn serve(&self) -> Server {
        let kubeconfig = file(self.kubeconfig.to_str().expect("UTF-8"), "");
        let path = kubeconfig.to_str().expect("UTF-8");
        let (child, url) = serve(&["--tls", "--listen", "127.0.0.1:0", "--kubeconfig-out", path]);
        Server {
            child: Some(child),
            url,
        }
    }
}

/// A server that ends with the test.
struct Server {
    child: Option<Child>,
    url: String,
}

impl Server {
    fn end(mut self) {
        terminate(self.child.take().expect("it runs"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// fabric8's kube-api-test waits for a namespace with certificates in flags, and enters the server into a kubeconfig.
#[test]
fn fabric8_reads_a_namespace_and_edits_the_kubeconfig() {
    let programs = Programs::new("fabric8");
    let server = programs.serve();
    let config: Value =
        serde_json::from_str(&programs.done("config view --raw -o json")).expect("JSON");
    let decoded = |pointer: &str| {
        let text = config.pointer(pointer).and_then(Value::as_str);
        STANDARD
            .decode(text.expect("it is embedded"))
            .expect("base64")
    };
    let ca = programs.write(
        "ca.crt",
        decoded("/clusters/0/cluster/certificate-authority-data"),
    );
    let certificate = programs.write(
        "client.crt",
        decoded("/users/0/user/client-certificate-data"),
    );
    let key = programs.write("client.key", decoded("/users/0/user/client-key-data"));
    let flags = format!(
        "--client-certificate={certificate} --client-key={key} --certificate-authority={ca}"
    );
    let line = format!(
        "{flags} --server={} --request-timeout=5s get ns default",
        server.url
    );
    let read = programs
        .command(&line)
        .env("KUBECONFIG", programs.path("missing"))
        .output()
        .expect("kubectl runs");
    assert_eq!(read.status.code(), Some(0), "{read:?}");
    let table = stdout(&read);
    assert!(
        table.starts_with("NAME      STATUS   AGE\ndefault   Active   "),
        "{table}"
    );

    let before = programs.done("config current-context");
    for (line, said) in [
        (
            format!(
                "set-cluster kubeapitest --server={} --certificate-authority={ca}",
                server.url
            ),
            "Cluster \"kubeapitest\" set.\n",
        ),
        (
            format!(
                "set-credentials kubeapitest --client-certificate={certificate} --client-key={key}"
            ),
            "User \"kubeapitest\" set.\n",
        ),
        (
            "set-context kubeapitest --cluster=kubeapitest --namespace=default --user=kubeapitest"
                .to_owned(),
            "Context \"kubeapitest\" created.\n",
        ),
        (
            "use-context kubeapitest".to_owned(),
            "Switched to context \"kubeapitest\".\n",
        ),
    ] {
        assert_eq!(programs.done(&format!("config {line}")), said);
    }
    assert_eq!(programs.done("config current-context"), "kubeapitest\n");
    assert_eq!(
        programs.done("get ns/default -o name"),
        "namespace/default\n"
    );
    for property in [
        "contexts.kubeapitest",
        "clusters.kubeapitest",
        "users.kubeapitest",
        "current-context",
    ] {
        let said = programs.done(&format!("config unset {property}"));
        assert_eq!(said, format!("Property \"{property}\" unset.\n"));
    }
    let refused = programs.refused("config current-context");
    assert_eq!(refused, "error: current-context is not set\n");
    programs.done(&format!("config use-context {before}"));
    let after: Value =
        serde_json::from_str(&programs.done("config view --raw -o json")).expect("JSON");
    assert_eq!(after, config);
    server.end();
}

/// kwokctl and controller-runtime's KubeCtl read paths and objects.
#[test]
fn objects_and_paths_are_read_as_kubectl_reads_them() {
    let programs = Programs::new("get");
    let server = programs.serve();
    assert_eq!(programs.done("get --raw /healthz"), "ok");
    let kubeconfig = programs.kubeconfig.to_str().expect("UTF-8");
    let line = format!("--kubeconfig {kubeconfig} get --raw /healthz");
    assert_eq!(programs.done(&line), "ok");
    let object: Value =
        serde_json::from_str(&programs.done("get namespaces default -o json")).expect("JSON");
    assert_eq!(object["kind"], "Namespace");
    assert!(
        object["metadata"].get("managedFields").is_none(),
        "{object}"
    );
    let yaml = programs.done("get ns default -o yaml");
    assert!(
        yaml.starts_with("apiVersion: v1\nkind: Namespace\nmetadata:\n"),
        "{yaml}"
    );
    let names = "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n";
    assert_eq!(programs.done("get Namespace -o name"), names);
    let both = programs.done("get svc -A -l component=apiserver -o name");
    assert_eq!(both, "service/kubernetes\n");
    let empty = programs.run("get deploy.apps -n kube-system");
    assert_eq!(empty.status.code(), Some(0));
    assert_eq!(
        empty.stderr,
        b"No resources found in kube-system namespace.\n"
    );
    assert_eq!(programs.done("get ns none --ignore-not-found"), "");
    for (line, why) in [
        (
            "get ns none",
            "Error from server (NotFound): namespaces \"none\" not found\n",
        ),
        (
            "get foo",
            "error: the server doesn't have a resource type \"foo\"\n",
        ),
        (
            "get ns default -A",
            "error: a resource cannot be retrieved by name across all namespaces\n",
        ),
        (
            "get --raw /none",
            "Error from server (NotFound): the server could not find the requested resource\n",
        ),
        (
            "get pods --as bob",
            "Error from server (Forbidden): pods is forbidden: User \"bob\" cannot list resource \"pods\" in API \
             group \"\" in the namespace \"default\"\n",
        ),
        (
            "get ns -s http://127.0.0.1:1",
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n",
        ),
        (
            "get ns --nope",
            "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.\n",
        ),
    ] {
        assert_eq!(programs.refused(line), why, "{line}");
    }
    server.end();
}

#[test]
fn manifests_are_applied() {
    let programs = Programs::new("apply");
    let server = programs.serve();
    let manifest = programs.write("manifests/a.yaml", CONFIG_MAP);
    programs.write("manifests/notes.txt", "nothing to apply");
    let apply = format!("apply -f {manifest}");
    assert_eq!(programs.done(&apply), "configmap/a created\n");
    assert_eq!(programs.done(&apply), "configmap/a unchanged\n");
    programs.write("manifests/a.yaml", CONFIG_MAP.replace("x: '1'", "z: '2'"));
    let dir = programs.path("manifests");
    let dry = programs.done(&format!("apply -f {dir} --dry-run=server"));
    assert_eq!(dry, "configmap/a configured (server dry run)\n");
    assert_eq!(
        programs.done(&format!("apply -f {dir}")),
        "configmap/a configured\n"
    );
    let object: Value = serde_json::from_str(&programs.done("get cm a -o json")).expect("JSON");
    assert_eq!(object["data"], serde_json::json!({"z": "2"}));
    let table = programs.done("get cm,secret -l l=q --show-labels");
    assert!(
        table.starts_with("NAME          DATA   AGE   LABELS\nconfigmap/a   1 "),
        "{table}"
    );

    let mut child = programs
        .command("apply --server-side -n kube-system -f - -o name")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(CONFIG_MAP.as_bytes()).expect("it reads");
    drop(stdin);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.stdout, b"configmap/a\n", "{ended:?}");
    assert_eq!(
        programs.done("get cm a -n kube-system -o name"),
        "configmap/a\n"
    );

    let force = "apply --server-side --field-manager=other --force-conflicts -f";
    let done = programs.done(&format!("{force} {manifest}"));
    assert_eq!(done, "configmap/a serverside-applied\n");
    programs.write("manifests/a.yaml", CONFIG_MAP.replace("x: '1'", "z: '3'"));
    let why = programs.refused(&format!("apply --server-side -f {manifest}"));
    assert!(
        why.starts_with("error: Apply failed with 1 conflict: conflict with \"other\": .data.z\n"),
        "{why}"
    );

    let mixed = "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: f}\n---\n".to_owned()
        + &CONFIG_MAP.replace("name: a", "name: b");
    let path = programs.write("mixed.yaml", mixed);
    let ended = programs.run(&format!("apply -f {path}"));
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.stdout, b"configmap/b created\n");
    let why = String::from_utf8(ended.stderr).expect("UTF-8");
    assert!(
        why.contains("no matches for kind \"Foo\" in version \"example.com/v1\"\nensure CRDs are installed first"),
        "{why}"
    );
    let path = programs.write("bad.yaml", CONFIG_MAP.replace("name: a", "name: A_B"));
    let why = programs.refused(&format!("apply -f {path}"));
    assert!(
        why.starts_with(
            "The ConfigMap \"A_B\" is invalid: metadata.name: Invalid value: \"A_B\": "
        ),
        "{why}"
    );
    let why = programs.refused("apply -f none.yaml");
    assert_eq!(why, "error: the path \"none.yaml\" does not exist\n");
    server.end();
}

#[test]
fn other_commands_name_those_that_there_are() {
    let programs = Programs::new("other");
    assert!(Path::new(&programs.path("bin/kubectl")).exists());
    let why = programs.refused("-n x wait pods");
    assert!(
        why.starts_with("error: unknown command \"wait\": kubeproof's kubectl has get, apply, version and config"),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");
    let version: Value =
        serde_json::from_str(&programs.done("version --client -o json")).expect("JSON");
    assert_eq!(
        version["clientVersion"]["gitVersion"],
        kubeproof::apiserver::KUBERNETES_VERSION
    );
    let empty = "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n";
    assert_eq!(programs.done("config view"), empty);
}
