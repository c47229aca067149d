//! Carries out the verbs of steps.

use kubeproof_apiserver::FieldValidation;
use kubeproof_machinery::json::{Map, Value, json};

use super::cluster::Cluster;
use super::lookup::resolve;
use super::step_error::StepError;
use super::{kubectl, nodes};
use crate::api::{Api, ApiError};
use crate::generated::GeneratedNames;
use crate::outcome;
use crate::scenario::{
    DeleteStep, Expect, Manifest, PodStep, Restarted, ShowStep, Step, TableStep, Verb, WaitStep,
    field, in_flow,
};
use crate::table;

/// The prefix of annotations that control simulated pods.
const PREFIX: &str = "kubeproof.dev";

/// Carries out `step`; returns the lines of the harness itself.
pub(super) async fn perform(cluster: Cluster<'_>, step: &Step) -> Result<Vec<String>, StepError> {
    // Steps call generated names as the transcript does.
    let names = GeneratedNames::of(&cluster.journal());
    let rename = |masked: &str| names.name_of(masked).map(str::to_owned);
    let field_validation = step.field_validation.unwrap_or(FieldValidation::Strict);
    let api = cluster
        .api()
        .clone()
        .with_field_validation(field_validation);
    let result = perform_verb(cluster, &api, &step.verb.renamed(&rename)).await;
    let warnings = api.take_warnings().into_iter();
    let result = result.map(|mut said| {
        said.extend(warnings.map(|warning| format!("Warning: {warning}")));
        said
    });
    let Some(expect) = &step.expect else {
        return result;
    };
    let error = match result {
        Ok(_) => return Err(StepError::Accepted(expect.code)),
        Err(error) => error,
    };
    let Some(status) = error.refusal() else {
        return Err(error);
    };
    let reason = expect.reason.as_ref();
    let as_expected =
        status.code == expect.code && reason.is_none_or(|reason| *reason == status.reason);
    let said = format!(
        "refused: {} {}: {}",
        status.code, status.reason, status.message
    );
    match as_expected {
        true => Ok(said.lines().map(str::to_owned).collect()),
        false => Err(StepError::OtherRefusal {
            expected: in_words(expect),
            got: said,
        }),
    }
}

fn in_words(expect: &Expect) -> String {
    match &expect.reason {
        Some(reason) => format!("{} {reason}", expect.code),
        None => expect.code.to_string(),
    }
}

async fn perform_verb(
    cluster: Cluster<'_>,
    api: &Api,
    verb: &Verb,
) -> Result<Vec<String>, StepError> {
    match verb {
        Verb::Apply(manifest) => {
            for object in &manifest.objects {
                let applied = api.apply(&resolve(api, object).await?).await;
                applied.map_err(|source| of_object(manifest, object, source))?;
            }
        }
        Verb::Create(manifest) => {
            for object in &manifest.objects {
                let created = api.create(&resolve(api, object).await?).await;
                created.map_err(|source| of_object(manifest, object, source))?;
            }
        }
        Verb::Update(step) => {
            let target = (step.target.resource.as_str(), step.target.name.as_str());
            let object = resolve(api, &step.object).await?;
            api.update(target, step.subresource.as_deref(), &object)
                .await?;
        }
        Verb::Patch(step) => {
            let target = (step.target.resource.as_str(), step.target.name.as_str());
            let content_type = step.patch_type.content_type();
            let subresource = step.subresource.as_deref();
            let patch = resolve(api, &step.patch).await?;
            api.patch(target, subresource, content_type, &patch).await?;
        }
        Verb::Scale(step) => {
            let target = (step.target.resource.as_str(), step.target.name.as_str());
            api.scale(target, step.replicas.into()).await?;
        }
        Verb::Delete(step) => delete(api, step).await?,
        Verb::DeleteCollection(step) => {
            let selector = step.label_selector.as_deref();
            api.delete_collection(&step.resource, selector).await?;
        }
        Verb::Pod(step) => annotate(api, step).await?,
        Verb::Node(step) => return nodes::perform(cluster, step).await,
        Verb::Fault(step) => cluster.testbed()?.inject(step.0.clone())?,
        Verb::Restart(Restarted::Controllers) => cluster.testbed()?.restart_controllers(),
        Verb::Lift(name) => {
            if !cluster.testbed()?.lift(name) {
                return Err(StepError::NoFault(name.clone()));
            }
        }
        Verb::Metric(step) => {
            let value = step.in_namespace(api.namespace());
            cluster.testbed()?.put_metric(&value)?;
        }
        Verb::Kubectl(command) => return kubectl::perform(cluster, command).await,
        Verb::Containers(name) => return nodes::containers(cluster, name),
        Verb::Wait(step) => wait(cluster, step).await?,
        Verb::Settle(quiet) => {
            cluster.settle(quiet.0).await?;
        }
        Verb::Advance(time) => tokio::time::sleep(time.0).await,
        Verb::Table(step) => return show_table(cluster, step).await,
        Verb::Show(step) => return show_fields(api, step).await,
    }
    Ok(Vec::new())
}

/// The error of an object: the step's words name it unless there are several.
fn of_object(manifest: &Manifest, object: &Value, source: ApiError) -> StepError {
    match manifest.objects.len() {
        1 => StepError::Api(source),
        _ => StepError::Object {
            object: manifest.object_in_words(object),
            source: Box::new(source),
        },
    }
}

async fn delete(api: &Api, step: &DeleteStep) -> Result<(), ApiError> {
    let mut options = Map::new();
    options.insert("apiVersion", json!("v1"));
    options.insert("kind", json!("DeleteOptions"));
    if let Some(grace) = step.grace_period_seconds {
        options.insert("gracePeriodSeconds", json!(grace));
    }
    if let Some(policy) = &step.propagation_policy {
        options.insert("propagationPolicy", json!(policy));
    }
    if let Some(preconditions) = &step.preconditions {
        options.insert(
            "preconditions".to_owned(),
            resolve(api, preconditions).await?,
        );
    }
    let target = (step.target.resource.as_str(), step.target.name.as_str());
    api.delete(target, &Value::Object(options)).await?;
    Ok(())
}

/// Annotates the pod, or its namespace for a pod that does not exist yet.
async fn annotate(api: &Api, step: &PodStep) -> Result<(), ApiError> {
    let merge = "application/merge-patch+json";
    let patch = |prefix: &str| {
        let annotations: Map = step
            .annotations()
            .into_iter()
            .map(|(key, value)| (format!("{prefix}{PREFIX}/{key}"), json!(value)))
            .collect();
        json!({"metadata": {"annotations": annotations}})
    };
    match api
        .patch(("pods", &step.name), None, merge, &patch(""))
        .await
    {
        Err(error) if error.is_not_found() => {
            let patch = patch(&format!("{}.pods.", step.name));
            api.patch(("namespaces", api.namespace()), None, merge, &patch)
                .await?;
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

async fn wait(cluster: Cluster<'_>, step: &WaitStep) -> Result<(), StepError> {
    let mut written = cluster.subscribe();
    let mut last = None;
    let until = async {
        loop {
            written.borrow_and_update();
            let target = (step.target.resource.as_str(), step.target.name.as_str());
            let object = cluster.api().get(target, None).await;
            match object {
                Ok(object) if is_met(step, &object) => return Ok(true),
                Err(error) if error.is_not_found() && step.gone => return Ok(true),
                Err(error) if !error.is_not_found() => return Err(StepError::Api(error)),
                seen => last = seen.ok(),
            }
            if written.changed().await.is_err() {
                return Ok(false);
            }
        }
    };
    match tokio::time::timeout(step.timeout.0, until).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Err(error)) => Err(error),
        Ok(Ok(false)) | Err(_) => Err(StepError::NotMet {
            within: step.timeout,
            found: instead(step, last.as_ref()),
        }),
    }
}

/// Describes the actual state instead of the one waited for.
fn instead(step: &WaitStep, object: Option<&Value>) -> String {
    let Some(object) = object else {
        return format!("there is no {}", step.target);
    };
    if step.gone {
        return format!("{} is still there", step.target);
    }
    let shown = |value: Option<&Value>| value.map_or_else(|| "unset".to_owned(), in_flow);
    match (&step.condition, &step.field) {
        (Some(condition), _) => {
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let found = conditions.find(|known| known["type"] == condition.as_str());
            format!("condition {condition} is {}", shown(found))
        }
        (None, field_path) => {
            let path = field_path.as_deref().unwrap_or_default();
            let found = field(object, path);
            let wanted = step.is.as_ref();
            let hint = found
                .zip(wanted)
                .and_then(|(found, wanted)| quoted(found, wanted));
            let wanted = wanted.map(|wanted| format!(", not {}", in_flow(wanted)));
            format!(
                "{path} is {}{}{}",
                shown(found),
                wanted.unwrap_or_default(),
                hint.unwrap_or_default()
            )
        }
    }
}

/// Advises quotes if the string `found` is what the file has without them, and YAML reads `wanted` instead.
fn quoted(found: &Value, wanted: &Value) -> Option<String> {
    let found = found.as_str()?;
    let read: Value = serde_saphyr::from_str(found).ok()?;
    let is_other = !wanted.is_string() && read == *wanted;
    is_other.then(|| format!("; `is: {found:?}` waits for the string"))
}

fn is_met(step: &WaitStep, object: &Value) -> bool {
    if let Some(condition) = &step.condition {
        let conditions = object["status"]["conditions"].as_array();
        return conditions.into_iter().flatten().any(|known| {
            known["type"].as_str() == Some(condition) && known["status"].as_str() == Some("True")
        });
    }
    let Some(path) = &step.field else {
        return false;
    };
    match (field(object, path), &step.is) {
        (Some(found), Some(wanted)) => found == wanted,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

async fn show_fields(api: &Api, step: &ShowStep) -> Result<Vec<String>, StepError> {
    let target = (step.target.resource.as_str(), step.target.name.as_str());
    let object = api.get(target, step.subresource.as_deref()).await?;
    let lines = step
        .fields
        .iter()
        .flat_map(|path| match field(&object, path) {
            Some(value) if is_conditions(value) => {
                let table = indented(table::align(&table::of_objects(value)));
                std::iter::once(format!("{path}:")).chain(table).collect()
            }
            Some(value) => vec![format!("{path}: {}", in_flow(&with_parsed(value)))],
            None => vec![format!("{path}: unset")],
        });
    Ok(lines.collect())
}

/// `value` with the objects that strings in it hold as JSON.
fn with_parsed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), with_parsed(value)))
            .collect(),
        Value::Array(items) => items.iter().map(with_parsed).collect(),
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        other => other.clone(),
    }
}

/// Whether `value` is a list of conditions.
fn is_conditions(value: &Value) -> bool {
    let is_condition = |item: &Value| item["type"].is_string() && item["status"].is_string();
    let items = value.as_array();
    items.is_some_and(|items| !items.is_empty() && items.iter().all(is_condition))
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| format!("  {line}"))
}

async fn show_table(cluster: Cluster<'_>, step: &TableStep) -> Result<Vec<String>, StepError> {
    let api = cluster.api();
    let selector = step.label_selector.as_deref();
    let table = if step.all_namespaces {
        api.table_of_all(&step.resource, selector).await?
    } else {
        api.table(&step.resource, selector).await?
    };
    let mut table = outcome::masked(table);
    outcome::without_ages(&mut table);
    GeneratedNames::of(&cluster.journal()).mask_table(&mut table);
    if step.all_namespaces {
        table::prepend_namespaces(&mut table);
    }
    let lines = table::render(&table, step.wide);
    let everywhere = step.all_namespaces || !api.resource(&step.resource)?.namespaced;
    if lines.is_empty() && everywhere {
        return Ok(vec!["No resources found".to_owned()]);
    }
    if lines.is_empty() {
        return Ok(vec![format!(
            "No resources found in {} namespace.",
            api.namespace()
        )]);
    }
    Ok(lines)
}
