//! Values between commas, as Go's `encoding/csv` reads one line of them.

/// Returns the fields of a line. An empty text has none.
///
/// # Errors
/// A quotation mark in the wrong place, in the words of `csv.ParseError`.
pub(super) fn fields(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let line = text.split('\n').next().unwrap_or(text);
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => within_quotes(line, quoted)?,
            None => {
                let (field, after) = match rest.split_once(',') {
                    Some((field, after)) => (field, Some(after)),
                    None => (rest, None),
                };
                if let Some(at) = field.find('"') {
                    let column = line.len() - rest.len() + at + 1;
                    return Err(fault(column, "bare \" in non-quoted-field"));
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => return Ok(fields),
        }
    }
}

/// Returns a quoted field, from after its first quotation mark, and the rest after its comma.
fn within_quotes<'t>(line: &str, mut rest: &'t str) -> Result<(String, Option<&'t str>), String> {
    let mut field = String::new();
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err(fault(
                line.len() + 1,
                "extraneous or missing \" in quoted-field",
            ));
        };
        field.push_str(part);
        match after.as_bytes() {
            [] => return Ok((field, None)),
            [b',', ..] => return Ok((field, Some(&after[1..]))),
            [b'"', ..] => {
                field.push('"');
                rest = &after[1..];
            }
            _ => {
                let column = line.len() - after.len();
                return Err(fault(column, "extraneous or missing \" in quoted-field"));
            }
        }
    }
}

fn fault(column: usize, why: &str) -> String {
    format!("parse error on line 1, column {column}: {why}")
}
