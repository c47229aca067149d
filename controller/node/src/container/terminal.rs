//! A terminal with a kernel's default settings: input is echoed, edited and read line by line; some
//! keys send signals.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::streams::{Input, Output};
use super::terminal_signals::{Signal, Signals};

/// The maximum number of chunks that wait for the terminal.
const TYPED_CHUNKS_MAX: usize = 16;
/// The maximum length of a line; further bytes are dropped.
const LINE_BYTES_MAX: usize = 4095;

const BELL: u8 = 0x07;
/// `^V`: the next key stands for itself.
const LITERAL: u8 = 0x16;
/// The echo of an erased character.
const ERASED: &[u8] = b"\x08 \x08";

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// A line, or a part of one, that can be read.
    Text(Bytes),
    /// An end of input; later input can follow.
    End,
    Signal(Signal),
}

/// The line editor.
#[derive(Debug, Default)]
struct Editor {
    line: Vec<u8>,
    is_literal: bool,
}

impl Editor {
    /// Handles a typed byte and appends its echo to `echo`.
    fn take(&mut self, byte: u8, echo: &mut Vec<u8>) -> Option<Typed> {
        if std::mem::take(&mut self.is_literal) {
            self.insert(byte, echo);
            return None;
        }
        match byte {
            b'\r' | b'\n' => {
                echo.push(b'\n');
                self.line.push(b'\n');
                return Some(Typed::Text(std::mem::take(&mut self.line).into()));
            }
            // ^C and ^\
            0x03 | 0x1c => {
                self.line.clear();
                show(byte, echo);
                return Some(Typed::Signal(match byte {
                    0x03 => Signal::Interrupt,
                    _ => Signal::Quit,
                }));
            }
            // ^D
            0x04 if self.line.is_empty() => return Some(Typed::End),
            0x04 => return Some(Typed::Text(std::mem::take(&mut self.line).into())),
            // Backspace erases a character, ^W a word, ^U the line.
            0x7f => self.erase(echo),
            0x17 => {
                while self.line.last() == Some(&b' ') {
                    self.erase(echo);
                }
                while self.line.last().is_some_and(|last| *last != b' ') {
                    self.erase(echo);
                }
            }
            0x15 => {
                while !self.line.is_empty() {
                    self.erase(echo);
                }
            }
            LITERAL => {
                echo.extend_from_slice(b"^\x08");
                self.is_literal = true;
            }
            byte => self.insert(byte, echo),
        }
        None
    }

    fn insert(&mut self, byte: u8, echo: &mut Vec<u8>) {
        if self.line.len() >= LINE_BYTES_MAX {
            echo.push(BELL);
            return;
        }
        self.line.push(byte);
        show(byte, echo);
    }

    /// Erases the last character.
    fn erase(&mut self, echo: &mut Vec<u8>) {
        let Some(last) = self.line.pop() else {
            return;
        };
        let mut first = last;
        while is_continuation(first) {
            match self.line.pop() {
                Some(before) => first = before,
                None => break,
            }
        }
        let mut shown = Vec::new();
        show(first, &mut shown);
        for _ in 0..shown.len() {
            echo.extend_from_slice(ERASED);
        }
    }
}

/// Returns whether the byte continues a character in UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Appends the echo of a byte; control characters are shown as `^X`.
fn show(byte: u8, echo: &mut Vec<u8>) {
    match byte {
        b'\t' | b'\n' => echo.push(byte),
        byte if byte.is_ascii_control() => echo.extend_from_slice(&[b'^', byte ^ 0x40]),
        byte => echo.push(byte),
    }
}

/// The client's side of a terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    typed: mpsc::Receiver<Bytes>,
    lines: mpsc::Sender<Bytes>,
    signals: Arc<Signals>,
    editor: Editor,
}

impl Terminal {
    /// Opens a terminal. Returns the client's sender, the input of its processes, and the terminal.
    pub(super) fn open() -> (mpsc::Sender<Bytes>, Input, Self) {
        let (sender, typed) = mpsc::channel(TYPED_CHUNKS_MAX);
        let signals = Arc::new(Signals::default());
        let (lines, input) = Input::of_terminal(Arc::clone(&signals));
        let terminal = Self {
            typed,
            lines,
            signals,
            editor: Editor::default(),
        };
        (sender, input, terminal)
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Handles and echoes the client's input until it ends; then its processes read the end.
    pub(super) async fn run(mut self, echo: Output) {
        while let Some(bytes) = self.typed.recv().await {
            let mut shown = Vec::new();
            for byte in bytes {
                // Unread text beyond the buffer is dropped, as by a kernel.
                match self.editor.take(byte, &mut shown) {
                    Some(Typed::Text(text)) => drop(self.lines.try_send(text)),
                    Some(Typed::End) => drop(self.lines.try_send(Bytes::new())),
                    Some(Typed::Signal(signal)) => self.signals.send(signal),
                    None => {}
                }
            }
            echo.write(&shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the echo and the effects of keys.
    fn typed(keys: &[u8]) -> (String, Vec<Typed>) {
        let (mut editor, mut echo) = (Editor::default(), Vec::new());
        let typed = keys.iter().filter_map(|key| editor.take(*key, &mut echo));
        let typed = typed.collect();
        (String::from_utf8(echo).unwrap(), typed)
    }

    fn text(text: &str) -> Typed {
        Typed::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn keys_are_echoed_edited_and_read_by_line() {
        for (keys, echo, brought) in [
            ("ls\r", "ls\n", vec![text("ls\n")]),
            ("a\nb\t\n", "a\nb\t\n", vec![text("a\n"), text("b\t\n")]),
            ("lz\x7fs\r", "lz\x08 \x08s\n", vec![text("ls\n")]),
            ("\x7f\r", "\n", vec![text("\n")]),
            ("é\x7fe\r", "é\x08 \x08e\n", vec![text("e\n")]),
            ("\x01\x7f\r", "^A\x08 \x08\x08 \x08\n", vec![text("\n")]),
            (
                "ab c \x17d\r",
                "ab c \x08 \x08\x08 \x08d\n",
                vec![text("ab d\n")],
            ),
            ("ab\x15c\r", "ab\x08 \x08\x08 \x08c\n", vec![text("c\n")]),
            (
                "ab\x03c\r",
                "ab^Cc\n",
                vec![Typed::Signal(Signal::Interrupt), text("c\n")],
            ),
            ("\x1c", "^\\", vec![Typed::Signal(Signal::Quit)]),
            ("\x16\x03\r", "^\x08^C\n", vec![text("\x03\n")]),
            ("\x04", "", vec![Typed::End]),
            ("a\x04\x04", "a", vec![text("a"), Typed::End]),
        ] {
            assert_eq!(
                typed(keys.as_bytes()),
                (echo.to_owned(), brought),
                "{keys:?}"
            );
        }
    }

    #[test]
    fn a_line_has_an_end() {
        let keys = [vec![b'x'; LINE_BYTES_MAX + 2], b"\r".to_vec()].concat();
        let (echo, brought) = typed(&keys);
        assert!(echo.ends_with("x\x07\x07\n"));
        let line = format!("{}\n", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(brought, [text(&line)]);
    }
}
