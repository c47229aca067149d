//! `kubectl get`: objects by name or selector, as tables or whole, and paths as they are.
//!
//! Source: kubectl `pkg/cmd/get/get.go`, cli-runtime `pkg/resource/builder.go`.

use kube::api::{DynamicObject, GetParams, ListParams};
use kube::core::{Request, Resource as _};
use kubeproof_machinery::json::Value;

use super::connection::Connection;
use super::discovery::{Resource, Resources};
use super::failure::{Failure, Refused};
use super::printing::{self, Format, Shown};
use crate::cli::out;
use crate::cli::pflag::Parsed;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const JSON: &str = "application/json";

/// The objects that arguments name.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// Objects by resource and name.
    Objects(Vec<(String, String)>),
    /// Everything of these resources.
    Lists(Vec<String>),
}

/// What one request returned.
struct Found<'r> {
    resource: &'r Resource,
    /// An object, a list or a Table.
    value: Value,
}

pub(super) async fn run(flags: &Parsed) -> Result<(), Failure> {
    if let Some(path) = flags.text("raw") {
        return raw(path, flags).await;
    }
    let format = Format::read(flags.text("output"), &["wide"])?;
    let wanted = wanted(flags.args())?;
    let all_namespaces = flags.is_on("all-namespaces");
    let has_selector = ["selector", "field-selector"]
        .iter()
        .any(|flag| flags.text(flag).is_some());
    if matches!(wanted, Wanted::Objects(_)) {
        if has_selector {
            return Err(Failure::error(
                "name cannot be provided when a selector is specified",
            ));
        }
        if all_namespaces {
            return Err(Failure::error(
                "a resource cannot be retrieved by name across all namespaces",
            ));
        }
    }
    let connection = Connection::open(flags).await?;
    let resources = Resources::of(&connection).await?;
    let query = Query {
        connection: &connection,
        flags,
        accept: match format {
            None => TABLE,
            Some(_) => JSON,
        },
    };
    let (found, failures) = query.all(&resources, &wanted).await?;
    let has_failures = !failures.is_empty();
    match format {
        Some(format) => print_objects(found, format, (&wanted, flags)),
        None if print_tables(&found, flags) || has_failures => {}
        None if flags.is_on("ignore-not-found") => {}
        None => {
            let is_namespaced = found.iter().all(|found| found.resource.is_namespaced);
            match is_namespaced && !all_namespaces {
                true => out::note(&format!(
                    "No resources found in {} namespace.",
                    connection.namespace
                )),
                false => out::note("No resources found"),
            }
        }
    }
    Failure::all(failures)
}

/// Prints the response to a path as it is.
async fn raw(path: &str, flags: &Parsed) -> Result<(), Failure> {
    if !flags.args().is_empty() {
        return Err(Failure::error(
            "arguments may not be passed when --raw is specified",
        ));
    }
    if !path.starts_with('/') {
        return Err(Failure::error(format_args!(
            "--raw must be a valid URL path: {path}"
        )));
    }
    let connection = Connection::open(flags).await?;
    let answered = connection.read(path, "application/json, */*").await?;
    printing::print(&String::from_utf8_lossy(&answered.body));
    Ok(())
}

/// Reads the arguments: `TYPES`, `TYPES NAME...`, or `TYPE/NAME...`.
fn wanted(args: &[String]) -> Result<Wanted, Failure> {
    let Some((first, names)) = args.split_first() else {
        return Err(Failure(
            "You must specify the type of resource to get.\n\n\
             error: Required resource not specified.\nSee 'kubectl get -h' for help and examples"
                .to_owned(),
        ));
    };
    if args.iter().any(|arg| arg.contains('/')) {
        let pair = |arg: &String| match arg.split('/').collect::<Vec<_>>()[..] {
            [resource, name] if !resource.is_empty() && !name.is_empty() => {
                Ok((resource.to_owned(), name.to_owned()))
            }
            [_] => Err(Failure::error(
                "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of \
                 'kubectl get resource resource/<resource_name>'",
            )),
            _ => Err(Failure::error(
                "arguments in resource/name form must have a single resource and name",
            )),
        };
        return Ok(Wanted::Objects(
            args.iter().map(pair).collect::<Result<_, _>>()?,
        ));
    }
    let types = first.split(',').filter(|one| !one.is_empty());
    let types: Vec<String> = types.map(str::to_owned).collect();
    if names.is_empty() {
        return Ok(Wanted::Lists(types));
    }
    let pairs = types
        .iter()
        .flat_map(|one| names.iter().map(|name| (one.clone(), name.clone())));
    Ok(Wanted::Objects(pairs.collect()))
}

/// The requests of a command.
struct Query<'c> {
    connection: &'c Connection,
    flags: &'c Parsed,
    accept: &'static str,
}

impl Query<'_> {
    /// Carries out all requests; returns what they found, and the failures of single ones.
    async fn all<'r>(
        &self,
        resources: &'r Resources,
        wanted: &Wanted,
    ) -> Result<(Vec<Found<'r>>, Vec<Failure>), Failure> {
        let mut requests = Vec::new();
        match wanted {
            Wanted::Objects(pairs) => {
                for (argument, name) in pairs {
                    let named = resources.named(argument)?;
                    requests.extend(named.into_iter().map(|one| (one, Some(name.as_str()))));
                }
            }
            Wanted::Lists(types) => {
                for argument in types {
                    requests.extend(
                        resources
                            .named(argument)?
                            .into_iter()
                            .map(|one| (one, None)),
                    );
                }
            }
        }
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        let ignores_missing = self.flags.is_on("ignore-not-found");
        for (resource, name) in requests {
            match self.one(resource, name).await {
                Ok(value) => found.push(Found { resource, value }),
                Err(refused) if refused.is_not_found() && ignores_missing => {}
                Err(refused) => failures.push(refused.into()),
            }
        }
        Ok((found, failures))
    }

    async fn one(&self, resource: &Resource, name: Option<&str>) -> Result<Value, Refused> {
        let namespace = match resource.is_namespaced && !self.flags.is_on("all-namespaces") {
            true => Some(self.connection.namespace.as_str()),
            false => None,
        };
        let request = Request::new(DynamicObject::url_path(&resource.api, namespace));
        let request = match name {
            Some(name) => request.get(name, &GetParams::default()),
            None => {
                let text = |flag: &str| self.flags.text(flag).map(str::to_owned);
                let params = ListParams {
                    label_selector: text("selector"),
                    field_selector: text("field-selector"),
                    ..ListParams::default()
                };
                request.list(&params)
            }
        };
        let request = request.map_err(|error| Refused::Unanswered(Failure::error(error)))?;
        self.connection.send(request, self.accept).await?.json()
    }
}

fn print_objects(found: Vec<Found>, format: Format, (wanted, flags): (&Wanted, &Parsed)) {
    let ignores_missing = flags.is_on("ignore-not-found");
    let is_single = matches!(wanted, Wanted::Objects(pairs) if pairs.len() == 1);
    if is_single && found.is_empty() {
        return;
    }
    if ignores_missing && found.is_empty() {
        return;
    }
    let mut objects = Vec::new();
    let is_list = matches!(wanted, Wanted::Lists(_));
    for Found {
        resource,
        mut value,
    } in found
    {
        match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => {
                objects.extend(items.into_iter().map(|mut item| {
                    // Items of a list do not repeat its kind.
                    item["apiVersion"] = resource.api.api_version.clone().into();
                    item["kind"] = resource.api.kind.clone().into();
                    item
                }))
            }
            Some(items) => {
                value["items"] = items;
                objects.push(value);
            }
            None => objects.push(value),
        }
    }
    if !flags.is_on("show-managed-fields") {
        objects
            .iter_mut()
            .for_each(printing::without_managed_fields);
    }
    printing::print(&printing::objects(objects, format, is_single));
}

/// Prints a table for each resource; returns whether any has a row.
fn print_tables(found: &[Found], flags: &Parsed) -> bool {
    let mut tables: Vec<(&Resource, Value)> = Vec::new();
    for one in found {
        match tables.last_mut() {
            Some((resource, table)) if *resource == one.resource => {
                let rows = one.value["rows"].as_array().cloned().unwrap_or_default();
                match table["rows"].as_array_mut() {
                    Some(known) => known.extend(rows),
                    None => table["rows"] = rows.into(),
                }
            }
            _ => tables.push((one.resource, one.value.clone())),
        }
    }
    let shows_kind = tables.len() > 1 || flags.is_on("show-kind");
    let texts = tables.iter().map(|(resource, table)| {
        let prefix = match shows_kind {
            true => resource.prefix(),
            false => String::new(),
        };
        let shown = Shown {
            wide: flags.text("output") == Some("wide"),
            namespaces: flags.is_on("all-namespaces") && resource.is_namespaced,
            labels: flags.is_on("show-labels"),
            no_headers: flags.is_on("no-headers"),
        };
        printing::table(table, &prefix, shown)
    });
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    printing::print(&texts.join("\n"));
    !texts.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        wanted(&args)
    }

    #[test]
    fn arguments_name_types_and_objects() {
        let pair = |one: &str, name: &str| (one.to_owned(), name.to_owned());
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(read("po,svc"), Ok(Wanted::Lists(list(&["po", "svc"]))));
        assert_eq!(
            read("po,svc a"),
            Ok(Wanted::Objects(vec![pair("po", "a"), pair("svc", "a")]))
        );
        assert_eq!(
            read("po/a svc/b"),
            Ok(Wanted::Objects(vec![pair("po", "a"), pair("svc", "b")]))
        );
        for (line, why) in [
            ("", "Required resource not specified"),
            ("po/a svc", "there is no need to specify a resource type"),
            ("po/", "must have a single resource and name"),
        ] {
            let failure = read(line).unwrap_err();
            assert!(failure.0.contains(why), "{}", failure.0);
        }
    }
}
