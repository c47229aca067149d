//! The types of requests, namespaces and devices.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    checker::Environment,
    types::{DeclKind, DeclType, Type},
};

/// Variables of known types.
pub(super) fn environment() -> Environment {
    let mut environment = Environment::default();
    let text = || Type::String;
    let texts = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let mut declare = |name: &str, fields: &[(&str, Type)]| {
        let fields = fields
            .iter()
            .map(|(name, of)| ((*name).to_owned(), of.clone()));
        let of = object(name, fields.collect());
        environment.objects.insert(name.into(), of);
        Type::Object(name.into())
    };
    let gvk = declare(
        "kubernetes.GroupVersionKind",
        &[("group", text()), ("version", text()), ("kind", text())],
    );
    let gvr = declare(
        "kubernetes.GroupVersionResource",
        &[("group", text()), ("version", text()), ("resource", text())],
    );
    let user = declare(
        "kubernetes.UserInfo",
        &[
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
        ],
    );
    let request = declare(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", gvk.clone()),
            ("resource", gvr.clone()),
            ("subResource", text()),
            ("requestKind", gvk),
            ("requestResource", gvr),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    );
    let spec = declare("kubernetes.NamespaceSpec", &[("finalizers", texts())]);
    let condition = declare(
        "kubernetes.NamespaceCondition",
        &[
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = declare(
        "kubernetes.NamespaceStatus",
        &[("conditions", Type::list(condition)), ("phase", text())],
    );
    let metadata = declare(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let namespace = declare(
        "kubernetes.Namespace",
        &[("metadata", metadata), ("spec", spec), ("status", status)],
    );
    let variables = &mut environment.variables;
    variables.insert("request".into(), request);
    variables.insert("namespaceObject".into(), namespace);
    environment
}

/// The one variable that devices are selected by.
pub(super) fn of_device() -> Environment {
    let by_domain = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
    let quantity = Type::Object("kubernetes.Quantity".into());
    let fields = [
        ("driver", Type::String),
        ("attributes", by_domain(Type::Dyn)),
        ("capacity", by_domain(quantity)),
        ("allowMultipleAllocations", Type::Bool),
    ];
    let name = "kubernetes.DRADevice";
    let fields = fields.map(|(name, of)| (name.to_owned(), of));
    let mut environment = Environment {
        has_bindings: true,
        ..Environment::default()
    };
    let of = object(name, BTreeMap::from(fields));
    environment.objects.insert(name.into(), of);
    let variables = &mut environment.variables;
    variables.insert("device".into(), Type::Object(name.into()));
    environment
}

/// The objects of a cluster, and the write that led to them.
pub(super) fn of_cluster<'k>(kinds: impl IntoIterator<Item = &'k str>) -> Environment {
    let mut environment = Environment::default();
    let mut declare = |variables: &[&str], name: &str, fields: BTreeMap<String, Type>| {
        let of = object(name, fields);
        environment.objects.insert(name.into(), of);
        for variable in variables {
            let of = Type::Object(name.into());
            environment.variables.insert((*variable).into(), of);
        }
    };
    let lists = kinds.into_iter();
    let lists = lists.map(|kind| (kind.to_owned(), Type::list(Type::Dyn)));
    let lists = lists.collect();
    declare(&["objects", "previous"], "kubernetes.Objects", lists);
    let fields = [
        ("type", Type::String),
        ("resource", Type::String),
        ("userAgent", Type::String),
        ("resourceVersion", Type::Int),
        ("time", Type::Timestamp),
    ];
    let fields = fields.map(|(name, of)| (name.to_owned(), of));
    declare(&["event"], "kubernetes.WatchEvent", BTreeMap::from(fields));
    for variable in ["object", "oldObject"] {
        environment.variables.insert(variable.into(), Type::Dyn);
    }
    environment
}

/// A type with these fields.
pub(super) fn object(name: &str, fields: BTreeMap<String, Type>) -> Arc<DeclType> {
    let fields = fields.into_iter().map(|(name, of)| {
        let kind = DeclKind::Simple(of);
        (name, declared(kind))
    });
    let kind = DeclKind::Object {
        name: name.into(),
        fields: fields.collect(),
    };
    declared(kind)
}

/// Adds a field to a type; a shared type is copied first.
pub(super) fn add_field(object: &mut Arc<DeclType>, name: &str, of: Type) {
    if let DeclKind::Object { fields, .. } = &mut Arc::make_mut(object).kind {
        fields.insert(name.to_owned(), declared(DeclKind::Simple(of)));
    }
}

fn declared(kind: DeclKind) -> Arc<DeclType> {
    Arc::new(DeclType {
        kind,
        max_elements: u64::MAX,
        min_serialized_size: 0,
    })
}

/// Returns the declared type of a variable whose expression has the type `of`.
pub(super) fn field_type(of: &Type) -> Type {
    match of {
        Type::List(item) => Type::list(field_type(item)),
        Type::Map(key, value) => Type::map(field_type(key), field_type(value)),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => of.clone(),
        _ => Type::Dyn,
    }
}

/// A type by its own name, where issues would use a friendlier one.
pub(super) fn name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(item) => format!("list({})", name(item)),
        Type::Map(key, value) => format!("map({}, {})", name(key), name(value)),
        other => other.to_string(),
    }
}
