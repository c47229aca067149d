//! OwnerReferencesPermissionEnforcement: who may name owners, and keep owners from being deleted.
//!
//! Source: `plugin/pkg/admission/gc/gc_admission.go`.

use crate::admission::attributes::Attributes;
use crate::auth::{self, User};
use crate::json::Value;
use crate::meta::object::{name, namespace};
use crate::status::ApiError;

fn references(object: &Value) -> &[Value] {
    let own = object["metadata"]["ownerReferences"].as_array();
    own.map_or(&[], Vec::as_slice)
}

fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}

/// Checks the permissions of the user for changed references to owners.
pub(super) fn check(attributes: Attributes<'_>) -> Result<(), ApiError> {
    let Some(user) = attributes.user else {
        return Ok(());
    };
    let gvr = attributes.resource.gvr();
    let is_status = attributes.subresource == "status";
    if is_status && gvr.group.is_empty() && gvr.resource == "pods" {
        return Ok(());
    }
    let own = references(attributes.object);
    let before = attributes.old.map(references).unwrap_or_default();
    if own == before {
        return Ok(());
    }
    let namespace = namespace(attributes.object);
    if attributes.old.is_some() {
        let deletion = auth::Attributes::Resource {
            verb: "delete".into(),
            group: (&gvr.group).into(),
            version: (&gvr.version).into(),
            resource: (&gvr.resource).into(),
            subresource: attributes.subresource.into(),
            namespace: namespace.into(),
            name: name(attributes.object).into(),
            selectors: auth::Selectors::default(),
        };
        if let Err(why) = permitted(attributes, user, &deletion) {
            let message = format!("cannot set an ownerRef on a resource you can't delete: {why}");
            return Err(attributes.forbidden(message));
        }
    }
    let blocked_before = |own: &&Value| {
        let mut before = before.iter().filter(|other| other["uid"] == own["uid"]);
        before.next_back().is_some_and(blocks)
    };
    let mut blocking = own
        .iter()
        .filter(|own| blocks(own) && !blocked_before(own))
        .peekable();
    if blocking.peek().is_none() || permitted(attributes, user, &anything()).is_ok() {
        return Ok(());
    }
    for reference in blocking {
        check_blocking(attributes, user, reference)?;
    }
    Ok(())
}

/// The permission to set the finalizers of every object.
fn anything() -> auth::Attributes<'static> {
    auth::Attributes::Resource {
        verb: "update".into(),
        group: "*".into(),
        version: auth::ANY_VERSION.into(),
        resource: "*".into(),
        subresource: "finalizers".into(),
        namespace: "".into(),
        name: "*".into(),
        selectors: auth::Selectors::default(),
    }
}

/// Checks that the user may set the finalizers of an owner whose deletion is blocked.
fn check_blocking(
    attributes: Attributes<'_>,
    user: &User,
    reference: &Value,
) -> Result<(), ApiError> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let unknown = |why: String| {
        attributes.forbidden(format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
             APIVersion {api_version} Kind {kind}: {why}"
        ))
    };
    let (group, version) = match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => ("", *version),
        [group, version] => (*group, *version),
        _ => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            return Err(unknown(why));
        }
    };
    let catalog = attributes.state.definitions.catalog();
    let served = catalog.version(group, version);
    let served = served.map_or(&[][..], |served| &served.resources);
    let owners: Vec<_> = served.iter().filter(|own| own.gvk().kind == kind).collect();
    if owners.is_empty() {
        let why = format!("no matches for kind {kind:?} in version {api_version:?}");
        return Err(unknown(why));
    }
    for owner in owners {
        let namespace = match owner.namespaced {
            true => namespace(attributes.object),
            false => "",
        };
        let finalizers = auth::Attributes::Resource {
            verb: "update".into(),
            group: group.into(),
            version: version.into(),
            resource: (&owner.gvr().resource).into(),
            subresource: "finalizers".into(),
            namespace: namespace.into(),
            name: text("name").into(),
            selectors: auth::Selectors::default(),
        };
        permitted(attributes, user, &finalizers).map_err(|why| {
            attributes.forbidden(format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                 can't set finalizers on: {why}"
            ))
        })?;
    }
    Ok(())
}

/// Checks a permission; an error has the reason and upstream's error, which is empty.
fn permitted(
    attributes: Attributes<'_>,
    user: &User,
    permission: &auth::Attributes<'_>,
) -> Result<(), String> {
    let decision = auth::authorize(attributes.state, user, permission);
    match decision.is_allowed() {
        true => Ok(()),
        false => Err(format!("{}, <nil>", decision.reason())),
    }
}
