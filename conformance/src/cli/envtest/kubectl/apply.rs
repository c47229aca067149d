//! `kubectl apply`, as server-side apply in both of its forms.
//!
//! Unlike in kubectl, without `--server-side` fields of other managers are taken over and no last-applied annotation is written,
//! because the merge happens in the server.
//! Source: kubectl `pkg/cmd/apply/apply.go`, cli-runtime `pkg/resource/visitor.go`.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kube::api::{DynamicObject, GetParams, Patch, PatchParams, ValidationDirective};
use kube::core::{Request, Resource as _};
use kubeproof_machinery::json::Value;
use kubeproof_machinery::yaml::decode::Yaml;

use super::connection::Connection;
use super::discovery::{Resource, Resources};
use super::failure::{Failure, Refused};
use super::printing::{self, Format};
use crate::cli::pflag::Parsed;

/// The manager of fields applied by kubectl.
const MANAGER: &str = "kubectl";
const JSON: &str = "application/json";
const CONFLICT_ADVICE: &str = "\
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// An object of a file.
#[derive(Debug)]
struct Manifest {
    object: Value,
    /// The file, as failures name it.
    source: String,
}

impl Manifest {
    fn text(&self, pointer: &str) -> &str {
        let found = self.object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }
}

pub(super) async fn run(flags: &Parsed) -> Result<(), Failure> {
    if let Some(argument) = flags.args().first() {
        return Err(Failure::error(format_args!(
            "Unexpected args: [{argument}]\nSee 'kubectl apply -h' for help and examples"
        )));
    }
    let files = flags.all("filename");
    if files.is_empty() {
        return Err(Failure::error("must specify one of -f and -k"));
    }
    let format = Format::read(flags.text("output"), &[])?;
    let how = How::read(flags)?;
    let mut manifests = Vec::new();
    for file in &files {
        read(file, flags.is_on("recursive"), &mut manifests)?;
    }
    if manifests.is_empty() {
        return Err(Failure::error("no objects passed to apply"));
    }
    let connection = Connection::open(flags).await?;
    let resources = Resources::of(&connection).await?;
    let (mut applied, mut failures) = (Vec::new(), Vec::new());
    // All kinds are looked up first, so a definition and its objects need two commands.
    let mut known = Vec::new();
    for manifest in manifests {
        let (api_version, kind) = (manifest.text("/apiVersion"), manifest.text("/kind"));
        match resources.of_kind(api_version, kind) {
            Some(resource) => known.push((resource, manifest)),
            None => failures.push(Failure(format!(
                "resource mapping not found for name: {:?} namespace: {:?} from {:?}: no matches for kind {kind:?} in version {api_version:?}\n\
                 ensure CRDs are installed first",
                manifest.text("/metadata/name"),
                manifest.text("/metadata/namespace"),
                manifest.source,
            ))),
        }
    }
    for (resource, manifest) in known {
        match how.apply(&connection, resource, &manifest).await {
            Ok((word, object)) => {
                if format.is_none() {
                    let name = printing::name(&object);
                    printing::print(&format!("{name} {word}{}\n", how.suffix()));
                }
                applied.push(object);
            }
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(format) = format.filter(|_| !applied.is_empty()) {
        if !flags.is_on("show-managed-fields") {
            applied
                .iter_mut()
                .for_each(printing::without_managed_fields);
        }
        let is_single = applied.len() == 1;
        printing::print(&printing::objects(applied, format, is_single));
    }
    Failure::all(failures)
}

/// The flags that are about writes.
struct How {
    is_server_side: bool,
    force: bool,
    manager: String,
    validation: ValidationDirective,
    dry_run: Option<&'static str>,
}

impl How {
    fn read(flags: &Parsed) -> Result<Self, Failure> {
        let is_server_side = flags.is_on("server-side");
        if flags.is_on("force-conflicts") && !is_server_side {
            return Err(Failure::error(
                "--force-conflicts only works with --server-side",
            ));
        }
        let validation = match flags.text("validate").unwrap_or("strict") {
            "true" | "strict" => ValidationDirective::Strict,
            "warn" => ValidationDirective::Warn,
            "false" | "ignore" => ValidationDirective::Ignore,
            other => {
                return Err(Failure::error(format_args!(
                    "invalid - validate option {other:?}"
                )));
            }
        };
        let dry_run = match flags.text("dry-run").unwrap_or("none") {
            "none" | "false" => None,
            "client" | "true" => Some(" (dry run)"),
            "server" => Some(" (server dry run)"),
            other => {
                return Err(Failure::error(format_args!(
                    "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
                )));
            }
        };
        Ok(Self {
            is_server_side,
            force: !is_server_side || flags.is_on("force-conflicts"),
            manager: flags.text("field-manager").unwrap_or(MANAGER).to_owned(),
            validation,
            dry_run,
        })
    }

    /// Returns what follows the word of an object that was not changed in earnest.
    fn suffix(&self) -> &'static str {
        self.dry_run.unwrap_or_default()
    }

    /// Applies an object; returns what happened to it, and the object.
    async fn apply(
        &self,
        connection: &Connection,
        resource: &Resource,
        manifest: &Manifest,
    ) -> Result<(&'static str, Value), Failure> {
        let name = manifest.text("/metadata/name");
        if name.is_empty() {
            let prefix = manifest.text("/metadata/generateName");
            return Err(Failure::error(match prefix {
                "" => "resource name may not be empty".to_owned(),
                prefix => format!("from {prefix}: cannot use generate name with apply"),
            }));
        }
        let namespace = namespace(connection, manifest)?;
        let namespace = resource.is_namespaced.then_some(namespace);
        let path = DynamicObject::url_path(&resource.api, namespace);
        let invalid = |error: kube::core::request::Error| Failure::error(error);
        let before = match self.is_server_side {
            true => None,
            false => {
                let request = Request::new(&path).get(name, &GetParams::default());
                match connection.send(request.map_err(invalid)?, JSON).await {
                    Ok(answered) => Some(content(answered.json()?)),
                    Err(refused) if refused.is_not_found() => None,
                    Err(refused) => {
                        return Err(
                            refused.when("retrieving current configuration of", &manifest.source)
                        );
                    }
                }
            }
        };
        let params = PatchParams {
            dry_run: self.dry_run.is_some(),
            force: self.force,
            field_manager: Some(self.manager.clone()),
            field_validation: Some(self.validation.clone()),
        };
        let request = Request::new(&path).patch(name, &params, &Patch::Apply(&manifest.object));
        let action = match before.is_some() {
            true => "applying patch from",
            false => "creating",
        };
        let sent = connection.send(request.map_err(invalid)?, JSON).await;
        let answered = sent.map_err(|refused| match self.is_server_side {
            true => self.advised(refused),
            false => refused.when(action, &manifest.source),
        })?;
        let object = answered.json()?;
        let word = match before {
            _ if self.is_server_side => "serverside-applied",
            None => "created",
            Some(before) if before == content(object.clone()) => "unchanged",
            Some(_) => "configured",
        };
        Ok((word, object))
    }

    /// Adds kubectl's advice to a conflict.
    fn advised(&self, refused: Refused) -> Failure {
        match refused {
            Refused::Status(status) if status.code == 409 => {
                Failure::error(format_args!("{}\n{CONFLICT_ADVICE}", status.message))
            }
            refused => refused.into(),
        }
    }
}

/// Returns the namespace of an object, which a flag must not contradict.
fn namespace<'n>(connection: &'n Connection, manifest: &'n Manifest) -> Result<&'n str, Failure> {
    let own = manifest.text("/metadata/namespace");
    let chosen = connection.namespace.as_str();
    match own {
        "" => Ok(chosen),
        own if connection.has_namespace_flag && own != chosen => Err(Failure::error(format_args!(
            "the namespace from the provided object {own:?} does not match the namespace {chosen:?}. \
             You must pass '--namespace={own}' to perform this operation."
        ))),
        own => Ok(own),
    }
}

/// Returns an object without what each write changes. Versions are no sign: a dry run has none of its own.
fn content(mut object: Value) -> Value {
    printing::without_managed_fields(&mut object);
    let metadata = object.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    object
}

/// Reads the objects of a file, a directory or standard input.
fn read(path: &str, is_recursive: bool, manifests: &mut Vec<Manifest>) -> Result<(), Failure> {
    if path == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().read_to_string(&mut text);
        read.map_err(|error| Failure::error(format_args!("reading standard input: {error}")))?;
        return parse(&text, "STDIN", manifests);
    }
    if path.starts_with("http://") || path.starts_with("https://") {
        return Err(Failure::error(format_args!(
            "{path}: kubeproof's kubectl reads files only; an installed kubectl is handed over to"
        )));
    }
    let root = Path::new(path);
    let failed = |path: &Path, error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::error(format_args!(
            "the path {:?} does not exist",
            path.display().to_string()
        )),
        _ => Failure::error(format_args!("{}: {error}", path.display())),
    };
    let mut files = BTreeSet::new();
    if root.is_dir() {
        let mut open: Vec<PathBuf> = vec![root.to_owned()];
        while let Some(dir) = open.pop() {
            let entries = std::fs::read_dir(&dir).map_err(|error| failed(&dir, &error))?;
            for entry in entries {
                let entry = entry.map_err(|error| failed(&dir, &error))?.path();
                let extension = entry.extension().and_then(|extension| extension.to_str());
                if entry.is_dir() {
                    open.extend(is_recursive.then_some(entry));
                } else if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
                    files.insert(entry);
                }
            }
        }
        if files.is_empty() {
            return Err(Failure::error(format_args!(
                "error reading [{path}]: recognized file extensions are [.json .yaml .yml]"
            )));
        }
    } else {
        files.insert(root.to_owned());
    }
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&file, &error))?;
        parse(&text, &file.display().to_string(), manifests)?;
    }
    Ok(())
}

/// Reads the objects of a text; those of lists one by one.
fn parse(text: &str, source: &str, manifests: &mut Vec<Manifest>) -> Result<(), Failure> {
    let documents = Yaml::documents(text).map_err(|why| {
        Failure::error(format_args!(
            "error parsing {source}: error converting YAML to JSON: {why}"
        ))
    })?;
    for (mut object, _) in documents {
        if object.is_null() {
            continue;
        }
        for field in ["kind", "apiVersion"] {
            if object[field].as_str().is_none_or(str::is_empty) {
                return Err(Failure::error(format_args!(
                    "unable to decode {source:?}: Object '{field}' is missing in '{object}'"
                )));
            }
        }
        let is_list = object["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        let objects = match object.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => items,
            Some(items) => {
                object["items"] = items;
                vec![object]
            }
            None => vec![object],
        };
        manifests.extend(objects.into_iter().map(|object| Manifest {
            object,
            source: source.to_owned(),
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, Failure> {
        let mut manifests = Vec::new();
        parse(text, "f.yaml", &mut manifests)?;
        let names = manifests
            .iter()
            .map(|one| one.text("/metadata/name").to_owned());
        Ok(names.collect())
    }

    #[test]
    fn files_have_documents_and_lists() {
        let text = "---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
                    {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}\n";
        assert_eq!(names(text), Ok(vec!["a".to_owned(), "b".to_owned()]));
        let failure = names("apiVersion: v1\n").unwrap_err();
        assert_eq!(
            failure.0,
            "error: unable to decode \"f.yaml\": Object 'kind' is missing in '{\"apiVersion\":\"v1\"}'"
        );
        let failure = names("a: [").unwrap_err();
        assert!(
            failure
                .0
                .starts_with("error: error parsing f.yaml: error converting YAML to JSON: yaml: "),
            "{}",
            failure.0
        );
    }
}
