//! CronJobs.

mod schedule;

use super::job::{default_template_of_job, validate_spec as validate_job_spec, warn_of_indexes};
use crate::columns::workload::containers;
use crate::columns::{Printable, or_none};
use crate::core::pod::warnings;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, name};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, object_in, text};
use crate::validation::{not_negative, one_of};
use crate::{MetadataCheck, Strategy};

/// A job's name is the CronJob's and eleven characters more.
const MAX_NAME: usize = 52;

#[derive(Debug)]
pub(crate) struct CronJob;

impl Strategy for CronJob {
    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[]
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, cron_job: &mut Value) {
        let spec = child_mut(cron_job, "spec");
        default_text(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        let job = object_in(spec, "jobTemplate");
        object_in(job, "metadata");
        default_template_of_job(object_in(job, "spec"));
    }

    fn validate(&self, cron_job: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_spec(&cron_job["spec"], None, &mut errors);
        let own = name(cron_job);
        if own.len() > MAX_NAME {
            let path = FieldPath::new("metadata.name");
            let detail = format!("must be no more than {MAX_NAME} characters");
            errors.invalid(&path, &own.into(), &detail);
        }
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings::warn_of_name(new, warnings::POD_NAMES, &mut warnings);
        }
        warn_of_indexes(new, old, "spec.jobTemplate.spec", &mut warnings);
        let template = "spec.jobTemplate.spec.template";
        warnings.extend(warnings::of_template(new, old, template));
        if text(&new["spec"]["schedule"]).contains("TZ") {
            // Upstream's path is this one.
            let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_spec(&new["spec"], Some(&old["spec"]), &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let last = match view.get("/status/lastScheduleTime") {
            Some(_) => view.since("/status/lastScheduleTime"),
            None => "<none>".to_owned(),
        };
        let suspend = match view.get("/spec/suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let mut cells = vec![
            view.name(),
            json!(view.str("/spec/schedule")),
            json!(view.str_or("/spec/timeZone", "<none>")),
            json!(suspend),
            json!(view.len("/status/active")),
            json!(last),
            view.age(),
        ];
        cells.extend(containers(
            view,
            "/spec/jobTemplate/spec/template/spec/containers",
        ));
        cells.push(json!(or_none(
            view.selector("/spec/jobTemplate/spec/selector")
        )));
        Some(cells)
    }
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let schedule = text(&spec["schedule"]);
    if schedule.is_empty() {
        errors.required(&path.child("schedule"), "");
    } else {
        let kept = old.is_some_and(|old| text(&old["schedule"]).contains("TZ"));
        let has_zone = !spec["timeZone"].is_null();
        for fault in schedule::faults(schedule, has_zone, kept) {
            errors.invalid(&path.child("schedule"), &schedule.into(), &fault);
        }
    }
    not_negative(spec, &["startingDeadlineSeconds"], &path, errors);
    let unchanged = old.is_some_and(|old| old["timeZone"] == spec["timeZone"]);
    if !unchanged && let Some(zone) = spec["timeZone"].as_str() {
        validate_time_zone(zone, &path.child("timeZone"), errors);
    }
    let policy = path.child("concurrencyPolicy");
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(&spec["concurrencyPolicy"], &policy, &policies, errors);
    let job = path.child("jobTemplate").child("spec");
    validate_job_template(&spec["jobTemplate"]["spec"], &job, errors);
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    not_negative(spec, &limits, &path, errors);
}

fn validate_job_template(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_job_spec(spec, path, errors);
    if !spec["selector"].is_null() {
        let detail = "`selector` will be auto-generated";
        errors.invalid(&path.child("selector"), &spec["selector"], detail);
    }
    if spec["manualSelector"] == true {
        let path = path.child("manualSelector");
        errors.not_supported(&path, &true.into(), &["nil", "false"]);
    }
}

/// Whether there is a time zone of this name; upper and lower case differ, as in names of files.
fn is_time_zone(name: &str) -> bool {
    jiff::tz::TimeZone::get(name).is_ok_and(|zone| zone.iana_name().is_none_or(|own| own == name))
}

fn validate_time_zone(zone: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let value = zone.into();
    if zone.is_empty() {
        errors.invalid(path, &value, "timeZone must be nil or non-empty string");
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, &value, detail);
    }
    // Go knows its own zone by this name.
    if zone != "Local" && !is_time_zone(zone) {
        errors.invalid(path, &value, &format!("unknown time zone {zone}"));
    }
}
