//! Jobs and cron jobs.

use serde_json::{Value, json};

use super::view::{View, elapsed, or_none};
use super::workload::containers;

pub(super) fn job(view: View<'_>) -> Vec<Value> {
    let succeeded = view.int("/status/succeeded");
    let completions = match (view.get("/spec/completions"), view.int("/spec/parallelism")) {
        (Some(_), _) => format!("{succeeded}/{}", view.int("/spec/completions")),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let duration = view.time("/status/startTime").map(|start| {
        elapsed(
            start,
            view.time("/status/completionTime").unwrap_or(view.now),
        )
    });
    let mut cells = vec![
        view.name(),
        json!(job_status(view)),
        json!(completions),
        json!(duration.unwrap_or_default()),
        view.age(),
    ];
    cells.extend(containers(view, "/spec/template/spec/containers"));
    cells.push(json!(or_none(view.selector("/spec/selector"))));
    cells
}

pub(super) fn cron_job(view: View<'_>) -> Vec<Value> {
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
    cells
}

fn job_status<'a>(view: View<'a>) -> &'a str {
    let holds = |kind: &str| {
        view.condition(kind)
            .is_some_and(|condition| condition.str("/status") == "True")
    };
    for finished in ["Complete", "Failed"] {
        if holds(finished) {
            return finished;
        }
    }
    if view.is_terminating() {
        return "Terminating";
    }
    let pending = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    pending
        .into_iter()
        .find(|kind| holds(kind))
        .unwrap_or("Running")
}
