//! `kubectl config`: shows and changes kubeconfig files.
//!
//! Source: kubectl `pkg/cmd/config`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubeproof_machinery::json::{Value, json};

use super::failure::Failure;
use super::kubeconfig::{self, Files, Merged, Section};
use super::printing::{self, Format};
use crate::cli::out;
use crate::cli::pflag::Parsed;

const COMMANDS: &str = "current-context, delete-cluster, delete-context, delete-user, get-clusters, get-contexts, \
                        get-users, rename-context, set, set-cluster, set-context, set-credentials, unset, \
                        use-context and view";

pub(super) fn run(flags: &Parsed) -> Result<(), Failure> {
    let Some((command, args)) = flags.args().split_first() else {
        printing::print(&format!("kubectl config has the commands {COMMANDS}.\n"));
        return Ok(());
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut files = Files::load(flags.text("kubeconfig"))?;
    let done = match (command.as_str(), &args[..]) {
        ("view", []) => view(&files, flags)?,
        ("current-context", _) => current_context(&files)?,
        ("get-contexts", names) => contexts(&files, names, flags)?,
        ("get-clusters", []) => names(&files, Section::Clusters),
        ("get-users", []) => names(&files, Section::Users),
        ("use-context" | "use", [name]) => use_context(&mut files, name)?,
        ("set-cluster", [name]) => set_cluster(&mut files, name, flags)?,
        ("set-credentials", [name]) => set_credentials(&mut files, name, flags)?,
        ("set-context", names) => set_context(&mut files, names, flags)?,
        ("rename-context", [old, new]) => rename_context(&mut files, old, new)?,
        ("delete-context", [name]) => delete(&mut files, Section::Contexts, name)?,
        ("delete-cluster", [name]) => delete(&mut files, Section::Clusters, name)?,
        ("delete-user", [name]) => delete(&mut files, Section::Users, name)?,
        ("set", [property, value]) => {
            let value = match flags.is_on("set-raw-bytes") {
                true => STANDARD.encode(value),
                false => (*value).to_owned(),
            };
            set_property(&mut files, property, Some(&value))?
        }
        ("unset", [property]) => set_property(&mut files, property, None)?,
        (known, args) if COMMANDS.contains(known) => {
            return Err(Failure::error(format_args!("Unexpected args: {args:?}")));
        }
        (unknown, _) => {
            return Err(Failure::error(format_args!(
                "unknown command {unknown:?}\nkubectl config has the commands {COMMANDS}"
            )));
        }
    };
    printing::print(&done);
    Ok(())
}

/// Returns the merged files, without credentials unless `--raw` is set.
fn view(files: &Files, flags: &Parsed) -> Result<String, Failure> {
    let format = Format::read(flags.text("output"), &[])?.unwrap_or(Format::Yaml);
    let mut merged = match flags.is_on("flatten") {
        true => {
            let mut merged = files.merged();
            embed(&mut merged)?;
            merged
        }
        false => files.merged_as_written(),
    };
    if let Some(context) = flags.text("context") {
        merged.current_context = context.to_owned();
    }
    if flags.is_on("minify") {
        minify(&mut merged)?;
    }
    // Flattened configs are for other machines, which need the credentials.
    if !flags.is_on("raw") && !flags.is_on("flatten") {
        for user in merged.users.values_mut() {
            redact(user, &["token", "password"], "REDACTED");
            redact(
                user,
                &["client-certificate-data", "client-key-data"],
                "DATA+OMITTED",
            );
        }
        for cluster in merged.clusters.values_mut() {
            redact(cluster, &["certificate-authority-data"], "DATA+OMITTED");
        }
    }
    let config = merged.to_config();
    Ok(match format {
        Format::Json => printing::to_json(&config),
        Format::Yaml => printing::to_yaml(&config),
        Format::Name => "config/<unknown>\n".to_owned(),
    })
}

fn redact(body: &mut Value, fields: &[&str], word: &str) {
    for field in fields {
        if let Some(value) = body.get_mut(*field) {
            *value = word.into();
        }
    }
}

/// Leaves only the current context, with its cluster and user.
fn minify(merged: &mut Merged) -> Result<(), Failure> {
    let current = &merged.current_context;
    if current.is_empty() {
        return Err(Failure::error(
            "current-context must exist in order to minify",
        ));
    }
    let Some(context) = merged.contexts.get(current).cloned() else {
        return Err(Failure::error(format_args!(
            "cannot locate context {current}"
        )));
    };
    let current = current.clone();
    merged.contexts.retain(|name, _| *name == current);
    merged
        .clusters
        .retain(|name, _| context["cluster"] == name.as_str());
    merged
        .users
        .retain(|name, _| context["user"] == name.as_str());
    Ok(())
}

/// Replaces the paths of certificates and keys by their content.
fn embed(merged: &mut Merged) -> Result<(), Failure> {
    for section in [Section::Clusters, Section::Users] {
        for body in merged.section_mut(section).values_mut() {
            for field in ["certificate-authority", "client-certificate", "client-key"] {
                if let Some(path) = body[field].as_str().map(str::to_owned) {
                    embed_file(body, field, &path)?;
                }
            }
        }
    }
    Ok(())
}

/// Stores the content of a file instead of its path.
fn embed_file(body: &mut Value, field: &str, path: &str) -> Result<(), Failure> {
    let content = std::fs::read(path);
    let content = content.map_err(|error| {
        Failure::error(format_args!(
            "could not read {field} data from {path}: {error}"
        ))
    })?;
    if let Some(fields) = body.as_object_mut() {
        fields.remove(field);
        fields.insert(format!("{field}-data"), STANDARD.encode(content).into());
    }
    Ok(())
}

fn current_context(files: &Files) -> Result<String, Failure> {
    match files.merged().current_context {
        none if none.is_empty() => Err(Failure::error("current-context is not set")),
        name => Ok(format!("{name}\n")),
    }
}

fn contexts(files: &Files, names: &[&str], flags: &Parsed) -> Result<String, Failure> {
    let merged = files.merged();
    let is_wanted = |name: &String| names.is_empty() || names.contains(&name.as_str());
    let found = merged.contexts.iter().filter(|(name, _)| is_wanted(name));
    let unknown = names
        .iter()
        .find(|name| !merged.contexts.contains_key(**name));
    if flags.text("output") == Some("name") {
        let lines = found.map(|(name, _)| format!("{name}\n"));
        return Ok(lines.collect());
    }
    let cells = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
    let mut lines = Vec::new();
    if !flags.is_on("no-headers") {
        lines.push(cells([
            "CURRENT",
            "NAME",
            "CLUSTER",
            "AUTHINFO",
            "NAMESPACE",
        ]));
    }
    for (name, context) in found {
        let field = |field: &str| context[field].as_str().unwrap_or_default();
        let mark = match *name == merged.current_context {
            true => "*",
            false => "",
        };
        lines.push(cells([
            mark,
            name,
            field("cluster"),
            field("user"),
            field("namespace"),
        ]));
    }
    let table = printing::align(&lines);
    match unknown {
        None => Ok(table),
        Some(name) => {
            printing::print(&table);
            Err(Failure::error(format_args!("context {name} not found")))
        }
    }
}

fn names(files: &Files, section: Section) -> String {
    let merged = files.merged();
    let lines = merged
        .section(section)
        .keys()
        .map(|name| format!("{name}\n"));
    std::iter::once("NAME\n".to_owned()).chain(lines).collect()
}

fn use_context(files: &mut Files, name: &str) -> Result<String, Failure> {
    if !files.merged().contexts.contains_key(name) {
        return Err(Failure::error(format_args!(
            "no context exists with the name: {name:?}"
        )));
    }
    files.set_current_context(name)?;
    Ok(format!("Switched to context {name:?}.\n"))
}

/// Returns the body of an entry to modify.
fn known(files: &Files, section: Section, name: &str) -> Value {
    let body = files.merged().section(section).get(name).cloned();
    body.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Sets a field to a flag's value if the flag is set; an empty value removes the field.
fn set_text(body: &mut Value, field: &str, flags: &Parsed, flag: &str) {
    if flags.is_set(flag) {
        match flags.text(flag) {
            Some(text) => body[field] = text.into(),
            None => remove(body, field),
        }
    }
}

fn remove(body: &mut Value, field: &str) {
    if let Some(fields) = body.as_object_mut() {
        fields.remove(field);
    }
}

/// Sets a field to the path of a file, or stores its content with `--embed-certs`.
fn set_file(body: &mut Value, field: &str, flags: &Parsed) -> Result<(), Failure> {
    if !flags.is_set(field) {
        return Ok(());
    }
    remove(body, &format!("{field}-data"));
    match flags.text(field) {
        None => remove(body, field),
        Some(path) if flags.is_on("embed-certs") => embed_file(body, field, path)?,
        Some(path) => {
            let path = kubeconfig::absolute(Path::new(path));
            body[field] = path.display().to_string().into();
        }
    }
    Ok(())
}

fn set_cluster(files: &mut Files, name: &str, flags: &Parsed) -> Result<String, Failure> {
    let mut body = known(files, Section::Clusters, name);
    for field in ["server", "tls-server-name", "proxy-url"] {
        set_text(&mut body, field, flags, field);
    }
    if flags.is_set("insecure-skip-tls-verify") {
        match flags.is_on("insecure-skip-tls-verify") {
            true => {
                body["insecure-skip-tls-verify"] = true.into();
                remove(&mut body, "certificate-authority");
                remove(&mut body, "certificate-authority-data");
            }
            false => remove(&mut body, "insecure-skip-tls-verify"),
        }
    }
    if flags.text("certificate-authority").is_some() {
        remove(&mut body, "insecure-skip-tls-verify");
    }
    set_file(&mut body, "certificate-authority", flags)?;
    files.set(Section::Clusters, name, body)?;
    Ok(format!("Cluster {name:?} set.\n"))
}

fn set_credentials(files: &mut Files, name: &str, flags: &Parsed) -> Result<String, Failure> {
    let mut body = known(files, Section::Users, name);
    set_file(&mut body, "client-certificate", flags)?;
    set_file(&mut body, "client-key", flags)?;
    for field in ["token", "username", "password"] {
        set_text(&mut body, field, flags, field);
    }
    files.set(Section::Users, name, body)?;
    Ok(format!("User {name:?} set.\n"))
}

fn set_context(files: &mut Files, names: &[&str], flags: &Parsed) -> Result<String, Failure> {
    let merged = files.merged();
    let name = match (names, flags.is_on("current")) {
        ([name], false) => (*name).to_owned(),
        ([], true) if merged.current_context.is_empty() => {
            return Err(Failure::error("no current context is set"));
        }
        ([], true) => merged.current_context.clone(),
        (names, _) => return Err(Failure::error(format_args!("Unexpected args: {names:?}"))),
    };
    let is_new = !merged.contexts.contains_key(&name);
    let mut body = known(files, Section::Contexts, &name);
    for field in ["cluster", "user", "namespace"] {
        set_text(&mut body, field, flags, field);
    }
    for field in ["cluster", "user"] {
        // Go writes these two also when they are empty.
        if body[field].is_null() {
            body[field] = "".into();
        }
    }
    files.set(Section::Contexts, &name, body)?;
    Ok(match is_new {
        true => format!("Context {name:?} created.\n"),
        false => format!("Context {name:?} modified.\n"),
    })
}

fn rename_context(files: &mut Files, old: &str, new: &str) -> Result<String, Failure> {
    let merged = files.merged();
    let Some(body) = merged.contexts.get(old).cloned() else {
        return Err(Failure::error(format_args!(
            "cannot rename the context {old:?}, it's not in {}",
            files.default_path()
        )));
    };
    if merged.contexts.contains_key(new) {
        return Err(Failure::error(format_args!(
            "cannot rename the context {old:?}, the context {new:?} already exists in {}",
            files.default_path()
        )));
    }
    files.set(Section::Contexts, new, body)?;
    files.remove(Section::Contexts, old)?;
    if merged.current_context == old {
        files.set_current_context(new)?;
    }
    Ok(format!("Context {old:?} renamed to {new:?}.\n"))
}

fn delete(files: &mut Files, section: Section, name: &str) -> Result<String, Failure> {
    let merged = files.merged();
    let (what, path) = (section.body(), files.default_path());
    if !merged.section(section).contains_key(name) {
        return Err(Failure::error(format_args!(
            "cannot delete {what} {name}, not in {path}"
        )));
    }
    if section == Section::Contexts && merged.current_context == name {
        out::note(
            "warning: this removed your active context, use \"kubectl config use-context\" to select a different one",
        );
    }
    files.remove(section, name)?;
    Ok(format!("deleted {what} {name} from {path}\n"))
}

/// Sets a property such as `contexts.NAME.namespace`, or removes it.
fn set_property(files: &mut Files, property: &str, value: Option<&str>) -> Result<String, Failure> {
    let steps: Vec<&str> = property.split('.').collect();
    let unknown = || {
        Failure::error(format_args!(
            "unable to parse {property} after [] at api.Config"
        ))
    };
    let section = |list: &str| {
        let mut known = Section::ALL.into_iter();
        known
            .find(|section| section.list() == list)
            .ok_or_else(unknown)
    };
    match (&steps[..], value) {
        (["current-context"], value) => files.set_current_context(value.unwrap_or_default())?,
        ([list], None) => {
            let section = section(list)?;
            for name in files.merged().section(section).keys() {
                files.remove(section, name)?;
            }
        }
        ([list, name], None) => files.remove(section(list)?, name)?,
        ([list, name, field], value) => {
            let section = section(list)?;
            if value.is_none() && !files.merged().section(section).contains_key(*name) {
                return Err(Failure::error(format_args!(
                    "current map key `{name}` is invalid"
                )));
            }
            let mut body = known(files, section, name);
            match value {
                None => remove(&mut body, field),
                Some("true" | "false") => body[*field] = (value == Some("true")).into(),
                Some(value) => body[*field] = value.into(),
            }
            files.set(section, name, body)?;
        }
        _ => return Err(unknown()),
    }
    Ok(match value {
        Some(_) => format!("Property {property:?} set.\n"),
        None => format!("Property {property:?} unset.\n"),
    })
}
