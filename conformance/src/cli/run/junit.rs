//! Results in JUnit's XML, as CI systems read it.

use std::fmt::Write as _;

use kubeproof::suite::Verdict;

use super::finished::Finished;

/// A document with one suite; the class of a case is its area.
pub(super) fn of(finished: &[Finished]) -> String {
    let failures = finished.iter().filter(|one| one.has_failed()).count();
    let seconds: f64 = finished.iter().map(|one| one.took.as_secs_f64()).sum();
    let counts = format!(
        r#"tests="{}" failures="{failures}" errors="0" time="{seconds:.3}""#,
        finished.len()
    );
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n\
         <testsuite name=\"kubeproof\" skipped=\"0\" {counts}>\n"
    );
    for one in finished {
        let (area, name) = one.name.rsplit_once('/').unwrap_or(("", &one.name));
        let (area, name, seconds) = (escaped(area), escaped(name), one.took.as_secs_f64());
        let file = escaped(&one.path.display().to_string());
        let case = format!(
            r#"<testcase classname="{area}" name="{name}" file="{file}" time="{seconds:.3}""#
        );
        let _ = match &one.verdict {
            Verdict::Passed => writeln!(text, "{case}/>"),
            Verdict::Failed(why) => {
                let message = escaped(why.lines().next().unwrap_or_default());
                let why = escaped(why);
                writeln!(
                    text,
                    "{case}><failure message=\"{message}\">{why}</failure></testcase>"
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_is_told_in_well_formed_xml() {
        let finished = |name: &str, verdict| Finished {
            name: name.to_owned(),
            path: "s.yaml".into(),
            order: 0,
            verdict,
            took: Duration::from_millis(1500),
            offers: false,
            wrote: None,
            shown: None,
        };
        let text = of(&[
            finished("area/good", Verdict::Passed),
            finished(
                "area/bad",
                Verdict::Failed("a < b & \"c\"\u{1b}[0m\nmore".to_owned()),
            ),
        ]);
        assert!(text.contains(r#"<testsuites tests="2" failures="1" errors="0" time="3.000">"#));
        assert!(
            text.contains(r#"<testcase classname="area" name="good" file="s.yaml" time="1.500"/>"#)
        );
        let failure = "<failure message=\"a &lt; b &amp; &quot;c&quot;\u{fffd}[0m\">";
        assert!(text.contains(failure), "{text}");
    }
}
