//! The transcript of a run: header, timeline and outcome.

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_controller::apps::statefulset::Profile;

use super::cluster::Cluster;
use super::fitness::{needs_own_nodes, unportable};
use super::line::Line;
use super::{RunError, marks};
use crate::fold;
use crate::generated::GeneratedNames;
use crate::outcome;
use crate::scenario::{DEFAULT_NAMESPACE, Place, Scenario};
use crate::timeline::given::{filled, metrics, nodes};
use crate::timeline::{RevisionNames, Timeline, since};

/// Heads the timeline; says how to read a line.
const TIMELINE: &str = "timeline: time since the step began, who wrote, what changed";
/// What counts and signs mean, by two parts of the lines that have them.
const LEGENDS: &[(&str, &str, &str)] = &[
    (
        " statefulset ",
        " status ",
        "status = replicas/ready/available/current/updated",
    ),
    (
        " cloneset ",
        " status ",
        "status = replicas/ready/available updated all/ready/available of expected",
    ),
    (" +", "‖ ", "‖ = in the controller's next sync"),
];

/// The data of one step for the timeline.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) note: Option<String>,
    /// Writes up to this version came before the step.
    pub(super) after_rv: ResourceVersion,
    /// The number of refusals before the step.
    pub(super) after_refusals: usize,
    pub(super) began: Timestamp,
    /// Lines of the harness itself: a refusal, a table.
    pub(super) said: Vec<String>,
    pub(super) ended: Timestamp,
    pub(super) settled: Option<Timestamp>,
    pub(super) awaited: bool,
}

/// The transcript of a run.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) text: String,
    /// The marks that no line carries, each with the reason.
    pub(super) unmet_marks: Vec<String>,
}

/// Adds `texts` as evidence of `place`.
fn extend(lines: &mut Vec<Line>, place: Option<Place>, texts: impl IntoIterator<Item = String>) {
    lines.extend(texts.into_iter().map(|text| Line::new(text, place)));
}

/// Writes the transcript of `sections`, the steps of `scenario`.
///
/// # Errors
/// [`RunError`] when the cluster cannot be read.
pub(super) async fn write(
    cluster: Cluster<'_>,
    scenario: &Scenario,
    sections: &[Section],
) -> Result<Transcript, RunError> {
    cluster.caught_up().await?;
    let (journal, all_refusals) = (cluster.journal(), cluster.refusals());
    let mut timeline = Timeline::with_syncs(cluster.syncs());
    let mut lines = Vec::new();
    extend(&mut lines, None, header(scenario));
    let first_rv = sections
        .first()
        .map_or(ResourceVersion::MAX, |section| section.after_rv);
    let mut entries = journal.iter().peekable();
    while let Some(entry) = entries.next_if(|entry| entry.rv <= first_rv) {
        timeline.learn(entry);
    }
    extend(&mut lines, None, timeline.revisions_known());
    extend(&mut lines, None, [TIMELINE.to_owned()]);
    for (index, section) in sections.iter().enumerate() {
        let next = sections.get(index + 1);
        let until = next.map_or(ResourceVersion::MAX, |next| next.after_rv);
        let refused_until = next.map_or(all_refusals.len(), |next| next.after_refusals);
        let refused = &all_refusals[section.after_refusals..refused_until];
        let is_empty = lines.last().is_some_and(|line| line.place.is_none());
        extend(&mut lines, None, (!is_empty).then(String::new));
        extend(&mut lines, None, [section.heading.clone()]);
        let note = section.note.iter().map(|note| format!("   # {note}"));
        extend(&mut lines, None, note);
        let place = Some(Place::Step(index + 1));
        let said = section.said.iter().map(|said| format!("  {said}"));
        extend(&mut lines, place, said);
        let until_here = std::iter::from_fn(|| entries.next_if(|entry| entry.rv <= until));
        let (own, changes) = timeline.lines(until_here, refused, section.began);
        lines.extend(own.into_iter().map(|line| Line {
            sync: line.sync,
            ..Line::new(line.text, place)
        }));
        extend(&mut lines, place, ending(section, changes));
    }
    extend(&mut lines, None, [String::new(), "outcome".to_owned()]);
    let names = GeneratedNames::of(&journal);
    let (api, more) = (cluster.api(), std::iter::empty());
    let outcome = outcome::describe(api, &journal, &timeline, &names, first_rv, more).await;
    let outcome = outcome.map_err(RunError::Outcome)?;
    let place = Some(Place::Outcome);
    extend(&mut lines, place, outcome);
    extend(&mut lines, place, outcome::faults(&cluster.faults_met()));
    mask(&mut lines, &names);
    let unmet_marks = marks::set(&mut lines, &scenario.shows);
    let text = explained(&folded(&lines, timeline.revisions()));
    Ok(Transcript { text, unmet_marks })
}

/// `text` with the meaning of the counts and signs in its timeline.
fn explained(text: &str) -> String {
    let timeline = text.split("\noutcome\n").next().unwrap_or_default();
    let is_shown = |(noun, sign, _): &&(&str, &str, &str)| {
        let mut lines = timeline.lines();
        lines.any(|line| line.contains(noun) && line.contains(sign))
    };
    let legends = LEGENDS.iter().filter(is_shown);
    let legends: String = legends
        .map(|(_, _, legend)| format!("; {legend}"))
        .collect();
    text.replacen(TIMELINE, &format!("{TIMELINE}{legends}"), 1)
}

/// The text of a transcript, each part of it folded.
fn folded(lines: &[Line], revisions: &RevisionNames) -> String {
    let mut text = String::new();
    for part in lines.chunk_by(|one, other| one.place == other.place) {
        let evidence = part.iter().map(|line| fold::Line {
            text: line.text.clone(),
            marked: line.marked,
            sync: line.sync,
        });
        let evidence = evidence.collect();
        let evidence = match part[0].place {
            None => evidence,
            Some(Place::Step(_)) => fold::step(evidence),
            Some(Place::Outcome) => fold::outcome(evidence, revisions),
        };
        for line in evidence.iter().flat_map(fold::Line::shown) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Replaces generated names, uids and long JSON. The numbers of uids go by the whole transcript.
fn mask(lines: &mut [Line], names: &GeneratedNames) {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let masked = outcome::mask_uids(&names.mask(&texts.join("\n")));
    for (line, masked) in lines.iter_mut().zip(masked.split('\n')) {
        line.text = match line.place {
            None => masked.to_owned(),
            Some(_) => fold::mask_json(masked).into_owned(),
        };
    }
}

fn header(scenario: &Scenario) -> Vec<String> {
    let fitness = match unportable(scenario) {
        None if needs_own_nodes(scenario) => {
            "portable to a real cluster, with simulated nodes".to_owned()
        }
        None => "portable to a real cluster".to_owned(),
        Some(why) => format!("needs this server: it {why}"),
    };
    let given = &scenario.given;
    let nodes = nodes(given.nodes);
    let timings = given.timings;
    let mut lines = vec![format!("# {}", scenario.title.trim())];
    let shows = scenario.shows.iter();
    lines.extend(shows.map(|shown| format!("# shows: {}", shown.text.trim())));
    lines.extend([
        format!("# source: {}", scenario.source.trim()),
        format!("# {fitness}"),
        format!(
            "# given: {nodes}; a pod takes {} to start, {} to get ready, {} to stop",
            timings.start, timings.ready, timings.stop
        ),
    ]);
    let mut parts = Vec::new();
    if given.namespace != DEFAULT_NAMESPACE {
        parts.push(format!("namespace {}", given.namespace));
    }
    parts.extend(metrics(given.metrics, given.nodes));
    // Where all but some run, a cluster that exists need not choose its own.
    let controllers = given.controllers.as_ref();
    if let Some(chosen) = controllers.filter(|chosen| !chosen.leaves_out()) {
        parts.push(format!("controllers: {}", chosen.names().join(", ")));
    }
    let settings = given.statefulset();
    if settings.profile != Profile::default() {
        parts.push(format!(
            "the StatefulSet controller of {}",
            settings.profile
        ));
    }
    if given.default_storage_class {
        parts.push("a default storage class with its provisioner".to_owned());
    }
    if let Some(pool) = &given.load_balancers {
        parts.push(format!("a cloud with the addresses {pool}"));
    }
    if let Some(config) = &given.scheduler_config {
        let names: Vec<&str> = config.read().profile_names().collect();
        parts.push(format!("profiles of the scheduler: {}", names.join(", ")));
    }
    let lists = given.same_images.lists().iter();
    parts.extend(lists.map(|names| format!("one image: {}", names.join(", "))));
    let missing = given.missing_images.patterns();
    if !missing.is_empty() {
        parts.push(format!("no registry has {}", missing.join(", ")));
    }
    if given.kruise {
        parts.push("OpenKruise's definitions, webhooks and controllers".to_owned());
    }
    let gates = given.feature_gates.iter();
    parts.extend(gates.map(|gate| format!("feature gate {gate}")));
    let objects = given.objects.iter();
    parts.extend(objects.map(|manifest| manifest.in_words()));
    let steps = given.steps.iter();
    parts.extend(steps.map(|step| format!("then {}", step.in_words())));
    lines.extend(filled(&parts));
    lines
}

/// Returns the last line of a step's part of the timeline.
fn ending(section: &Section, changes: usize) -> Option<String> {
    match section.settled {
        Some(_) if changes == 0 => Some("  nothing changes".to_owned()),
        Some(_) => None,
        None if section.awaited => Some(format!(
            "  {:<8} as awaited",
            since(section.began, section.ended)
        )),
        None => None,
    }
}
