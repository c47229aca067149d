//! The tree of an expression, and its text in the syntax of our engines.

use std::{collections::VecDeque, fmt::Write};

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// A part of an expression with the measures that Go limits.
#[derive(Debug)]
pub(super) struct Node {
    pub op: Op,
    /// The number of instructions that Go compiles the part to, at most.
    pub size: u64,
    /// The height of the tree, a leaf being of height 1.
    pub height: u64,
}

/// The operation of a node. Groups that capture count only for the height.
#[derive(Debug)]
pub(super) enum Op {
    /// Text, and whether its case does not matter.
    Literal(String, bool),
    Class(ClassUnicode),
    AnyChar,
    AnyCharNotNewline,
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordBoundary,
    NotWordBoundary,
    Group(Box<Node>),
    Repeat {
        min: u32,
        max: Option<u32>,
        /// Whether the bounds are written in braces.
        counted: bool,
        greedy: bool,
        part: Box<Node>,
    },
    Concat(VecDeque<Node>),
    Alternate(VecDeque<Node>),
}

impl Op {
    /// Matches no character.
    pub(super) fn none() -> Self {
        Self::Class(ClassUnicode::empty())
    }
}

impl Node {
    pub(super) fn new(op: Op) -> Self {
        let leaf = 0;
        let (size, below) = match &op {
            Op::Literal(text, _) => (text.chars().count() as u64, leaf),
            Op::Group(part) => (2 + part.size, part.height),
            Op::Repeat {
                min,
                max,
                counted,
                part,
                ..
            } => {
                let size = match (counted, *min, *max) {
                    (_, 0, None) => 2 + part.size,
                    (false, ..) => 1 + part.size,
                    (true, min, None) => 1 + part.size.saturating_mul(min.into()),
                    (true, min, Some(max)) => {
                        let copies = part.size.saturating_mul(max.into());
                        copies.saturating_add((max - min).into())
                    }
                };
                (size, part.height)
            }
            Op::Concat(parts) => (total(parts), highest(parts)),
            Op::Alternate(parts) => (total(parts) + parts.len() as u64 - 1, highest(parts)),
            _ => (1, leaf),
        };
        Self {
            op,
            size: size.max(1),
            height: below + 1,
        }
    }

    /// Makes one node of several, taking the parts of those that are of this kind themselves.
    pub(super) fn joined(nodes: Vec<Self>, kind: fn(VecDeque<Self>) -> Op) -> Self {
        let is_kind = |node: &Self| {
            let sample = kind(VecDeque::new());
            std::mem::discriminant(&node.op) == std::mem::discriminant(&sample)
        };
        // The longest list is extended at both ends, so that deep nesting stays cheap.
        let length = |node: &Self| if is_kind(node) { node.parts() } else { 0 };
        let longest = (0..nodes.len()).max_by_key(|index| length(&nodes[*index]));
        let mut before = nodes;
        let after = before.split_off(longest.map_or(0, |index| index + 1));
        let mut parts = VecDeque::new();
        if let Some(node) = before.pop() {
            parts = if is_kind(&node) {
                node.into_parts()
            } else {
                VecDeque::from([node])
            };
        }
        for node in before.into_iter().rev() {
            if is_kind(&node) {
                for part in node.into_parts().into_iter().rev() {
                    parts.push_front(part);
                }
            } else {
                parts.push_front(node);
            }
        }
        for node in after {
            if is_kind(&node) {
                parts.extend(node.into_parts());
            } else {
                parts.push_back(node);
            }
        }
        Self::new(kind(parts))
    }

    fn parts(&self) -> usize {
        match &self.op {
            Op::Concat(parts) | Op::Alternate(parts) => parts.len(),
            _ => 0,
        }
    }

    fn into_parts(self) -> VecDeque<Self> {
        match self.op {
            Op::Concat(parts) | Op::Alternate(parts) => parts,
            _ => VecDeque::new(),
        }
    }

    /// Appends a literal to a literal of the same case, and answers whether both were that.
    pub(super) fn append_literal(&mut self, other: &Self) -> bool {
        match (&mut self.op, &other.op) {
            (Op::Literal(text, fold), Op::Literal(more, more_fold)) if fold == more_fold => {
                text.push_str(more);
                self.size += other.size;
                true
            }
            _ => false,
        }
    }

    /// Returns how often a counted repetition copies its part.
    pub(super) fn copies(&self) -> Option<u64> {
        match &self.op {
            Op::Repeat {
                min,
                max,
                counted: true,
                ..
            } => Some(max.unwrap_or(*min).into()),
            _ => None,
        }
    }

    /// Whether the innermost part of nested counts is repeated `limit` times at most.
    pub(super) fn repeats_at_most(&self, limit: u32) -> bool {
        match &self.op {
            Op::Repeat {
                min,
                max,
                counted: true,
                part,
                ..
            } => match max.unwrap_or(*min) {
                0 if max.is_some() => true,
                copies => copies <= limit && part.repeats_at_most(limit / copies.max(1)),
            },
            Op::Repeat { part, .. } | Op::Group(part) => part.repeats_at_most(limit),
            Op::Concat(parts) | Op::Alternate(parts) => {
                parts.iter().all(|part| part.repeats_at_most(limit))
            }
            _ => true,
        }
    }

    /// Writes the expression with all flags spelled out and without groups that are not needed.
    pub(super) fn write(&self, ascii_boundary: &str, out: &mut String) {
        match &self.op {
            Op::Literal(text, fold_case) => {
                for letter in text.chars() {
                    write_letter(letter, *fold_case, out);
                }
            }
            Op::Class(class) => write_class(class, out),
            Op::AnyChar => out.push_str("(?s:.)"),
            Op::AnyCharNotNewline => out.push_str(r"[^\n]"),
            Op::TextStart => out.push_str(r"\A"),
            Op::TextEnd => out.push_str(r"\z"),
            Op::LineStart => out.push_str("(?m:^)"),
            Op::LineEnd => out.push_str("(?m:$)"),
            Op::WordBoundary => out.push_str(&ascii_boundary.replace('_', "b")),
            Op::NotWordBoundary => out.push_str(&ascii_boundary.replace('_', "B")),
            Op::Group(part) => part.write(ascii_boundary, out),
            Op::Repeat {
                min,
                max,
                greedy,
                part,
                ..
            } => {
                part.write_within(Within::Repeat, ascii_boundary, out);
                match (min, max) {
                    (0, None) => out.push('*'),
                    (1, None) => out.push('+'),
                    (0, Some(1)) => out.push('?'),
                    (min, None) => append(out, format_args!("{{{min},}}")),
                    (min, Some(max)) => append(out, format_args!("{{{min},{max}}}")),
                }
                if !greedy {
                    out.push('?');
                }
            }
            Op::Concat(parts) => {
                for part in parts {
                    part.write_within(Within::Concat, ascii_boundary, out);
                }
            }
            Op::Alternate(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    if index > 0 {
                        out.push('|');
                    }
                    part.write(ascii_boundary, out);
                }
            }
        }
    }

    /// Writes a part, in parentheses where its own operator binds less than that around it.
    fn write_within(&self, around: Within, ascii_boundary: &str, out: &mut String) {
        let mut inner = self;
        while let Op::Group(part) = &inner.op {
            inner = part;
        }
        let groups = match &inner.op {
            Op::Alternate(_) => true,
            Op::Concat(_) | Op::Repeat { .. } => around == Within::Repeat,
            Op::Literal(text, _) => around == Within::Repeat && text.chars().nth(1).is_some(),
            Op::TextStart | Op::TextEnd | Op::WordBoundary | Op::NotWordBoundary => {
                around == Within::Repeat
            }
            _ => false,
        };
        if groups {
            out.push_str("(?:");
        }
        inner.write(ascii_boundary, out);
        if groups {
            out.push(')');
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Concat,
    Repeat,
}

fn total(parts: &VecDeque<Node>) -> u64 {
    let sizes = parts.iter().map(|part| part.size);
    sizes.fold(0, u64::saturating_add)
}

fn highest(parts: &VecDeque<Node>) -> u64 {
    parts.iter().map(|part| part.height).max().unwrap_or(0)
}

/// Adds the characters that differ in case alone.
pub(super) fn fold(class: &mut ClassUnicode) {
    let folded = class.try_case_fold_simple();
    folded.expect("the tables of simple case folding are built in");
}

fn write_letter(letter: char, fold_case: bool, out: &mut String) {
    if fold_case {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(letter, letter)]);
        fold(&mut class);
        if class.maximum_len().is_some() && class.ranges().len() > 1 {
            return write_class(&class, out);
        }
    }
    if regex_syntax::is_meta_character(letter) {
        out.push('\\');
    }
    out.push(letter);
}

fn write_class(class: &ClassUnicode, out: &mut String) {
    if class.ranges().is_empty() {
        return out.push_str(r"[^\x{0}-\x{10FFFF}]");
    }
    out.push('[');
    for range in class.ranges() {
        let (low, high) = (u32::from(range.start()), u32::from(range.end()));
        append(out, format_args!(r"\x{{{low:X}}}-\x{{{high:X}}}"));
    }
    out.push(']');
}

fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String can't fail");
}
