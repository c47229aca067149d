//! A step as its file states it: one field for each action, and those that any step may have.

use kubeproof_apiserver::FieldValidation;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    DeleteCollectionStep, DeleteStep, Expect, FaultStep, MetricStep, NodeStep, PatchStep, PodStep,
    Restarted, ScaleStep, ShowStep, Step, TableStep, UpdateStep, Verb, WaitStep,
};
use crate::scenario::manifest::Manifest;
use crate::scenario::schema;
use crate::time::HumanDuration;

/// The step `{quiet: 10m}`, or an option of any other step.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum SettleFields {
    Wanted(bool),
    Verb { quiet: HumanDuration },
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepFields {
    /// The reason for the step, for the reader.
    note: Option<String>,
    /// The refusal that the step gets; without it a refused request fails the scenario.
    expect: Option<Expect>,
    /// As a step, lets time pass until nothing was written for the time `quiet`. In any other step, whether everything settles
    /// before the next one.
    settle: Option<SettleFields>,
    /// The treatment of unknown and duplicate fields by apply, create, update and patch: Strict unless
    /// it is given.
    #[serde(rename = "fieldValidation")]
    #[schemars(with = "Option<schema::FieldValidation>")]
    field_validation: Option<FieldValidation>,
    /// Creates the objects, or merges them into those that exist (RFC 7386).
    apply: Option<Manifest>,
    /// Creates the objects.
    create: Option<Manifest>,
    /// Replaces one object.
    update: Option<UpdateStep>,
    /// Patches one object.
    patch: Option<PatchStep>,
    /// Sets the replicas of an object.
    scale: Option<ScaleStep>,
    /// Deletes one object.
    delete: Option<DeleteStep>,
    /// Deletes the objects of a resource.
    #[serde(rename = "deleteCollection")]
    delete_collection: Option<DeleteCollectionStep>,
    /// Sets the behavior of a simulated pod.
    pod: Option<PodStep>,
    /// Makes a node fail or come back, or takes its pods away from it.
    node: Option<NodeStep>,
    /// Injects a fault between clients and server.
    fault: Option<FaultStep>,
    /// Ends the faults of this name.
    lift: Option<String>,
    /// Sets a value of a custom or an external metric.
    metric: Option<MetricStep>,
    /// Restarts all controllers, as after a crash.
    restart: Option<Restarted>,
    /// Shows the containers of this pod that run, by node, whatever the API says.
    containers: Option<String>,
    /// Does and prints what this kubectl command would.
    kubectl: Option<String>,
    /// Lets time pass until an object is as described.
    wait: Option<WaitStep>,
    /// Lets this much time pass.
    advance: Option<HumanDuration>,
    /// Shows the table of a resource, as kubectl does.
    table: Option<TableStep>,
    /// Shows fields of an object.
    show: Option<ShowStep>,
}

impl TryFrom<StepFields> for Step {
    type Error = String;

    fn try_from(fields: StepFields) -> Result<Self, String> {
        let (wanted, quiet) = match fields.settle {
            Some(SettleFields::Wanted(wanted)) => (Some(wanted), None),
            Some(SettleFields::Verb { quiet }) => (None, Some(quiet)),
            None => (None, None),
        };
        let mut verbs = [
            fields.apply.map(Verb::Apply),
            fields.create.map(Verb::Create),
            fields.update.map(Verb::Update),
            fields.patch.map(Verb::Patch),
            fields.scale.map(Verb::Scale),
            fields.delete.map(Verb::Delete),
            fields.delete_collection.map(Verb::DeleteCollection),
            fields.pod.map(Verb::Pod),
            fields.node.map(Verb::Node),
            fields.fault.map(Verb::Fault),
            fields.lift.map(Verb::Lift),
            fields.metric.map(Verb::Metric),
            fields.restart.map(Verb::Restart),
            fields.containers.map(Verb::Containers),
            fields.kubectl.map(Verb::Kubectl),
            fields.wait.map(Verb::Wait),
            quiet.map(Verb::Settle),
            fields.advance.map(Verb::Advance),
            fields.table.map(Verb::Table),
            fields.show.map(Verb::Show),
        ]
        .into_iter()
        .flatten();
        let verb = verbs.next().ok_or(
            "a step needs a verb: apply, create, update, patch, scale, delete, \
             deleteCollection, pod, node, fault, lift, metric, restart, containers, kubectl, wait, \
             settle: {quiet: …}, advance, table or show",
        )?;
        if verbs.next().is_some() {
            return Err("a step has one verb".to_owned());
        }
        let sends_object = matches!(
            verb,
            Verb::Apply(_) | Verb::Create(_) | Verb::Update(_) | Verb::Patch(_)
        );
        if fields.field_validation.is_some() && !sends_object {
            return Err("fieldValidation is for apply, create, update and patch".to_owned());
        }
        if let Verb::Wait(wait) = &verb {
            let given = [wait.condition.is_some(), wait.field.is_some(), wait.gone];
            if given.iter().filter(|given| **given).count() != 1 {
                return Err("wait needs one of condition, field and gone: true".to_owned());
            }
        }
        Ok(Self {
            note: fields.note,
            expect: fields.expect,
            settle: wanted.unwrap_or_else(|| verb.settles()),
            field_validation: fields.field_validation,
            verb,
        })
    }
}
