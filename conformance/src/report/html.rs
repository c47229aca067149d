//! The page's parts.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::escaped;
use super::matrix::{Cell, Diverged, Matrix};
use super::sides::{self, Side};
use super::{Page, ScenarioReport};

/// The page around its parts.
const PAGE: &str = include_str!("page.html");
pub(super) const STYLE: &str = include_str!("page.css");
const PROGRAM: &str = include_str!("page.js");
const LEGEND: &str = include_str!("legend.html");

/// The number of failures that are open when the page loads.
const OPEN_MAX: usize = 3;

impl Page {
    /// The page as HTML.
    #[must_use]
    pub fn to_html(&self) -> String {
        let failed = self.scenarios.iter().filter(|one| !one.has_passed).count();
        let passed = self.scenarios.len() - failed;
        let title = format!("{passed} passed, {failed} failed");
        let matrix = self.matrix.as_ref();
        let parts = [
            ("title", escaped(&title)),
            ("style", STYLE.to_owned()),
            ("summary", summary(passed, failed, matrix)),
            ("made", made(self.made_by.as_deref())),
            ("failures", failures(&self.scenarios)),
            ("matrix", matrix.map(matrix_section).unwrap_or_default()),
            ("scenarios", scenarios(&self.scenarios)),
            ("data", data(&self.scenarios)),
            ("program", PROGRAM.to_owned()),
        ];
        filled(PAGE, &parts)
    }
}

/// `template` with the parts in their places; what stands in a part is left alone.
pub(super) fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (name, behind) = behind.split_once("}}").expect("a place is closed");
        let part = parts.iter().find(|(known, _)| *known == name);
        page.push_str(before);
        page.push_str(&part.expect("every place has its part").1);
        rest = behind;
    }
    page.push_str(rest);
    page
}

/// JSON as it may stand in a `script` element: nothing in it can end the element or begin another.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

fn summary(passed: usize, failed: usize, matrix: Option<&Matrix>) -> String {
    let class = if passed > 0 { "good" } else { "quiet" };
    let mut summary = format!("<b class=\"{class}\">{passed} passed</b>");
    if failed > 0 {
        let _ = write!(
            summary,
            ", <a href=\"#failures\"><b class=\"bad\">{failed} failed</b></a>"
        );
    }
    if let Some(matrix) = matrix {
        let all = sum(matrix.rows.iter().flat_map(|row| &row.cells));
        let _ = write!(summary, "; {} runs with faults", all.runs);
        if all.diverged > 0 {
            let _ = write!(
                summary,
                ", <a href=\"#exploration\"><b class=\"bad\">{} diverged</b></a>",
                all.diverged
            );
        }
        if all.explained > 0 {
            let _ = write!(summary, ", {} diverged as expected", all.explained);
        }
        if all.diverged + all.explained == 0 {
            summary.push_str(", none diverged");
        }
    }
    summary
}

fn made(by: Option<&str>) -> String {
    by.map_or_else(String::new, |by| {
        format!(
            "<p class=\"quiet\">made by <code>{}</code></p>",
            escaped(by)
        )
    })
}

/// Links to the scenarios that failed.
fn failures(scenarios: &[ScenarioReport]) -> String {
    let failed = scenarios.iter().filter(|one| !one.has_passed);
    let links = failed.map(|one| {
        let (name, title) = (escaped(&one.name), escaped(&one.title));
        format!("<li><a href=\"#{name}\">{name}</a> <span class=\"quiet\">{title}</span></li>\n")
    });
    let links: String = links.collect();
    match links.as_str() {
        "" => links,
        _ => format!("<h2 id=\"failures\">Failed</h2>\n<ul class=\"failures\">\n{links}</ul>"),
    }
}

fn sum<'a>(cells: impl Iterator<Item = &'a Cell>) -> Cell {
    cells.fold(Cell::default(), |sum, cell| sum.plus(*cell))
}

/// The list of scenarios, by area.
fn scenarios(scenarios: &[ScenarioReport]) -> String {
    let mut html = String::from(
        "<h2>Scenarios</h2>\n<div class=\"filter\">\
         <input type=\"search\" id=\"query\" placeholder=\"name or title\" aria-label=\"filter by name or title\">\
         <label><input type=\"checkbox\" id=\"failed\">failed only</label></div>\n\
         <p id=\"nothing\" hidden>No scenario has all these words in its name or title.</p>\n",
    );
    let area = |one: &ScenarioReport| match one.name.split_once('/') {
        Some((area, _)) => area.to_owned(),
        None => String::new(),
    };
    let mut areas: Vec<(String, Vec<(usize, &ScenarioReport)>)> = Vec::new();
    for (index, one) in scenarios.iter().enumerate() {
        let area = area(one);
        match areas.iter_mut().find(|(known, _)| *known == area) {
            Some((_, members)) => members.push((index, one)),
            None => areas.push((area, vec![(index, one)])),
        }
    }
    if areas.len() > 1 {
        let links = areas.iter().map(|(area, members)| {
            let (area, count) = (escaped(area), members.len());
            format!("<span><a href=\"#area:{area}\">{area}</a> <small>{count}</small></span>")
        });
        let links: Vec<String> = links.collect();
        let _ = writeln!(html, "<nav class=\"areas\">{}</nav>", links.join("\n"));
    }
    if scenarios.iter().any(|one| !one.chart.lanes.is_empty()) {
        html.push_str(LEGEND);
    }
    let mut open = 0;
    for (area, members) in areas {
        let _ = writeln!(
            html,
            "<section class=\"area\"><h2 id=\"area:{area}\">{area} <small data-all=\"{count}\">{count}</small></h2>",
            area = escaped(&area),
            count = members.len()
        );
        for (index, one) in members {
            let is_open = !one.has_passed && open < OPEN_MAX;
            open += usize::from(is_open);
            scenario(&mut html, (index, one), is_open.then_some(" open"));
        }
        html.push_str("</section>\n");
    }
    html
}

fn scenario(html: &mut String, (index, one): (usize, &ScenarioReport), open: Option<&str>) {
    let (class, state) = match one.has_passed {
        true => ("passed", "<span class=\"state good\">passed</span>"),
        false => ("failed", "<span class=\"state bad\">failed</span>"),
    };
    let _ = writeln!(
        html,
        "<details class=\"one {class}\" id=\"{name}\"{open}><summary>{state}<code>{name}</code>\
         <span class=\"title\">{title}</span></summary><div class=\"body\" data-n=\"{index}\"></div></details>",
        name = escaped(&one.name),
        title = escaped(&one.title),
        open = open.unwrap_or_default(),
    );
}

/// The data that the script reads when a scenario is opened.
#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    report: &'a ScenarioReport,
    /// The two transcripts side by side, as HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    sides: Option<String>,
}

fn data(scenarios: &[ScenarioReport]) -> String {
    let mut html = String::new();
    for (index, one) in scenarios.iter().enumerate() {
        let compared = one.compared.as_ref();
        let data = Data {
            report: one,
            sides: compared.map(|[old, new]| sides::to_html([old, new])),
        };
        let json = serde_json::to_string(&data).expect("all keys of a report are text");
        let json = in_script(&json);
        let _ = writeln!(
            html,
            "<script type=\"application/json\" id=\"d{index}\">{json}</script>"
        );
    }
    html
}

fn matrix_section(matrix: &Matrix) -> String {
    let mut html = String::from(
        "<h2 id=\"exploration\">Exploration</h2>\n<p class=\"quiet\">The number of runs with each kind of fault. \
         ✗ counts the runs that ended with another outcome, ≈ those whose other outcome the scenario expects.</p>\n<div class=\"scroll\"><table>\n<thead><tr><th>scenario</th>",
    );
    for kind in &matrix.kinds {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(kind));
    }
    html.push_str("<th scope=\"col\">all</th></tr></thead>\n<tbody>\n");
    for row in &matrix.rows {
        let cells = row.cells.iter().copied();
        let cells = cells.chain([sum(row.cells.iter())]).map(cell);
        let name = escaped(&row.scenario);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\"><a href=\"#{name}\">{name}</a></th>{}</tr>",
            cells.collect::<String>()
        );
    }
    let columns = (0..matrix.kinds.len()).map(|column| {
        let cells = matrix.rows.iter().filter_map(|row| row.cells.get(column));
        sum(cells)
    });
    let all = sum(matrix.rows.iter().flat_map(|row| &row.cells));
    let totals: String = columns.chain([all]).map(cell).collect();
    let _ = writeln!(
        html,
        "</tbody>\n<tfoot><tr><th scope=\"row\">all</th>{totals}</tr></tfoot></table></div>"
    );
    for (index, one) in matrix.divergences.iter().enumerate() {
        divergence(&mut html, one, index == 0);
    }
    html
}

fn cell(cell: Cell) -> String {
    let Cell {
        runs,
        diverged,
        explained,
    } = cell;
    if runs == 0 {
        return "<td class=\"none\">·</td>".to_owned();
    }
    let mut words = String::new();
    for (number, sign) in [(diverged, '✗'), (explained, '≈')] {
        if number > 0 {
            let _ = write!(words, "{number}{sign} ");
        }
    }
    if !words.is_empty() {
        words.push_str("of ");
    }
    let _ = write!(words, "{runs}");
    let class = if diverged > 0 {
        " class=\"diverged\""
    } else {
        ""
    };
    format!(
        "<td{class} title=\"{runs} runs, {diverged} diverged, {explained} diverged as expected\">{words}</td>"
    )
}

fn divergence(html: &mut String, one: &Diverged, is_open: bool) {
    let others = match one.others {
        0 => String::new(),
        1 => " <small>and one other plan</small>".to_owned(),
        others => format!(" <small>and {others} other plans</small>"),
    };
    let open = if is_open { " open" } else { "" };
    let _ = writeln!(
        html,
        "<details class=\"divergence\"{open}><summary><span class=\"state bad\">diverged</span> <code>{}</code> {}{others}\
         </summary><p>Repeat the run: <code>{}</code></p><h3>Outcomes</h3><pre tabindex=\"0\">{}</pre>",
        escaped(&one.scenario),
        escaped(&one.plan),
        escaped(&one.replay),
        diff(&one.outcome)
    );
    if let Some([without, with]) = &one.timelines {
        let sides = [
            &Side::new("Without faults", without),
            &Side::new("With the faults", with),
        ];
        let _ = writeln!(html, "<h3>Timelines</h3>{}", sides::to_html(sides));
    }
    html.push_str("</details>\n");
}

/// A difference, a line an element.
fn diff(text: &str) -> String {
    let line = |line: &str| {
        let class = match line.as_bytes().first() {
            Some(b'+') => " class=\"plus\"",
            Some(b'-') => " class=\"minus\"",
            _ => "",
        };
        let line = if line.is_empty() { " " } else { line };
        format!("<i{class}>{}</i>", escaped(line))
    };
    text.lines().map(line).collect()
}
