//! Paths outside of the resources: discovery, the version, and the issuer of tokens.

use super::operations::{OBJECTS, Operation, Paths, Payload};

/// A path outside of the resources, with one operation that answers `definition`.
pub(super) fn answering(
    path: &str,
    tag: &str,
    id: &str,
    description: &str,
    definition: &str,
) -> Paths {
    let types = match definition.ends_with("version.Info") {
        true => &OBJECTS[..1],
        false => OBJECTS,
    };
    let operation = Operation {
        method: "get",
        id: id.to_owned(),
        tag: tag.to_owned(),
        description: description.to_owned(),
        action: None,
        gvk: None,
        consumes: types,
        produces: types.to_vec(),
        parameters: Vec::new(),
        body: None,
        codes: &[200],
        payload: Payload::Object(definition.to_owned()),
    };
    Paths::from([(path.to_owned(), vec![operation])])
}

/// The path of the discovery document of the tokens' issuer.
pub(super) fn issuer() -> Paths {
    text(
        "/.well-known/openid-configuration/",
        "WellKnown",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "application/json",
    )
}

/// The path of the keys that service accounts' tokens are checked with.
pub(super) fn key_set() -> Paths {
    text(
        "/openid/v1/jwks/",
        "openid",
        "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification \
         keys)",
        "application/jwk-set+json",
    )
}

fn text(path: &str, tag: &str, id: &str, description: &str, produces: &'static str) -> Paths {
    let mut paths = answering(path, tag, id, description, "");
    for operation in paths.values_mut().flatten() {
        operation.consumes = &[];
        operation.produces = vec![produces];
        operation.payload = Payload::Text;
    }
    paths
}
