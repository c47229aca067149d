//! A page about a server that programs have used: writers, failed requests, changes and objects.
//! It has no script.

use std::fmt::Write as _;

use super::escape::escaped;
use super::html::{STYLE, filled};

const PAGE: &str = include_str!("served.html");

/// The content of a page about a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPage {
    /// The name of the server.
    pub name: String,
    /// The file name of its log.
    pub log: String,
    /// When it began, and for how long it was there.
    pub when: String,
    /// Writers by name, each with its number of writes that created, changed and removed objects.
    pub writers: Vec<(String, [usize; 3])>,
    /// Requests that failed.
    pub failures: Vec<FailedRequest>,
    /// Panics of the server, each with its request.
    pub panics: Vec<String>,
    /// The changes of objects, a line each.
    pub timeline: Vec<String>,
    /// The number of further lines, which only the log has.
    pub lines_left_out: usize,
    /// The objects that were written.
    pub objects: Vec<WrittenObject>,
}

/// Requests of a client that failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// The time of the first one since the server began.
    pub time: String,
    /// The client.
    pub actor: String,
    /// The verb and the path.
    pub request: String,
    /// The code of the response.
    pub code: u16,
    /// The message of the response.
    pub message: String,
    /// The number of such requests.
    pub count: usize,
}

/// An object that was written while the server was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObject {
    /// The resource with its group: `deployments.apps`.
    pub resource: String,
    /// Namespace and name, or the name.
    pub name: String,
    /// The writer that created it; empty if it was there before.
    pub created_by: String,
    /// The last writer.
    pub written_by: String,
    /// The number of writes.
    pub writes: usize,
    /// Whether it is gone.
    pub is_gone: bool,
}

impl ServedPage {
    /// The page as HTML.
    #[must_use]
    pub fn to_html(&self) -> String {
        let panics: Vec<String> = self.panics.iter().map(|panic| escaped(panic)).collect();
        let panics = match panics.is_empty() {
            true => String::new(),
            false => format!(
                "<h2 class=\"bad\">Panics of the server</h2>\n<pre>{}</pre>",
                panics.join("\n")
            ),
        };
        let parts = [
            ("title", escaped(&self.name)),
            ("style", STYLE.to_owned()),
            ("summary", self.summary()),
            ("log", escaped(&self.log)),
            ("panics", panics),
            ("writers", self.writers()),
            ("failures", self.failures()),
            ("timeline", self.timeline()),
            ("objects", self.objects()),
        ];
        filled(PAGE, &parts)
    }

    fn summary(&self) -> String {
        let writes: usize = self.writers.iter().flat_map(|(_, counts)| counts).sum();
        let failed: usize = self.failures.iter().map(|own| own.count).sum();
        let left = self.objects.iter().filter(|own| !own.is_gone).count();
        let class = if failed == 0 { "good" } else { "bad" };
        format!(
            "{}: {writes} writes of {} objects, of which {left} are left; <b class=\"{class}\">{failed} requests failed</b>",
            escaped(&self.when),
            self.objects.len()
        )
    }

    fn writers(&self) -> String {
        let head = ["writer", "created", "changed", "removed"];
        let rows = self.writers.iter().map(|(name, counts)| {
            let counts = counts.map(|count| count.to_string());
            let [created, changed, removed] = counts;
            [escaped(name), created, changed, removed]
        });
        table(head, rows, "Nobody wrote anything.")
    }

    fn failures(&self) -> String {
        let head = ["first", "times", "client", "request", "code", "message"];
        let rows = self.failures.iter().map(|own| {
            [
                escaped(&own.time),
                own.count.to_string(),
                escaped(&own.actor),
                format!("<code>{}</code>", escaped(&own.request)),
                own.code.to_string(),
                escaped(&own.message),
            ]
        });
        table(head, rows, "None.")
    }

    fn timeline(&self) -> String {
        if self.timeline.is_empty() {
            return "<p>Nothing changed.</p>".to_owned();
        }
        let lines = escaped(&self.timeline.join("\n"));
        let more = match self.lines_left_out {
            0 => String::new(),
            more => format!("<p class=\"quiet\">and {more} further changes, which the log has</p>"),
        };
        format!("<pre tabindex=\"0\">{lines}</pre>{more}")
    }

    fn objects(&self) -> String {
        let head = [
            "resource",
            "name",
            "created by",
            "last written by",
            "writes",
            "in the end",
        ];
        let rows = self.objects.iter().map(|own| {
            let end = if own.is_gone { "gone" } else { "exists" };
            [
                escaped(&own.resource),
                format!("<code>{}</code>", escaped(&own.name)),
                escaped(&own.created_by),
                escaped(&own.written_by),
                own.writes.to_string(),
                end.to_owned(),
            ]
        });
        table(head, rows, "No object was written.")
    }
}

/// A table of cells in HTML, or `nothing` without a row.
///
/// Words are aligned to the left, and the text of a last column `message` is wrapped.
fn table<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    nothing: &str,
) -> String {
    let mut body = String::new();
    for row in rows {
        let _ = writeln!(body, "<tr><td>{}</td></tr>", row.join("</td><td>"));
    }
    if body.is_empty() {
        return format!("<p>{nothing}</p>");
    }
    let class = match head.last() {
        Some(&"message") => "words messages",
        _ => "words",
    };
    let head = head.join("</th><th scope=\"col\">");
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr><th scope=\"col\">{head}</th></tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )
}
