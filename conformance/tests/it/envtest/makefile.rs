//! `make test` of a kubebuilder project, with a `go` of the test's own on the path.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::plane::Plane;
use super::{names, start_in};

/// Answers as `go` does to the project's Makefile. `go test` runs the test [`suite_of_the_makefile`] in this program.
const GO: &str = r#"#!/bin/sh
echo "go $*" >> "$CALLS"
case "$1 $2" in
"fmt ./..." | "vet ./...") ;;
"list -m") awk -v module="$5" '$1 == module { print $2 }' go.mod ;;
"list ./...") echo example.com/pages/internal/controller ;;
"install "*) cp "$SETUP_ENVTEST" "$GOBIN/setup-envtest" ;;
"test "*) exec "$SUITE" --exact envtest::makefile::suite_of_the_makefile ;;
*) echo "unexpected: go $*" >&2; exit 2 ;;
esac
"#;

/// Whether the machine has `make`, without which there is no Makefile to run. Everything else needs only cargo.
fn has_make() -> bool {
    Command::new("make").arg("--version").output().is_ok()
}

/// A copy of the project, and a directory with `go`.
struct Project {
    plane: Plane,
    dir: PathBuf,
}

impl Project {
    fn new(name: &str) -> Self {
        let plane = Plane::new(name);
        let dir = plane.dir.join("project");
        let bin = plane.dir.join("go");
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&bin).unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/kubebuilder");
        for file in ["Makefile", "go.mod"] {
            fs::copy(own.join(file), dir.join(file)).unwrap();
        }
        fs::write(bin.join("go"), GO).unwrap();
        fs::set_permissions(bin.join("go"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { plane, dir }
    }

    fn make(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.plane.path("go"));
        let mut make = Command::new("make");
        for name in [
            "KUBEBUILDER_ASSETS",
            "ENVTEST_USE_ENV",
            "ENVTEST_INSTALLED_ONLY",
        ] {
            make.env_remove(name);
        }
        make.arg("test")
            .args(args)
            .current_dir(&self.dir)
            .env("PATH", path)
            .env("CALLS", self.plane.path("calls"))
            .env("SETUP_ENVTEST", self.plane.assets.join("setup-envtest"))
            .env("SUITE", std::env::current_exe().unwrap())
            .env("XDG_CACHE_HOME", self.plane.path("cache"))
            .envs(variables.iter().copied());
        make.output().unwrap()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.plane.path("calls")).unwrap()
    }
}

/// The suite of the Makefile's `go test`, which takes the programs that the Makefile names. By itself it takes its own.
#[tokio::test]
async fn suite_of_the_makefile() {
    let mut plane = Plane::new(&format!("makefile-suite-{}", std::process::id()));
    if std::env::var_os("SUITE").is_some() {
        plane.assets = PathBuf::from(std::env::var("KUBEBUILDER_ASSETS").unwrap());
    }
    let ready = start_in(plane, &[], &[]).await;
    assert!(names(&ready.admin).await.contains(&"default".to_owned()));
}

#[test]
fn an_unmodified_makefile_takes_the_programs_of_the_variable() {
    if !has_make() {
        return;
    }
    let project = Project::new("makefile");
    let assets = project.plane.assets.to_str().unwrap();
    let variables = [
        ("KUBEBUILDER_ASSETS", assets),
        ("ENVTEST_USE_ENV", "true"),
        ("ENVTEST_INSTALLED_ONLY", "true"),
    ];
    let output = project.make(&[], &variables);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains(&format!("KUBEBUILDER_ASSETS=\"{assets}\" go test")),
        "{printed}"
    );
    assert!(printed.contains("1 passed"), "{printed}");
    assert!(
        project
            .calls()
            .contains("go install sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.23.1")
    );
}

#[test]
fn an_unmodified_makefile_takes_kubeproofs_setup_envtest() {
    if !has_make() {
        return;
    }
    let project = Project::new("makefile-setup");
    let setup = project.plane.assets.join("setup-envtest");
    let setup = setup.to_str().unwrap();
    let output = project.make(&[&format!("ENVTEST={setup}"), "-o", setup], &[]);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("1 passed"), "{printed}");
    assert!(!project.calls().contains("go install"));
}
