//! Results in JUnit's XML, as CI systems read it.

use std::fmt::Write as _;
use std::time::Duration;

use kubeproof::suite::Verdict;

use super::finished::Finished;

/// A case of a document.
pub(in crate::cli) struct Case {
    pub(in crate::cli) class: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) file: String,
    /// The duration, if known.
    pub(in crate::cli) took: Option<Duration>,
    pub(in crate::cli) failure: Option<String>,
}

impl Case {
    /// A scenario that has run; its class is its area.
    pub(super) fn of(one: &Finished) -> Self {
        let (area, name) = one.name.rsplit_once('/').unwrap_or(("", &one.name));
        Self {
            class: area.to_owned(),
            name: name.to_owned(),
            file: one.path.display().to_string(),
            took: Some(one.took),
            failure: match &one.verdict {
                Verdict::Passed => None,
                Verdict::Failed(why) => Some(why.clone()),
            },
        }
    }
}

/// A document with one suite.
pub(in crate::cli) fn of(cases: &[Case]) -> String {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let time = |took: Duration| format!(r#" time="{:.3}""#, took.as_secs_f64());
    let took: Option<Duration> = cases.iter().map(|case| case.took).sum();
    let counts = format!(
        r#"tests="{}" failures="{failures}" errors="0"{}"#,
        cases.len(),
        took.map(time).unwrap_or_default()
    );
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n\
         <testsuite name=\"kubeproof\" skipped=\"0\" {counts}>\n"
    );
    for case in cases {
        let [class, name, file] = [&case.class, &case.name, &case.file].map(|text| escaped(text));
        let time = case.took.map(time).unwrap_or_default();
        let start = format!(r#"<testcase classname="{class}" name="{name}" file="{file}"{time}"#);
        let _ = match &case.failure {
            None => writeln!(text, "{start}/>"),
            Some(why) => {
                let message = escaped(why.lines().next().unwrap_or_default());
                let why = escaped(why);
                writeln!(
                    text,
                    "{start}><failure message=\"{message}\">{why}</failure></testcase>"
                )
            }
        };
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// Text as XML 1.0 can hold it: without control characters, of which escape codes are made.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_written_in_well_formed_xml() {
        let finished = |name: &str, verdict| Finished {
            name: name.to_owned(),
            path: "s.yaml".into(),
            schedule_seed: 0,
            verdict,
            took: Duration::from_millis(1500),
            offers: false,
            wrote: None,
            shown: None,
            differs: None,
        };
        let text = of(&[
            Case::of(&finished("area/good", Verdict::Passed)),
            Case::of(&finished(
                "area/bad",
                Verdict::Failed("a < b & \"c\"\u{1b}[0m\nmore".to_owned()),
            )),
        ]);
        assert!(text.contains(r#"<testsuites tests="2" failures="1" errors="0" time="3.000">"#));
        assert!(
            text.contains(r#"<testcase classname="area" name="good" file="s.yaml" time="1.500"/>"#)
        );
        let failure = "<failure message=\"a &lt; b &amp; &quot;c&quot;\u{fffd}[0m\">";
        assert!(text.contains(failure), "{text}");
    }
}
