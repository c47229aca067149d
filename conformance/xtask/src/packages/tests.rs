use serde_json::Value;

use super::*;

/// A file of the repository in TOML.
fn toml(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap();
    basic_toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file of the repository in JSON.
fn json(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
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

/// The manifests of the crates that are published, with their directories.
fn published() -> Vec<(String, Value)> {
    let members = toml("Cargo.toml")["workspace"]["members"].clone();
    let members: Vec<String> = serde_json::from_value(members).unwrap();
    let manifests = members.into_iter().map(|member| {
        let manifest = toml(&format!("{member}/Cargo.toml"));
        (member, manifest)
    });
    manifests
        .filter(|(_, manifest)| manifest["package"]["publish"] != false)
        .collect()
}

#[test]
fn every_crate_says_of_itself_what_a_registry_shows() {
    let workspace = toml("Cargo.toml")["workspace"]["package"].clone();
    assert!(workspace["keywords"].as_array().unwrap().len() <= 5);
    let crates = published();
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
fn the_crates_are_published_with_the_version_that_they_ask_of_each_other() {
    let workspace = toml("Cargo.toml")["workspace"].clone();
    let dependencies = workspace["dependencies"].as_object().unwrap();
    let own = dependencies.values().filter(|one| !one["path"].is_null());
    let versions: Vec<&Value> = own.map(|one| &one["version"]).collect();
    assert_eq!(versions.len(), published().len() - 1);
    for version in versions {
        assert_eq!(version, &workspace["package"]["version"]);
    }
}

/// A published crate has none of the files around it, so a file that it embeds lies below its `src`.
#[test]
fn sources_embed_only_files_of_their_crate() {
    let mut embedded = 0;
    for (member, _) in published() {
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
