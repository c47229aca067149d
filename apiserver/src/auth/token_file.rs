//! Tokens with their users, one a line, in the form of `--token-auth-file`.

use std::collections::BTreeMap;

use super::User;

/// The number of columns that a record must have.
const COLUMNS_MIN: usize = 3;

/// The reason why a file of tokens cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenFileError(String);

/// Bearer tokens with their users.
///
/// ```
/// use kubeproof_apiserver::TokenFile;
///
/// let tokens = "31ada4fd,alice,u1,\"admins,devs\"\n";
/// assert!(TokenFile::read("tokens.csv", tokens.as_bytes()).is_ok());
/// let refused = TokenFile::read("tokens.csv", b"31ada4fd,alice\n").unwrap_err();
/// let text = "token file 'tokens.csv' must have at least 3 columns (token, user name, user uid), found 2";
/// assert_eq!(refused.to_string(), text);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TokenFile {
    users: BTreeMap<String, User>,
    warnings: Vec<String>,
}

impl TokenFile {
    /// Reads the CSV `text`, of which each record is `token,user,uid[,"group,group"]`. Errors name
    /// the file `path`.
    ///
    /// # Errors
    /// A record with less than three columns, or text that is not CSV.
    pub fn read(path: &str, text: &[u8]) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        let text = String::from_utf8_lossy(text);
        let mut records = Records::of(&text);
        let mut number = 0;
        while let Some(record) = records.next().map_err(TokenFileError)? {
            if record.len() < COLUMNS_MIN {
                return Err(TokenFileError(format!(
                    "token file '{path}' must have at least 3 columns (token, user name, user \
                     uid), found {}",
                    record.len()
                )));
            }
            number += 1;
            let mut warn = |what: &str| {
                tokens.warnings.push(format!(
                    "{what} token has been found in token file '{path}', record number '{number}'"
                ));
            };
            let mut fields = record.into_iter();
            let mut field = || fields.next().unwrap_or_default();
            let (token, name, uid) = (field(), field(), field());
            if token.is_empty() {
                warn("empty");
                continue;
            }
            if tokens.users.contains_key(&token) {
                warn("duplicate");
            }
            let groups = fields.next();
            let groups = groups.iter().flat_map(|groups| groups.split(','));
            let user = User {
                name,
                uid,
                groups: groups.map(str::to_owned).collect(),
                ..User::default()
            };
            tokens.users.insert(token, user);
        }
        Ok(tokens)
    }

    /// Upstream's warnings of records without a token, and of tokens that are there twice.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The holder of `token`.
    pub(super) fn user(&self, token: &str) -> Option<User> {
        self.users.get(token).cloned()
    }
}

/// The records of a CSV text as Go's `encoding/csv` reads them.
struct Records<'t> {
    /// The lines that are left, each with its end.
    lines: std::str::SplitInclusive<'t, char>,
    /// The number of the current line, from 1 on.
    line: usize,
}

impl<'t> Records<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            lines: text.split_inclusive('\n'),
            line: 0,
        }
    }

    /// The next line without the carriage return before its end.
    fn line(&mut self) -> Option<String> {
        let line = self.lines.next()?;
        self.line += 1;
        Some(match line.strip_suffix("\r\n") {
            Some(line) => format!("{line}\n"),
            None => line.to_owned(),
        })
    }

    /// Reads the next record, and skips empty lines.
    fn next(&mut self) -> Result<Option<Vec<String>>, String> {
        let mut line = loop {
            match self.line() {
                None => return Ok(None),
                Some(line) if line == "\n" => {}
                Some(line) => break line,
            }
        };
        let start = self.line;
        let mut fields = Vec::new();
        // The place in the line, in bytes.
        let mut at = 0;
        loop {
            if !line[at..].starts_with('"') {
                let rest = line[at..].trim_end_matches('\n');
                let field = rest.split(',').next().unwrap_or_default();
                if let Some(quote) = field.find('"') {
                    let why = format!("bare {} in non-quoted field", '"');
                    return Err(fault(start, self.line, at + quote + 1, &why));
                }
                fields.push(field.to_owned());
                if field.len() == rest.len() {
                    return Ok(Some(fields));
                }
                at += field.len() + 1;
                continue;
            }
            at += 1;
            let mut field = String::new();
            loop {
                let misplaced = format!("extraneous or missing {} in quoted-field", '"');
                let Some(quote) = line[at..].find('"') else {
                    field.push_str(&line[at..]);
                    let end = line.len() + 1;
                    match self.line() {
                        Some(next) => (line, at) = (next, 0),
                        None => return Err(fault(start, self.line, end, &misplaced)),
                    }
                    continue;
                };
                field.push_str(&line[at..at + quote]);
                at += quote + 1;
                match line[at..].chars().next() {
                    Some('"') => {
                        field.push('"');
                        at += 1;
                    }
                    Some(',') => {
                        at += 1;
                        fields.push(field);
                        break;
                    }
                    None | Some('\n') => {
                        fields.push(field);
                        return Ok(Some(fields));
                    }
                    Some(_) => return Err(fault(start, self.line, at, &misplaced)),
                }
            }
        }
    }
}

/// Go's text for a fault in a record that begins in line `start`.
fn fault(start: usize, line: usize, column: usize, why: &str) -> String {
    let place = format!("parse error on line {line}, column {column}: {why}");
    match start == line {
        true => place,
        false => format!("record on line {start}; {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_go_reads_them() {
        let read = |text: &str| {
            let mut records = Records::of(text);
            let mut all = Vec::new();
            loop {
                match records.next() {
                    Ok(Some(record)) => all.push(record.join("|")),
                    Ok(None) => return all.join("/"),
                    Err(why) => return why,
                }
            }
        };
        let rows = [
            ("a,b,c\n", "a|b|c"),
            ("a,b,c", "a|b|c"),
            ("a,b,\r\n\n\r\nc,d,e\r\n", "a|b|/c|d|e"),
            ("a,\"b,c\",d\n", "a|b,c|d"),
            ("a,\"b\"\"c\",\"\"\n", "a|b\"c|"),
            ("a, b,c \n", "a| b|c "),
            ("a,\"b\nc\",d\ne\n", "a|b\nc|d/e"),
            (
                "a,b\"c\n",
                "parse error on line 1, column 4: bare \" in non-quoted field",
            ),
            (
                "a\nb,\"c\"d\n",
                "parse error on line 2, column 5: extraneous or missing \" in quoted-field",
            ),
            (
                "a,\"b\nc",
                "record on line 1; parse error on line 2, column 2: extraneous or missing \" in quoted-field",
            ),
        ];
        for (text, want) in rows {
            assert_eq!(read(text), want, "{text:?}");
        }
    }

    #[test]
    fn the_last_user_of_a_token_counts_and_records_without_a_token_do_not() {
        let text = b"t,alice,1\n,nobody,2\nt,bob,3,\"a,b\"\ns,carol,4,\n";
        let tokens = TokenFile::read("f", text).unwrap();
        let bob = tokens.user("t").unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "3"));
        assert_eq!(bob.groups, ["a", "b"]);
        // Go splits an empty text into one empty text.
        assert_eq!(tokens.user("s").unwrap().groups, [""]);
        assert_eq!(tokens.user(""), None);
        let warnings = [
            "empty token has been found in token file 'f', record number '2'",
            "duplicate token has been found in token file 'f', record number '3'",
        ];
        assert_eq!(tokens.warnings(), warnings);
    }
}
