//! Reviews: questions about the identity and the permissions of a user. The answer is an object of
//! the same kind, which is not stored.

mod selectors;
mod validation;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Answer, Request, decode};
use crate::auth::{ANY_VERSION, Attributes, User, authorize, resolved, review_token, rules_of};
use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::meta::GroupKind;
use crate::meta::object::{child_mut, meta};
use crate::registry::rest::Review;
use crate::status::{ApiError, FieldErrors};
use crate::store::wipe_system_fields;

/// Answers a request for a review.
pub(super) async fn answer(request: &Request<'_>, review: Review) -> Answer {
    let body = read(request).await?;
    let answered = match review {
        Review::Token => token_review(request, body).await,
        Review::SelfSubject => self_subject_review(request, body),
        Review::SelfSubjectRules => rules_review(request, body),
        Review::SelfSubjectAccess => self_access_review(request, body).await,
        Review::LocalSubjectAccess => local_access_review(request, body).await,
        Review::SubjectAccess => access_review(request, body).await,
    };
    request.value(201, &answered?)
}

/// The question, with the owners of its fields, as every created object has them.
async fn read(request: &Request<'_>) -> Result<Value, ApiError> {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let mut body = decode::object(request, request.resource.gvk(), "CreateOptions")?;
    let store = request.store(dry_run);
    wipe_system_fields(&mut body);
    store.set_namespace(&mut body, request.namespace())?;
    if let Some(manager) = store.field_manager() {
        manager.create(&mut body, &rfc3339(request.state.clock.now()));
    }
    let asked = store.admit_below(request.resource.gvk(), &mut body);
    asked.await?;
    Ok(body)
}

/// An answer that repeats nothing of the question.
fn fresh(request: &Request<'_>, metadata: Value, status: Value) -> Value {
    let gvk = request.resource.gvk();
    json!({
        "apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata, "status": status,
    })
}

async fn token_review(request: &Request<'_>, mut body: Value) -> Result<Value, ApiError> {
    let token = body["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        let message = "token is required for TokenReview in authentication";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    let mut audiences = texts(&body["spec"]["audiences"]);
    if audiences.is_empty() {
        audiences.extend_from_slice(request.state.tokens.audiences());
    }
    let reviewed = review_token(request.state, token, &audiences).await;
    // The other fields stay as the client has sent them.
    let status = child_mut(&mut body, "status");
    match reviewed {
        Ok((user, audiences)) => {
            status.insert("authenticated", true.into());
            status.insert("user", user.to_user_info());
            status.insert("audiences", json!(audiences));
        }
        Err(why) => {
            status.remove("authenticated");
            status.entry("user").or_insert_with(|| json!({}));
            status.insert("error", why.into());
        }
    }
    Ok(body)
}

fn self_subject_review(request: &Request<'_>, _body: Value) -> Result<Value, ApiError> {
    let metadata = json!({ "creationTimestamp": rfc3339(request.state.clock.now()) });
    let status = json!({ "userInfo": request.user.to_user_info() });
    Ok(fresh(request, metadata, status))
}

fn rules_review(request: &Request<'_>, body: Value) -> Result<Value, ApiError> {
    let namespace = body["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::BadRequest("no namespace on request".to_owned()));
    }
    let all = rules_of(request.state, &request.user, namespace);
    let (paths, resources): (Vec<Value>, Vec<Value>) = all
        .rules
        .into_iter()
        .partition(|rule| rule["nonResourceURLs"].is_array());
    let mut status = json!({
        "resourceRules": resources, "nonResourceRules": paths, "incomplete": all.incomplete,
    });
    if let Some(why) = all.error {
        status["evaluationError"] = why.into();
    }
    let mut answer = fresh(request, json!({}), status);
    answer["spec"] = json!({});
    Ok(answer)
}

async fn self_access_review(request: &Request<'_>, body: Value) -> Result<Value, ApiError> {
    let mut errors = validation::attributes(&body["spec"]);
    errors.extend(validation::selectors(&body["spec"]));
    errors.extend(validation::metadata(&body, "must be empty"));
    decided(request, body, errors, &request.user).await
}

async fn access_review(request: &Request<'_>, body: Value) -> Result<Value, ApiError> {
    let mut errors = validation::subject(&body["spec"]);
    errors.extend(validation::metadata(&body, "must be empty"));
    let user = subject(&body["spec"]);
    decided(request, body, errors, &user).await
}

async fn local_access_review(request: &Request<'_>, body: Value) -> Result<Value, ApiError> {
    let spec = &body["spec"];
    let mut errors = validation::subject(spec);
    let detail = "must be empty except for namespace";
    errors.extend(validation::metadata(&body, detail));
    errors.extend(validation::local(spec, meta(&body, "namespace")));
    let user = subject(spec);
    decided(request, body, errors, &user).await
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn subject(spec: &Value) -> User {
    let extra: BTreeMap<String, Vec<String>> = spec["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.to_string(), texts(values)))
        .collect();
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra,
    }
}

/// The question with its answer, unless it has faults.
async fn decided(
    request: &Request<'_>,
    mut body: Value,
    errors: FieldErrors,
    user: &User,
) -> Result<Value, ApiError> {
    if !errors.is_empty() {
        // Upstream does not say which review it was.
        let kind = GroupKind {
            group: request.resource.gvk().group.clone(),
            kind: String::new(),
        };
        return Err(ApiError::Invalid {
            kind,
            name: String::new(),
            errors,
        });
    }
    let (attributes, faults) = attributes(&body["spec"]);
    let decide = || authorize(request.state, user, &attributes);
    let decision = resolved(request.state, decide).await;
    let mut status = json!({ "allowed": decision.is_allowed() });
    if decision.is_denied() {
        status["denied"] = true.into();
    }
    let error = decision.error().map(str::to_owned);
    let errors: Vec<String> = error.into_iter().chain(faults).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    body["status"] = status;
    Ok(body)
}

/// The permission that a question is about, and what of the question does not count.
fn attributes(spec: &Value) -> (Attributes<'_>, Vec<String>) {
    let of = |half: &str, field: &str| Cow::from(spec[half][field].as_str().unwrap_or_default());
    if spec["nonResourceAttributes"].is_object() {
        let text = |field: &str| of("nonResourceAttributes", field);
        let attributes = Attributes::Path {
            verb: text("verb"),
            path: text("path"),
        };
        return (attributes, Vec::new());
    }
    let text = |field: &str| of("resourceAttributes", field);
    let (selectors, faults) = selectors::read(spec);
    let attributes = Attributes::Resource {
        verb: text("verb"),
        group: text("group"),
        version: match text("version") {
            none if none.is_empty() => ANY_VERSION.into(),
            version => version,
        },
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        selectors,
    };
    (attributes, faults)
}
