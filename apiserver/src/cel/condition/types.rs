//! The types of what a condition is told of a request.

use std::sync::Arc;

use crate::cel::types::{DeclKind, DeclType, Type};

/// The type of `request`.
pub(super) fn request() -> Arc<DeclType> {
    let kind = || texts("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = || {
        let fields = ["group", "version", "resource"];
        texts("kubernetes.GroupVersionResource", &fields)
    };
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", list(text())),
        ("extra", map(list(text()))),
    ];
    let fields = [
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", object("kubernetes.UserInfo", user)),
        ("dryRun", simple(Type::Bool)),
        ("options", simple(Type::Dyn)),
    ];
    object("kubernetes.AdmissionRequest", fields)
}

/// The type of `namespaceObject`.
pub(super) fn namespace() -> Arc<DeclType> {
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("UID", text()),
        ("creationTimestamp", simple(Type::Timestamp)),
        ("deletionGracePeriodSeconds", simple(Type::Int)),
        ("deletionTimestamp", simple(Type::Timestamp)),
        ("generation", simple(Type::Int)),
        ("resourceVersion", text()),
        ("finalizers", list(text())),
    ];
    let condition = [
        ("status", text()),
        ("type", text()),
        ("lastTransitionTime", simple(Type::Timestamp)),
        ("message", text()),
        ("reason", text()),
    ];
    let conditions = list(object("kubernetes.NamespaceCondition", condition));
    let status = [("conditions", conditions), ("phase", text())];
    let fields = [
        ("metadata", object("kubernetes.NamespaceMetadata", metadata)),
        (
            "spec",
            object("kubernetes.NamespaceSpec", [("finalizers", list(text()))]),
        ),
        ("status", object("kubernetes.NamespaceStatus", status)),
    ];
    object("kubernetes.Namespace", fields)
}

fn declared(kind: DeclKind) -> Arc<DeclType> {
    // Nobody estimates what a condition costs.
    Arc::new(DeclType {
        kind,
        max_elements: u64::MAX,
        min_serialized_size: 0,
    })
}

fn simple(of: Type) -> Arc<DeclType> {
    declared(DeclKind::Simple(of))
}

fn text() -> Arc<DeclType> {
    simple(Type::String)
}

fn list(item: Arc<DeclType>) -> Arc<DeclType> {
    declared(DeclKind::List(item))
}

fn map(value: Arc<DeclType>) -> Arc<DeclType> {
    declared(DeclKind::Map(value))
}

fn object<const N: usize>(name: &str, fields: [(&str, Arc<DeclType>); N]) -> Arc<DeclType> {
    let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of));
    declared(DeclKind::Object {
        name: name.into(),
        fields: fields.collect(),
    })
}

/// An object whose fields are all texts.
fn texts<const N: usize>(name: &str, fields: &[&str; N]) -> Arc<DeclType> {
    object(name, fields.map(|field| (field, text())))
}
