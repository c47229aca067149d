//! Bytes in JSON: base64 as Go reads and writes it.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Stray bits in the last character are dropped, not refused.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes the base64 `text` and encodes the bytes again; the error describes the fault.
pub(super) fn normalize(text: &str) -> Result<String, String> {
    if let Some(offset) = corrupt_at(text.as_bytes()) {
        return Err(format!("illegal base64 data at input byte {offset}"));
    }
    let text: String = text.chars().filter(|&c| !is_newline(c)).collect();
    let bytes = LENIENT
        .decode(text)
        .map_err(|err| format!("illegal base64 data: {err}"))?;
    Ok(LENIENT.encode(bytes))
}

/// The text of `bytes`, which Go also reads from a list of numbers.
pub(super) fn encode(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Where Go stops reading: at the first stray character, or at the start of a cut-off group.
fn corrupt_at(text: &[u8]) -> Option<usize> {
    let mut characters = (0..text.len())
        .filter(|&at| !is_newline(char::from(text[at])))
        .peekable();
    let mut group = 0;
    while let Some(at) = characters.next() {
        match text[at] {
            b'=' if group < 2 => return Some(at),
            b'=' => {
                if group == 2 {
                    match characters.next() {
                        None => return Some(text.len()),
                        Some(at) if text[at] != b'=' => return Some(at),
                        Some(_) => {}
                    }
                }
                return characters.next();
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => group = (group + 1) % 4,
            _ => return Some(at),
        }
    }
    (group > 0).then(|| text.len() - group)
}
