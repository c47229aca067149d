//! The outcome in fewer lines: pods in one table, revisions in a line, events in lists.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::{INDENTATION, Line, events, lists};
use crate::table;
use crate::timeline::RevisionNames;

/// Titles of the sections that have no table.
const PODS: &str = "  pods";
const STATUS: &str = "  status";
const GIVEN_EVENTS: &str = "  events of given";
const EVENTS: &str = "  events";
const FAULTS: &str = "  faults met";
/// Sections whose title and content may share a line.
const INLINE: [&str; 2] = [GIVEN_EVENTS, FAULTS];
/// Begins the line with the revisions of a controller.
const REVISIONS_OF: &str = "revisions of ";
/// The columns that the section of pods adds to their table.
const ADDED: [&str; 3] = ["REVISION", "IMAGE", "OWNER"];
/// The beginnings of a table of pods, and of a table of revisions.
const POD_COLUMNS: [&str; 3] = ["NAME", "READY", "STATUS"];
const REVISION_COLUMNS: [&str; 3] = ["NAME", "CONTROLLER", "REVISION"];
/// The beginning of the table after the revisions.
const CLAIM_COLUMNS: [&str; 3] = ["NAME", "STATUS", "VOLUME"];
/// Stands where a pod has no revision or owner.
const NOTHING: &str = "-";
const NO_OWNER: &str = "no owner";
const OWNED_BY: &str = "owned by ";
/// The digits of generations.
const SUPERSCRIPTS: &[char] = &['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

static CELLS: LazyLock<Regex> = LazyLock::new(|| Regex::new(" {3,}").expect("a regex"));
static GENERATIONS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("generation (\\d+), observedGeneration (\\d+), collisionCount (\\S+)")
        .expect("a regex")
});
static REVISION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:\S+ = )?(\S+) \((\d+)\)").expect("a regex"));

/// Lines between two empty ones.
type Section = Vec<Line>;

/// The lines of an outcome. `revisions` has the letters of revisions.
pub(super) fn fold(lines: &[Line], revisions: &RevisionNames) -> Vec<Line> {
    let mut sections: Vec<Section> = lines
        .split(|line| line.text.is_empty())
        .filter(|section| !section.is_empty())
        .map(<[Line]>::to_vec)
        .collect();
    join_pods(&mut sections);
    list_revisions(&mut sections, revisions);
    move_below_workloads(&mut sections);
    for section in &mut sections {
        if begins_with(section, &POD_COLUMNS) {
            list_pods(section);
        }
    }
    for section in &mut sections {
        if is_events(&section[0].text) {
            events::list(section);
        }
        join_title(section);
    }
    let mut folded = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        // Events are in one block.
        let is_first = !folded.iter().any(|line: &Line| is_untabled(&line.text));
        if index > 0 && (is_first || !is_untabled(&section[0].text)) {
            folded.push(Line::new(String::new()));
        }
        folded.extend(section);
    }
    folded
}

/// Undoes [`fold`]; `lines` are without marks, and generations of pods are not told apart.
pub(super) fn unfold(lines: &[String]) -> Vec<String> {
    let (mut tables, mut statuses, mut pods, mut others) = (vec![], vec![], vec![], vec![]);
    let mut title = String::new();
    let mut revisions = Vec::new();
    // Tables are aligned without generations.
    let lines = lines.iter().map(|line| without_generations(line));
    let lines = lines.flat_map(|line| match inline_title(&line) {
        Some((title, content)) => vec![title.to_owned(), format!("    {content}")],
        None => vec![line],
    });
    for line in lines {
        let line = &line;
        if line.is_empty() {
            title.clear();
        } else if title.is_empty() || is_title(line) {
            line.clone_into(&mut title);
            match title.as_str() {
                STATUS | PODS => continue,
                title if is_untabled(title) => others.push(vec![]),
                _ => tables.push(vec![]),
            }
        }
        let listed = line.trim_start().strip_prefix(REVISIONS_OF);
        if line.is_empty() {
            continue;
        } else if title == STATUS || (!is_untabled(&title) && GENERATION.is_match(line)) {
            statuses.push(format!("    {}", full_status(line.trim())));
        } else if title == PODS {
            pods.push(line.clone());
        } else if let Some((controller, names)) = listed.and_then(|listed| listed.split_once(": "))
        {
            revisions.extend(REVISION.captures_iter(names).map(|found| {
                [&found[1], controller, &found[2]]
                    .map(str::to_owned)
                    .to_vec()
            }));
        } else if let Some(section) = sections_of(&title, &mut tables, &mut others) {
            section.extend(lists::split(line));
        }
    }
    for table in &mut tables {
        *table = split_pods(table, &mut pods);
    }
    if !revisions.is_empty() {
        revisions.sort();
        revisions.insert(0, REVISION_COLUMNS.map(str::to_owned).to_vec());
        let is_claims = |table: &Vec<String>| {
            let header = table.first();
            header.is_some_and(|line| cells(line).starts_with(&CLAIM_COLUMNS.map(str::to_owned)))
        };
        let at = tables.iter().position(is_claims).unwrap_or(tables.len());
        tables.insert(at, indented(&revisions));
    }
    for (title, lines) in [(STATUS, statuses), (PODS, pods)] {
        if !lines.is_empty() {
            tables.push(std::iter::once(title.to_owned()).chain(lines).collect());
        }
    }
    let sections = tables
        .into_iter()
        .chain(others)
        .filter(|section| !section.is_empty());
    sections
        .flat_map(|section| std::iter::once(String::new()).chain(section))
        .collect()
}

/// The section that a line below `title` belongs to.
fn sections_of<'a>(
    title: &str,
    tables: &'a mut [Vec<String>],
    others: &'a mut [Vec<String>],
) -> Option<&'a mut Vec<String>> {
    match is_untabled(title) {
        true => others.last_mut(),
        false => tables.last_mut(),
    }
}

/// `text` without the numbers that tell pods of one name apart.
pub(crate) fn without_generations(text: &str) -> String {
    text.replace(SUPERSCRIPTS, "")
}

static GENERATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r", generation \d+( observed)?(,|$)").expect("a regex"));

fn is_events(title: &str) -> bool {
    [GIVEN_EVENTS, EVENTS].contains(&title)
}

/// Whether the section comes after the tables, statuses and pods.
fn is_untabled(title: &str) -> bool {
    let title = inline_title(title).map_or(title, |(title, _)| title);
    is_events(title) || title == FAULTS
}

/// The title and the content of a section that is one line.
fn inline_title(line: &str) -> Option<(&str, &str)> {
    let (title, content) = line.split_once(": ")?;
    INLINE.contains(&title).then_some((title, content))
}

/// Writes a section with one line of content beside its title, except for the events of the steps.
fn join_title(section: &mut Section) {
    if let [title, content] = section.as_slice()
        && INLINE.contains(&title.text.as_str())
        && !content.marked
    {
        let text = format!("{}: {}", title.text, content.text.trim_start());
        *section = vec![Line::new(text)];
    }
}

/// Whether a line begins a section, even without an empty line before it.
fn is_title(line: &str) -> bool {
    [STATUS, PODS].contains(&line) || is_untabled(line)
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<String> {
    CELLS.split(line.trim()).map(str::to_owned).collect()
}

fn begins_with(section: &[Line], columns: &[&str]) -> bool {
    let cells = cells(&section[0].text);
    cells
        .iter()
        .zip(columns)
        .filter(|(cell, column)| cell == *column)
        .count()
        == columns.len()
}

/// Joins the table of pods and their revisions, images and owners, if both are of the same pods.
fn join_pods(sections: &mut Vec<Section>) {
    let titled = sections.iter().position(|section| section[0].text == PODS);
    let table = sections
        .iter()
        .position(|section| begins_with(section, &POD_COLUMNS));
    let (Some(titled), Some(table)) = (titled, table) else {
        return;
    };
    let mut known = BTreeMap::new();
    for line in &sections[titled][1..] {
        let cells = cells(&line.text);
        let [name, image, owner] = cells.as_slice() else {
            return;
        };
        let (name, revision) = name.split_once('@').unwrap_or((name, NOTHING));
        let owner = owner.strip_prefix(OWNED_BY).unwrap_or(NOTHING);
        let added = [revision, image, owner].map(str::to_owned);
        let row = (name.to_owned(), added, line.marked);
        known.insert(without_generations(name), row);
    }
    let mut rows = vec![cells(&sections[table][0].text)];
    rows[0].extend(ADDED.map(str::to_owned));
    let mut marks = vec![sections[table][0].marked];
    for line in &sections[table][1..] {
        let mut row = cells(&line.text);
        let Some((name, added, marked)) = known.remove(&row[0]) else {
            return;
        };
        row[0] = name;
        row.extend(added);
        rows.push(row);
        marks.push(line.marked || marked);
    }
    if !known.is_empty() || rows.iter().any(|row| row.len() != rows[0].len()) {
        return;
    }
    let lines = table::align(&rows).into_iter().zip(marks);
    sections[table] = lines
        .map(|(text, marked)| Line {
            marked,
            ..Line::new(format!("{INDENTATION}{text}"))
        })
        .collect();
    sections.remove(titled);
}

/// Undoes [`join_pods`] for a table: returns it without what was added, which is put into `pods`.
fn split_pods(section: &[String], pods: &mut Vec<String>) -> Vec<String> {
    let mut rows: Vec<Vec<String>> = section.iter().map(|line| cells(line)).collect();
    let is_joined = rows
        .first()
        .is_some_and(|header| header.ends_with(&ADDED.map(str::to_owned)));
    if !is_joined {
        return section.to_vec();
    }
    let mut added = Vec::new();
    for row in &mut rows {
        let own = row.split_off(row.len().saturating_sub(ADDED.len()));
        let [revision, image, owner] = own.as_slice() else {
            continue;
        };
        let name = match revision.as_str() {
            NOTHING => row[0].clone(),
            revision => format!("{}@{revision}", row[0]),
        };
        let owner = match owner.as_str() {
            NOTHING => NO_OWNER.to_owned(),
            owner => format!("{OWNED_BY}{owner}"),
        };
        added.push(vec![name, image.clone(), owner]);
    }
    // The first row is the header.
    let lines = table::align(&added[1..]).into_iter();
    pods.extend(lines.map(|line| format!("    {line}")));
    indented(&rows)
}

/// Writes pods that follow each other and differ in their names alone on one line.
fn list_pods(section: &mut Section) {
    let mut rows: Vec<(Vec<String>, bool)> = Vec::new();
    let mut suffixes: Vec<Vec<String>> = Vec::new();
    for line in section.iter() {
        let cells = cells(&line.text);
        let named =
            lists::parts(&cells[0]).map(|(prefix, suffix)| (prefix.to_owned(), suffix.to_owned()));
        if let (Some((prefix, suffix)), Some((before, false)), Some(listed)) =
            (&named, rows.last(), suffixes.last_mut())
            && !line.marked
            && before[1..] == cells[1..]
            && before[0] == lists::joined(prefix, listed)
        {
            listed.push(suffix.clone());
            let name = lists::joined(prefix, listed);
            if let Some((row, _)) = rows.last_mut() {
                row[0] = name;
            }
            continue;
        }
        suffixes.push(named.map(|(_, suffix)| suffix).into_iter().collect());
        rows.push((cells, line.marked));
    }
    let (rows, marks): (Vec<Vec<String>>, Vec<bool>) = rows.into_iter().unzip();
    let lines = indented(&rows).into_iter().zip(marks);
    *section = lines
        .map(|(text, marked)| Line {
            marked,
            ..Line::new(text)
        })
        .collect();
}

/// Writes the revisions of each controller on one line.
fn list_revisions(sections: &mut [Section], revisions: &RevisionNames) {
    let Some(section) = sections
        .iter_mut()
        .find(|section| begins_with(section, &REVISION_COLUMNS))
    else {
        return;
    };
    let mut marked = false;
    let mut by_controller: Vec<(String, Vec<String>)> = Vec::new();
    let mut rows: Vec<&Line> = section[1..].iter().collect();
    rows.sort_by_key(|line| {
        cells(&line.text)
            .pop()
            .and_then(|revision| revision.parse::<u64>().ok())
    });
    for line in rows {
        let cells = cells(&line.text);
        let [name, controller, revision] = cells.as_slice() else {
            return;
        };
        marked |= line.marked;
        let letter = revisions.short(name);
        let revision_text = match letter == *name {
            true => format!("{name} ({revision})"),
            false => format!("{letter} = {name} ({revision})"),
        };
        match by_controller
            .iter_mut()
            .find(|(known, _)| known == controller)
        {
            Some((_, names)) => names.push(revision_text),
            None => by_controller.push((controller.clone(), vec![revision_text])),
        }
    }
    let lines = by_controller.into_iter().map(|(controller, names)| Line {
        marked,
        ..Line::new(format!(
            "  {REVISIONS_OF}{controller}: {}",
            names.join(", ")
        ))
    });
    *section = lines.collect();
}

/// A table of `rows`.
fn indented(rows: &[Vec<String>]) -> Vec<String> {
    let lines = table::align(rows).into_iter();
    lines.map(|line| format!("{INDENTATION}{line}")).collect()
}

/// Moves statuses and revisions below the first table, which is the one of their workloads.
fn move_below_workloads(sections: &mut Vec<Section>) {
    let is_table = |section: &Section| section[0].text.trim_start().starts_with(POD_COLUMNS[0]);
    if !sections
        .first()
        .is_some_and(|first| is_table(first) && !begins_with(first, &POD_COLUMNS))
    {
        return;
    }
    if let Some(titled) = sections
        .iter()
        .position(|section| section[0].text == STATUS)
    {
        for mut line in sections.remove(titled).into_iter().skip(1) {
            line.text = format!("{INDENTATION}{}", short_status(line.text.trim()));
            sections[0].push(line);
        }
    }
    let is_revisions = |section: &Section| section[0].text.trim_start().starts_with(REVISIONS_OF);
    if let Some(listed) = sections.iter().position(is_revisions) {
        let revisions = sections.remove(listed);
        sections[0].extend(revisions);
    }
}

/// Shortens what is usual: the generation is observed, and there are no collisions.
fn short_status(line: &str) -> String {
    let Some(found) = GENERATIONS.captures(line) else {
        return line.to_owned();
    };
    let collisions = match &found[3] {
        "0" => String::new(),
        count => format!(", collisionCount {count}"),
    };
    let generation = match found[1] == found[2] {
        true => format!("generation {} observed{collisions}", &found[1]),
        false => format!(
            "generation {}, observedGeneration {}{collisions}",
            &found[1], &found[2]
        ),
    };
    GENERATIONS
        .replace(line, regex::NoExpand(&generation))
        .into_owned()
}

/// Undoes [`short_status`].
fn full_status(line: &str) -> String {
    let Some((before, after)) = line.split_once(", generation ") else {
        return line.to_owned();
    };
    let generation: String = after.chars().take_while(char::is_ascii_digit).collect();
    let mut full = after.replacen(
        " observed",
        &format!(", observedGeneration {generation}"),
        usize::from(after[generation.len()..].starts_with(" observed")),
    );
    if !full.contains(", collisionCount ") {
        full.push_str(", collisionCount 0");
    }
    format!("{before}, generation {full}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::unfold;

    const FULL: &str = "
  NAME   READY
  web    2/2

  NAME    READY   STATUS    RESTARTS
  web-0   1/1     Running   0
  web-1   1/1     Running   0
  web-2   1/1     Running   0
  web-3   1/1     Running   0

  NAME       CONTROLLER             REVISION
  web-f4b7   statefulset.apps/web   1
  web-5d8b   statefulset.apps/web   2

  status
    statefulset web: 2/2/2/2/2 cur=B upd=B, generation 2, observedGeneration 2, collisionCount 0

  pods
    web-0@A    nginx:1.25   owned by web
    web-1@A    nginx:1.25   owned by web
    web-2@A    nginx:1.25   owned by web
    web-3²@B   nginx:1.26   no owner

  events of given
    ×1 Normal SuccessfulCreate create Claim data-web-0 Pod web-0 in StatefulSet web success
    ×1 Normal SuccessfulCreate create Claim data-web-1 Pod web-1 in StatefulSet web success

  events
    ×1 Normal SuccessfulDelete delete Pod web-1 in StatefulSet web successful
    ×2 Normal SuccessfulCreate create Pod web-1 in StatefulSet web successful";
    const FOLDED: &str = "  NAME   READY
  web    2/2
  statefulset web: 2/2/2/2/2 cur=B upd=B, generation 2 observed
  revisions of statefulset.apps/web: web-f4b7 (1), web-5d8b (2)

  NAME         READY   STATUS    RESTARTS   REVISION   IMAGE        OWNER
  web-{0..2}   1/1     Running   0          A          nginx:1.25   web
  web-3²       1/1     Running   0          B          nginx:1.26   -

  events of given: ×1 Normal SuccessfulCreate create Claim data-web-{0,1} Pod web-{0,1} in StatefulSet web success
  events
    ×1 Normal SuccessfulDelete delete Pod web-1 in StatefulSet web successful
    ×2 Normal SuccessfulCreate create Pod web-1 in StatefulSet web successful";

    fn lines(text: &str) -> Vec<Line> {
        let lines = text.lines();
        lines.map(|line| Line::new(line.to_owned())).collect()
    }

    #[test]
    fn an_outcome_is_folded_and_unfolded() {
        let folded = fold(&lines(FULL), &RevisionNames::default());
        let texts: Vec<&str> = folded.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts.join("\n"), FOLDED);
        assert_eq!(
            unfold::outcome_facts(&folded),
            unfold::outcome_facts(&lines(FULL))
        );
    }

    #[test]
    fn a_mark_keeps_its_line_apart_and_goes_to_the_row_of_its_pod() {
        let mut full = lines(FULL);
        for line in &mut full {
            line.marked = line.text.contains("data-web-1") || line.text.contains("web-0@A");
        }
        let folded = fold(&full, &RevisionNames::default());
        let marked = folded.iter().filter(|line| line.marked);
        let marked: Vec<&str> = marked.map(|line| line.text.trim()).collect();
        assert_eq!(marked.len(), 2);
        assert!(marked[0].starts_with("web-0       1/1"), "{marked:?}");
        assert!(
            marked[1].contains("Claim data-web-1 Pod web-1"),
            "{marked:?}"
        );
    }

    #[test]
    fn an_unusual_status_is_kept() {
        for status in [
            "generation 2, observedGeneration 1, collisionCount 0",
            "generation 2, observedGeneration 2, collisionCount null",
            "generation 3, observedGeneration 2, collisionCount 1",
        ] {
            let line = format!("cloneset a: 1/1, {status}");
            assert_eq!(full_status(&short_status(&line)), line);
        }
    }
}
