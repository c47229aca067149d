use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::published::{self, manifests};

/// A file of the repository in TOML.
fn toml(path: &str) -> Value {
    published::toml(path).unwrap()
}

/// A file of the repository in JSON.
fn json(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The targets for which dist builds archives.
fn targets() -> Vec<String> {
    let targets = toml("dist-workspace.toml")["dist"]["targets"].clone();
    serde_json::from_value(targets).unwrap()
}

#[test]
fn packages_are_chosen_by_name_and_tried_in_their_order() {
    let names = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let packages = chosen(&names)?;
        anyhow::Ok(packages.iter().map(|one| one.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&["npm", "python"]).unwrap(), ["python", "npm"]);
    assert_eq!(names(&[]).unwrap().len(), PACKAGES.len());
    assert!(names(&["pypi"]).is_err());
}

#[test]
fn every_package_that_is_tried_is_there() {
    for package in &PACKAGES {
        let source = root().join("packaging").join(package.name);
        assert!(source.is_dir(), "{}", source.display());
    }
}

#[test]
fn the_npm_packages_have_the_version_of_the_crates() {
    let manifest = json("packaging/npm/package.json");
    let platforms = manifest["optionalDependencies"].as_object().unwrap();
    assert!(!platforms.is_empty());
    for version in platforms.values().chain([&manifest["version"]]) {
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn a_program_of_this_test_is_dynamic_and_a_text_is_no_program() {
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        assert!(!is_static(&std::env::current_exe().unwrap()).unwrap());
    }
    assert!(!is_static(&root().join("LICENSE")).unwrap());
}

#[test]
fn every_package_has_the_name_of_the_program() {
    let crates = toml("conformance/Cargo.toml");
    let names = [
        &crates["package"]["name"],
        &crates["bin"][0]["name"],
        &toml("packaging/python/pyproject.toml")["project"]["name"],
        &json("packaging/npm/package.json")["name"],
    ];
    assert_eq!(names, ["kubeproof"; 4]);
    let module = fs::read_to_string(root().join("packaging/go/go.mod")).unwrap();
    let repository = env!("CARGO_PKG_REPOSITORY").trim_start_matches("https://");
    let expected = format!("module {repository}/packaging/go");
    assert_eq!(module.lines().next(), Some(expected.as_str()));
}

#[test]
fn binstall_looks_for_the_archives_that_dist_makes() {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let version = env!("CARGO_PKG_VERSION");
    let binstall = toml("conformance/Cargo.toml")["package"]["metadata"]["binstall"].clone();
    let filled = |template: &Value, target: &str| {
        let parts = [
            ("{ repo }", repository),
            ("{ version }", version),
            ("{ name }", "kubeproof"),
            ("{ bin }", "kubeproof"),
            ("{ target }", target),
        ];
        let template = template.as_str().unwrap().to_owned();
        parts
            .iter()
            .fold(template, |text, (name, value)| text.replace(name, value))
    };
    // Without it dist has no address for its script, and fails.
    assert_eq!(toml("dist-workspace.toml")["dist"]["hosting"], "github");
    // As dist names an archive, and the directory in it.
    let url = |target: &str| {
        format!("{repository}/releases/download/v{version}/kubeproof-{target}.tar.xz")
    };
    let program = |target: &str| format!("kubeproof-{target}/kubeproof");
    assert_eq!(binstall["pkg-fmt"], "txz");
    let built = targets();
    for target in &built {
        assert_eq!(filled(&binstall["pkg-url"], target), url(target));
        assert_eq!(filled(&binstall["bin-dir"], target), program(target));
    }
    // A machine with glibc runs the static program, too.
    let others = binstall["overrides"].as_object().unwrap();
    for (target, paths) in others {
        let instead = target.replace("-gnu", "-musl");
        assert!(built.contains(&instead) && !built.contains(target));
        assert_eq!(filled(&paths["pkg-url"], target), url(&instead));
        assert_eq!(filled(&paths["bin-dir"], target), program(&instead));
    }
    let of_linux = built.iter().filter(|target| target.contains("-linux-"));
    assert_eq!(of_linux.count(), others.len());
}

#[test]
fn npm_has_a_package_for_each_target_of_dist() {
    let platforms: BTreeSet<String> = targets()
        .iter()
        .map(|target| {
            let cpu = match target.split('-').next() {
                Some("x86_64") => "x64",
                Some("aarch64") => "arm64",
                other => panic!("{other:?}"),
            };
            let system = ["darwin", "linux"]
                .iter()
                .find(|one| target.contains(**one));
            format!("@kubeproof/{}-{cpu}", system.unwrap())
        })
        .collect();
    let manifest = json("packaging/npm/package.json");
    let named = manifest["optionalDependencies"].as_object().unwrap();
    assert_eq!(named.keys().cloned().collect::<BTreeSet<_>>(), platforms);
}

#[test]
fn packages_are_built_with_the_profile_of_releases() {
    let workspace = toml("Cargo.toml");
    let dist = &workspace["profile"]["dist"];
    assert_eq!(
        (&dist["lto"], &dist["package"]["kubeproof"]["strip"]),
        (&"fat".into(), &true.into())
    );
    let python = toml("packaging/python/pyproject.toml");
    assert_eq!(python["tool"]["maturin"]["profile"], "dist");
    let releasing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    assert!(releasing.contains("cargo build --profile dist --locked"));
}

#[test]
fn the_action_passes_each_of_its_inputs_to_the_script() {
    let read = |name: &str| fs::read_to_string(root().join("packaging/action").join(name)).unwrap();
    let (action, script) = (read("action.yml"), read("install.sh"));
    let inputs = action.split("inputs:\n").nth(1).unwrap();
    let inputs = inputs.split("outputs:\n").next().unwrap();
    let inputs: Vec<&str> = inputs
        .lines()
        .filter(|line| !line.starts_with("    "))
        .map(|line| line.trim().trim_end_matches(':'))
        .collect();
    assert!(inputs.contains(&"version"), "{inputs:?}");
    for input in inputs {
        let variable = format!("INPUT_{}", input.to_uppercase());
        let passed = format!("{variable}: ${{{{ inputs.{input} }}}}");
        assert!(action.contains(&passed), "{passed}");
        assert!(script.contains(&variable), "{variable}");
    }
}

#[test]
fn every_crate_says_of_itself_what_a_registry_shows() {
    let workspace = toml("Cargo.toml")["workspace"]["package"].clone();
    assert!(workspace["keywords"].as_array().unwrap().len() <= 5);
    let crates = manifests().unwrap();
    assert!(!crates.is_empty());
    for (member, manifest) in crates {
        let package = &manifest["package"];
        assert!(package["description"].is_string(), "{member}");
        for field in [
            "version",
            "edition",
            "rust-version",
            "license",
            "repository",
            "keywords",
            "categories",
        ] {
            assert_eq!(package[field]["workspace"], true, "{member}: {field}");
            assert!(!workspace[field].is_null(), "{field}");
        }
        // Everything else is left at home: goldens, scenarios, fixtures, tests.
        let included = package["include"].as_array().unwrap();
        for path in ["/LICENSE", "/src"] {
            assert!(included.contains(&path.into()), "{member}: {path}");
        }
        for path in included {
            let file = path.as_str().unwrap().trim_start_matches('/');
            assert!(root().join(&member).join(file).exists(), "{member}: {file}");
        }
    }
}

#[test]
fn the_clients_of_each_language_know_every_control_endpoint() {
    let guide = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let paths = guide.lines().filter_map(|line| {
        let path = line.strip_prefix("\"path\":\"/kubeproof/v1/")?;
        Some(path.trim_end_matches('"').trim_end_matches("/NAME"))
    });
    let paths: BTreeSet<&str> = paths.collect();
    assert!(paths.contains("watches/expire"), "{paths:?}");
    for file in [
        "python/src/kubeproof/_control.py",
        "npm/lib/control.js",
        "go/control.go",
    ] {
        let client = fs::read_to_string(root().join("packaging").join(file)).unwrap();
        for path in &paths {
            // With the root of the endpoints, or as the argument of a function that knows it.
            let forms = [
                format!("/kubeproof/v1/{path}"),
                format!("\"{path}\""),
                format!("'{path}'"),
            ];
            assert!(
                forms.iter().any(|form| client.contains(form)),
                "{file}: {path}"
            );
        }
    }
}

/// The number of crates that a build of this one compiles, itself included.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn crates_in_a_build(name: &str, flags: &[&str]) -> usize {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--offline", "--package", name]);
    tree.args([
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let output = tree.args(flags).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let named = text.lines().map(|line| {
        let mut words = line.split(' ');
        (words.next(), words.next())
    });
    named.collect::<BTreeSet<_>>().len()
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_guide_has_the_number_of_crates_in_a_build() {
    let guide = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let (_, table) = guide.split_once("| crates in the build |").unwrap();
    let rows = table.lines().skip(2).map_while(|line| {
        let (_, number) = line.trim_end_matches(" |").rsplit_once("| ")?;
        number.parse().ok()
    });
    let none = ["--no-default-features"];
    let counted = ["kubeproof-apiserver", "kubeproof"]
        .map(|name| [crates_in_a_build(name, &none), crates_in_a_build(name, &[])]);
    assert_eq!(rows.collect::<Vec<usize>>(), counted.concat());
}

#[test]
fn the_crates_are_published_with_the_version_that_they_ask_of_each_other() {
    let workspace = toml("Cargo.toml")["workspace"].clone();
    let dependencies = workspace["dependencies"].as_object().unwrap();
    let own = dependencies.values().filter(|one| !one["path"].is_null());
    let versions: Vec<&Value> = own.map(|one| &one["version"]).collect();
    assert_eq!(versions.len(), manifests().unwrap().len() - 1);
    for version in versions {
        assert_eq!(version, &workspace["package"]["version"]);
    }
}

/// A published crate has none of the files around it, so a file that it embeds lies below its `src`.
#[test]
fn sources_embed_only_files_of_their_crate() {
    let mut embedded = 0;
    for (member, _) in manifests().unwrap() {
        let source = root().join(&member).join("src");
        let mut open = vec![source.clone()];
        while let Some(directory) = open.pop() {
            for path in files(&directory).unwrap() {
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let is_code = path.extension().is_some_and(|end| end == "rs");
                // Unit tests are not run from a package.
                let is_test = path.file_stem().is_some_and(|name| name == "tests");
                if !is_code || is_test {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                for named in ["include_str!(\"", "include_bytes!(\""] {
                    for rest in text.split(named).skip(1) {
                        let file = rest.split('"').next().unwrap();
                        let whole = path.with_file_name(file).canonicalize().unwrap();
                        let place = source.canonicalize().unwrap();
                        assert!(whole.starts_with(place), "{}: {file}", path.display());
                        embedded += 1;
                    }
                }
            }
        }
    }
    assert!(embedded > 0, "no source embeds a file");
}
