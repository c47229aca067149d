//! The paths of built-in resources, made from the catalog.

use super::names::{api_name, capitalized, tag, with_article};
use super::operations::{OBJECTS, Operation, Parameter, Paths, Payload, RequestBody};
use super::{definitions, information};
use crate::endpoints::discovery;
use crate::registry::catalog::{ResourceInfo, SubresourceInfo, Version};

const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager-Qy4HdaTW", "fieldValidation"];
pub(super) const PATCH: &[&str] = &[
    "dryRun",
    "fieldManager-7c6nTn1T",
    "fieldValidation",
    "force",
];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const DELETE_COLLECTION: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];
/// The parameters of a pod's log and of the connections, in addition to the object's name.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "Pod",
        &[
            "container-1GeXxFDC",
            "follow",
            "insecureSkipTLSVerifyBackend",
            "limitBytes",
            "previous",
            "sinceSeconds",
            "stream",
            "tailLines",
            "timestamps",
        ],
    ),
    (
        "PodAttachOptions",
        &[
            "container-_Q-EJ3nR",
            "stderr-26jJhFUR",
            "stdin-sEFnN3IS",
            "stdout-005YMKE6",
            "tty-g7MlET_l",
        ],
    ),
    (
        "PodExecOptions",
        &[
            "command",
            "container-i5dOmRiM",
            "stderr-W_1TNlWc",
            "stdin-PSzNhyUC",
            "stdout--EZLRwV1",
            "tty-s0flW37O",
        ],
    ),
    ("PodPortForwardOptions", &["ports"]),
    ("PodProxyOptions", &["path-oPbzgLUj"]),
    ("ServiceProxyOptions", &["path-QCf0eosM"]),
    ("NodeProxyOptions", &["path-rFDtV0x9"]),
];

const ANY: &[&str] = &["*/*"];

const STREAMS: &[&str] = &[
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Resources whose deletion is answered with the object as it was, rather than with a `Status`.
const RETURNING_THE_DELETED: &[(&str, &str)] = &[
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Subresources that pass a connection through to a pod, node or service.
const CONNECT: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
const CONNECT_METHODS: [(&str, &str); 7] = [
    ("create", "post"),
    ("delete", "delete"),
    ("get", "get"),
    ("get", "head"),
    ("get", "options"),
    ("patch", "patch"),
    ("update", "put"),
];

/// The paths below a group version.
pub(super) fn of_version(version: &Version) -> Paths {
    let root = discovery::version_path(version);
    let mut paths = information::answering(
        &format!("{root}/"),
        &tag(&version.group_version),
        &format!("get{}APIResources", api_name(&version.group_version)),
        "get available resources",
        "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
    );
    for info in &version.resources {
        ResourcePaths::new(version, &root, info).add_to(&mut paths);
    }
    paths
}

/// The paths of one resource.
struct ResourcePaths<'a> {
    version: &'a Version,
    root: &'a str,
    info: &'a ResourceInfo,
    /// `Namespaced`, within the ids of operations on one namespace.
    scope: &'static str,
}

impl<'a> ResourcePaths<'a> {
    fn new(version: &'a Version, root: &'a str, info: &'a ResourceInfo) -> Self {
        let scope = if info.namespaced { "Namespaced" } else { "" };
        Self {
            version,
            root,
            info,
            scope,
        }
    }

    fn add_to(&self, paths: &mut Paths) {
        let plural = &self.info.gvr().resource;
        let kind = &self.info.gvk().kind;
        let namespace = match self.info.namespaced {
            true => "namespaces/{namespace}/",
            false => "",
        };
        let (scope, root) = (self.scope, self.root);
        let collection = format!("{root}/{namespace}{plural}");
        let object = format!("{collection}/{{name}}");
        if self.info.namespaced && self.info.has_verb("list") {
            let everywhere = self.list(&format!("{kind}ForAllNamespaces"), &["pretty"]);
            paths.insert(format!("{root}/{plural}"), vec![everywhere]);
        }
        insert(paths, &collection, self.on_collection());
        insert(paths, &object, self.on_object());
        for sub in &self.info.subresources {
            let path = format!("{object}/{}", sub.name);
            insert(paths, &path, self.on_subresource(sub));
            if sub.name == "proxy" {
                let with_path = self.connections(sub, "WithPath", &["path-z6Ciiujn"]);
                insert(paths, &format!("{path}/{{path}}"), with_path);
            }
        }
        if self.info.has_verb("watch") {
            let watch = format!("{root}/watch");
            if self.info.namespaced {
                let everywhere = self.watch_list(&format!("{kind}ListForAllNamespaces"), "");
                paths.insert(format!("{watch}/{plural}"), vec![everywhere]);
            }
            let list = self.watch_list(&format!("{scope}{kind}List"), namespace);
            paths.insert(format!("{watch}/{namespace}{plural}"), vec![list]);
            let one = self.watch_one(namespace);
            paths.insert(format!("{watch}/{namespace}{plural}/{{name}}"), vec![one]);
        }
    }

    /// An operation on objects of the resource; the rest depends on the verb.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        description: String,
        parameters: &[&[&'static str]],
    ) -> Operation {
        let shared = parameters.concat().into_iter().map(Parameter::Shared);
        Operation {
            method,
            id,
            tag: tag(&self.version.group_version),
            description,
            action: Some(action),
            gvk: Some(self.info.gvk().clone()),
            consumes: ANY,
            produces: OBJECTS.to_vec(),
            parameters: shared.collect(),
            body: None,
            codes: &[200],
            payload: Payload::Object(definitions::name(self.info.gvk())),
        }
    }

    fn place(&self) -> &'static [&'static str] {
        match self.info.namespaced {
            true => &["namespace", "pretty"],
            false => &["pretty"],
        }
    }

    fn list(&self, object: &str, place: &[&'static str]) -> Operation {
        let kind = &self.info.gvk().kind;
        let verbs = match self.info.has_verb("watch") {
            true => "list or watch",
            false => "list",
        };
        let mut list = self.operation(
            "get",
            "list",
            format!("list{}{object}", api_name(&self.version.group_version)),
            format!("{verbs} objects of kind {kind}"),
            &[LIST, place],
        );
        list.produces.extend(STREAMS);
        list.payload = Payload::Object(definitions::name(self.info.gvk()) + "List");
        list
    }

    fn watch_list(&self, object: &str, namespace: &str) -> Operation {
        let kind = &self.info.gvk().kind;
        let place = if namespace.is_empty() {
            &["pretty"]
        } else {
            self.place()
        };
        let description = format!(
            "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter \
             with a list operation instead."
        );
        let id = format!("watch{}{object}", api_name(&self.version.group_version));
        let mut watch = self.operation("get", "watchlist", id, description, &[LIST, place]);
        watch.produces.extend(STREAMS);
        watch.payload = Payload::Object(WATCH_EVENT.to_owned());
        watch
    }

    fn watch_one(&self, namespace: &str) -> Operation {
        let kind = &self.info.gvk().kind;
        let mut watch = self.watch_list("", namespace);
        watch.action = Some("watch");
        watch.id = format!(
            "watch{}{}{kind}",
            api_name(&self.version.group_version),
            self.scope
        );
        watch.description = format!(
            "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter \
             with a list operation instead, filtered to a single item with the 'fieldSelector' \
             parameter."
        );
        watch.parameters.push(Parameter::Name(kind.clone()));
        watch
    }

    fn on_collection(&self) -> Vec<Operation> {
        let kind = &self.info.gvk().kind;
        let mut operations = Vec::new();
        if self.info.has_verb("deletecollection") {
            let mut delete = self.operation(
                "delete",
                "deletecollection",
                format!(
                    "delete{}Collection{}{kind}",
                    api_name(&self.version.group_version),
                    self.scope
                ),
                format!("delete collection of {kind}"),
                &[DELETE_COLLECTION, self.place()],
            );
            delete.body = Some(RequestBody::DeleteOptions);
            delete.payload = Payload::Object(STATUS.to_owned());
            operations.push(delete);
        }
        if self.info.has_verb("list") {
            operations.push(self.list(&format!("{}{kind}", self.scope), self.place()));
        }
        if self.info.has_verb("create") {
            operations.push(self.write("post", None));
        }
        operations
    }

    fn on_object(&self) -> Vec<Operation> {
        let mut operations = self.reads_and_writes(&self.info.verbs, None);
        if self.info.has_verb("delete") {
            let gvk = self.info.gvk();
            let kind = &gvk.kind;
            let mut delete = self.operation(
                "delete",
                "delete",
                format!(
                    "delete{}{}{kind}",
                    api_name(&self.version.group_version),
                    self.scope
                ),
                format!("delete {}", with_article(kind)),
                &[DELETE, self.place()],
            );
            delete.parameters.push(Parameter::Name(kind.clone()));
            delete.body = Some(RequestBody::DeleteOptions);
            delete.codes = &[200, 202];
            let resource = (gvk.group.as_str(), self.info.gvr().resource.as_str());
            if !RETURNING_THE_DELETED.contains(&resource) {
                delete.payload = Payload::Object(STATUS.to_owned());
            }
            operations.push(delete);
        }
        operations
    }

    fn on_subresource(&self, sub: &SubresourceInfo) -> Vec<Operation> {
        if CONNECT.contains(&sub.name.as_str()) {
            return self.connections(sub, "", &[]);
        }
        let mut operations = self.reads_and_writes(&sub.verbs, Some(sub));
        if sub.verbs.iter().any(|verb| verb == "create") {
            let mut create = self.write("post", Some(sub));
            create
                .parameters
                .push(Parameter::Name(sub.gvk.kind.clone()));
            operations.push(create);
        }
        operations
    }

    fn reads_and_writes(&self, verbs: &[String], sub: Option<&SubresourceInfo>) -> Vec<Operation> {
        let mut operations = Vec::new();
        for verb in verbs {
            let mut operation = match verb.as_str() {
                "get" => self.read(sub),
                "update" => self.write("put", sub),
                "patch" => self.write("patch", sub),
                _ => continue,
            };
            let gvk = sub.map_or(self.info.gvk(), |sub| &sub.gvk);
            operation.parameters.push(Parameter::Name(gvk.kind.clone()));
            operations.push(operation);
        }
        operations
    }

    fn read(&self, sub: Option<&SubresourceInfo>) -> Operation {
        let (id, what) = self.object_of("read", sub, "the specified ");
        let description = format!("read {what}");
        let mut read = self.operation("get", "get", id, description, &[self.place()]);
        if let Some(sub) = sub {
            read.gvk = Some(sub.gvk.clone());
            read.payload = Payload::Object(definitions::name(&sub.gvk));
            if sub.name == "log" {
                read.produces.insert(0, "text/plain");
                read.payload = Payload::Text;
                read.parameters.extend(options(&sub.gvk.kind));
            }
        }
        read
    }

    /// The operation by which `method` writes the object or a part of it.
    fn write(&self, method: &'static str, sub: Option<&SubresourceInfo>) -> Operation {
        let article = match self.info.gvk().kind.as_str() {
            _ if method != "post" => "the specified ".to_owned(),
            kind => with_article(kind).replace(kind, ""),
        };
        let (id_verb, verb, parameters, codes): (_, _, _, &[u16]) = match method {
            "post" => ("create", "create", WRITE, &[200, 201, 202]),
            "put" => ("replace", "replace", WRITE, &[200, 201]),
            _ => ("patch", "partially update", PATCH, &[200, 201]),
        };
        let (id, what) = self.object_of(id_verb, sub, &article);
        let description = format!("{verb} {what}");
        let parameters = &[parameters, self.place()];
        let mut write = self.operation(method, method, id, description, parameters);
        write.codes = codes;
        let gvk = sub.map_or(self.info.gvk(), |sub| &sub.gvk);
        write.gvk = Some(gvk.clone());
        write.payload = Payload::Object(definitions::name(gvk));
        write.body = Some(RequestBody::Object(definitions::name(gvk)));
        if method == "patch" {
            write.body = Some(RequestBody::Patch);
            write.consumes = PATCHES;
        }
        write
    }

    /// The id of an operation, and the object of its description.
    fn object_of(
        &self,
        id_verb: &str,
        sub: Option<&SubresourceInfo>,
        article: &str,
    ) -> (String, String) {
        let kind = &self.info.gvk().kind;
        let id = format!(
            "{id_verb}{}{}{kind}",
            api_name(&self.version.group_version),
            self.scope
        );
        match sub {
            Some(sub) => (
                id + &capitalized(&sub.name),
                format!("{} of {article}{kind}", sub.name),
            ),
            None => (id, format!("{article}{kind}")),
        }
    }

    fn connections(
        &self,
        sub: &SubresourceInfo,
        infix: &str,
        more: &[&'static str],
    ) -> Vec<Operation> {
        let kind = &self.info.gvk().kind;
        let place = &self.place()[..self.place().len() - 1]; // Nothing of it is pretty.
        let methods = CONNECT_METHODS.iter().filter(|(verb, method)| {
            let proxy = sub.name == "proxy" || !matches!(*method, "head" | "options");
            proxy && sub.verbs.iter().any(|has| has == verb)
        });
        let connection = |(_, method): &(&str, &'static str)| {
            let id = format!(
                "connect{}{}{}{kind}{}{infix}",
                api_name(&self.version.group_version),
                capitalized(method),
                self.scope,
                capitalized(&sub.name)
            );
            let upper = method.to_uppercase();
            let description = format!("connect {upper} requests to {} of {kind}", sub.name);
            let mut connect = self.operation(method, "connect", id, description, &[place, more]);
            connect.gvk = Some(sub.gvk.clone());
            connect.produces = ANY.to_vec();
            connect.payload = Payload::Text;
            connect
                .parameters
                .push(Parameter::Name(sub.gvk.kind.clone()));
            connect.parameters.extend(options(&sub.gvk.kind));
            connect
        };
        methods.map(connection).collect()
    }
}

fn options(kind: &str) -> impl Iterator<Item = Parameter> {
    let options = OPTIONS.iter().find(|(of, _)| *of == kind);
    let names = options.map_or(&[][..], |(_, names)| *names);
    names.iter().map(|name| Parameter::Shared(name))
}

fn insert(paths: &mut Paths, path: &str, operations: Vec<Operation>) {
    if !operations.is_empty() {
        paths.insert(path.to_owned(), operations);
    }
}
