//! Parsing of regular expressions as Go's `regexp/syntax` parses them.

mod class;
mod escape;

use std::collections::VecDeque;

use super::node::{Node, Op};

/// The largest product of nested counts.
const REPEAT_MAX: u32 = 1000;

/// The greatest height of a tree, and the number of nodes from which heights are checked.
const HEIGHT_MAX: u64 = 1000;

/// The largest compiled size, in Go's instructions of 40 bytes (128 MiB).
const SIZE_MAX: u64 = (128 << 20) / 40;

/// The largest number of code points that all classes name as bounds (128 MiB).
const RUNES_MAX: usize = (128 << 20) / 4;

/// A fault in Go's words, with the part of the expression that it concerns.
pub(super) type Fault<'t> = (&'static str, &'t str);

pub(super) const INVALID_CLASS_RANGE: &str = "invalid character class range";
pub(super) const INVALID_ESCAPE: &str = "invalid escape sequence";
pub(super) const MISSING_BRACKET: &str = "missing closing ]";
const INVALID_NAMED_CAPTURE: &str = "invalid named capture";
const INVALID_PERL_OP: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT_COUNT: &str = "invalid repeat count";
const INVALID_REPEAT_OP: &str = "invalid nested repetition operator";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_REPEAT_ARGUMENT: &str = "missing argument to repetition operator";
const NESTS_TOO_DEEPLY: &str = "expression nests too deeply";
const TOO_LARGE: &str = "expression too large";
const TRAILING_BACKSLASH: &str = "trailing backslash at end of expression";
const UNEXPECTED_PAREN: &str = "unexpected )";

/// Parses an expression with Go's flags for Perl syntax.
///
/// # Errors
///
/// The fault that Go finds first.
pub(super) fn parse(text: &str) -> Result<Node, Fault<'_>> {
    Parser::new(text).parse()
}

/// The flags that `(?imsU)` sets.
#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    swap_greed: bool,
}

/// A group that is open, or the whole expression.
#[derive(Default)]
struct Group {
    /// The flags that hold again after the group.
    flags_outside: Flags,
    captures: bool,
    /// The alternatives before the current one.
    alternatives: Vec<Node>,
    /// The parts of the current alternative.
    parts: Vec<Node>,
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    flags: Flags,
    groups: Vec<Group>,
    /// The operator that ended just before `rest`, with all that follows it.
    last_repeat: Option<&'t str>,
    /// The number of nodes that exist, and its maximum.
    nodes: u64,
    nodes_peak: u64,
    /// The product of all counts, bounded by `SIZE_MAX`.
    repeats: u64,
    /// Whether the sizes of all nodes so far have been checked.
    checks_size: bool,
    /// The number of bounds of classes so far.
    runes: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            rest: text,
            flags: Flags::default(),
            groups: vec![Group::default()],
            last_repeat: None,
            nodes: 0,
            nodes_peak: 0,
            repeats: 1,
            checks_size: false,
            runes: 0,
        }
    }

    fn parse(mut self) -> Result<Node, Fault<'t>> {
        while let Some(letter) = self.rest.chars().next() {
            let start = self.rest;
            let mut repeat = None;
            match letter {
                '*' | '+' | '?' => {
                    self.advance(1);
                    let (min, max) = match letter {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(start, min, max, false)?;
                    repeat = Some(start);
                }
                '{' => match Count::read(start) {
                    Some(count) => {
                        self.rest = count.after;
                        let (min, max) = count.bounds().ok_or_else(|| {
                            let operator = until(start, count.after);
                            (INVALID_REPEAT_COUNT, operator)
                        })?;
                        self.repeat(start, min, max, true)?;
                        repeat = Some(start);
                    }
                    None => self.literal_here('{')?,
                },
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.advance(1);
                    self.end_alternative()?;
                }
                '^' if self.flags.multi_line => self.operator(Op::LineStart)?,
                '^' => self.operator(Op::TextStart)?,
                '$' if self.flags.multi_line => self.operator(Op::LineEnd)?,
                '$' => self.operator(Op::TextEnd)?,
                '.' if self.flags.dot_newline => self.operator(Op::AnyChar)?,
                '.' => self.operator(Op::AnyCharNotNewline)?,
                '[' => self.class()?,
                '\\' => self.backslash()?,
                letter => self.literal_here(letter)?,
            }
            self.last_repeat = repeat;
        }
        self.end_alternative()?;
        match <[Group; 1]>::try_from(std::mem::take(&mut self.groups)) {
            Ok([group]) => self.joined(group.alternatives, Op::Alternate),
            Err(_) => Err((MISSING_PAREN, self.text)),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn group(&mut self) -> &mut Group {
        let group = self.groups.last_mut();
        group.expect("the whole expression's group is never closed while parsing")
    }

    fn count_nodes(&mut self, made: u64) {
        self.nodes += made;
        self.nodes_peak = self.nodes_peak.max(self.nodes);
    }

    /// Takes the operator of one byte at the beginning of the rest.
    fn operator(&mut self, op: Op) -> Result<(), Fault<'t>> {
        self.advance(1);
        self.push(op)
    }

    fn literal_here(&mut self, letter: char) -> Result<(), Fault<'t>> {
        self.advance(letter.len_utf8());
        self.literal(u32::from(letter))
    }

    /// Adds one code point. A surrogate occurs in no text, so it matches nothing.
    fn literal(&mut self, code: u32) -> Result<(), Fault<'t>> {
        let fold = self.flags.fold_case;
        match char::from_u32(code) {
            Some(letter) => self.push(Op::Literal(letter.to_string(), fold)),
            None => self.push(Op::none()),
        }
    }

    /// Adds a part to the current alternative. Literals before it join.
    fn push(&mut self, op: Op) -> Result<(), Fault<'t>> {
        self.count_nodes(1);
        if let Op::Class(class) = &op {
            self.runes += 2 * class.ranges().len();
        }
        self.join_literals();
        self.push_node(Node::new(op))
    }

    fn push_node(&mut self, node: Node) -> Result<(), Fault<'t>> {
        self.check_limits(&node)?;
        self.group().parts.push(node);
        Ok(())
    }

    /// Joins the last two parts when both are literals: no operator reaches the first any more.
    fn join_literals(&mut self) {
        let parts = &mut self.group().parts;
        if let [.., before, last] = parts.as_mut_slice()
            && before.append_literal(last)
        {
            parts.pop();
            self.nodes -= 1;
        }
    }

    /// Checks a new node against Go's limits.
    fn check_limits(&mut self, node: &Node) -> Result<(), Fault<'t>> {
        let too_large = (TOO_LARGE, self.text);
        if self.runes > RUNES_MAX {
            return Err(too_large);
        }
        if let Some(copies) = node.copies()
            && !self.checks_size
        {
            self.repeats = self.repeats.saturating_mul(copies.max(1)).min(SIZE_MAX);
        }
        if !self.checks_size && self.nodes_peak >= SIZE_MAX / self.repeats {
            self.checks_size = true;
            let nodes = |group: &Group| {
                [group.alternatives.iter(), group.parts.iter()]
                    .map(|nodes| nodes.map(|node| node.size).max().unwrap_or(0))
            };
            if self
                .groups
                .iter()
                .flat_map(nodes)
                .any(|size| size > SIZE_MAX)
            {
                return Err(too_large);
            }
        }
        if self.checks_size && node.size > SIZE_MAX {
            return Err(too_large);
        }
        if self.nodes_peak >= HEIGHT_MAX && node.height > HEIGHT_MAX {
            return Err((NESTS_TOO_DEEPLY, self.text));
        }
        Ok(())
    }

    /// Repeats the last part. `start` is the text from the operator on.
    fn repeat(
        &mut self,
        start: &'t str,
        min: u32,
        max: Option<u32>,
        counted: bool,
    ) -> Result<(), Fault<'t>> {
        let lazy = self.rest.starts_with('?');
        if lazy {
            self.advance(1);
        }
        let operator = until(start, self.rest);
        if let Some(last) = self.last_repeat {
            return Err((INVALID_REPEAT_OP, until(last, self.rest)));
        }
        let Some(part) = self.group().parts.pop() else {
            return Err((MISSING_REPEAT_ARGUMENT, operator));
        };
        self.count_nodes(1);
        let node = Node::new(Op::Repeat {
            min,
            max,
            counted,
            greedy: lazy == self.flags.swap_greed,
            part: Box::new(part),
        });
        self.check_limits(&node)?;
        let counts = counted && (min >= 2 || max.is_some_and(|max| max >= 2));
        if counts && !node.repeats_at_most(REPEAT_MAX) {
            return Err((INVALID_REPEAT_COUNT, operator));
        }
        self.group().parts.push(node);
        Ok(())
    }

    /// Takes the beginning of a group, or flags such as `(?i)`.
    fn open(&mut self) -> Result<(), Fault<'t>> {
        let start = self.rest;
        let Some(rest) = start.strip_prefix("(?") else {
            self.advance(1);
            self.open_group(true);
            return Ok(());
        };
        let named = ["P<", "<"]
            .iter()
            .find_map(|prefix| rest.strip_prefix(prefix));
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let fault = |part| (INVALID_NAMED_CAPTURE, part);
            let (name, after) = named.split_once('>').ok_or(fault(start))?;
            let is_word = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(fault(until(start, after)));
            }
            self.rest = after;
            self.open_group(true);
            return Ok(());
        }
        self.rest = rest;
        self.flags(start)
    }

    fn open_group(&mut self, captures: bool) {
        self.count_nodes(1);
        self.join_literals();
        self.groups.push(Group {
            flags_outside: self.flags,
            captures,
            ..Group::default()
        });
    }

    /// Takes the flags after `(?`, where `start` begins.
    fn flags(&mut self, start: &'t str) -> Result<(), Fault<'t>> {
        let mut flags = self.flags;
        let mut value = true;
        let mut seen = false;
        while let Some(letter) = self.rest.chars().next() {
            self.advance(letter.len_utf8());
            match letter {
                'i' => flags.fold_case = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_newline = value,
                'U' => flags.swap_greed = value,
                '-' if value => {
                    value = false;
                    seen = false;
                    continue;
                }
                ':' | ')' if value || seen => {
                    if letter == ':' {
                        self.open_group(false);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        Err((INVALID_PERL_OP, until(start, self.rest)))
    }

    fn close(&mut self) -> Result<(), Fault<'t>> {
        self.end_alternative()?;
        let group = match self.groups.pop() {
            Some(group) if !self.groups.is_empty() => group,
            _ => return Err((UNEXPECTED_PAREN, self.text)),
        };
        self.advance(1);
        self.flags = group.flags_outside;
        let node = self.joined(group.alternatives, Op::Alternate)?;
        self.join_literals();
        if group.captures {
            self.push_node(Node::new(Op::Group(Box::new(node))))
        } else {
            self.push_node(node)
        }
    }

    /// Ends the current alternative with the concatenation of its parts.
    fn end_alternative(&mut self) -> Result<(), Fault<'t>> {
        self.join_literals();
        let parts = std::mem::take(&mut self.group().parts);
        let node = self.joined(parts, Op::Concat)?;
        self.group().alternatives.push(node);
        Ok(())
    }

    /// Joins several nodes into one; a single node stays unchanged.
    fn joined(
        &mut self,
        nodes: Vec<Node>,
        kind: fn(VecDeque<Node>) -> Op,
    ) -> Result<Node, Fault<'t>> {
        let node = match <[Node; 1]>::try_from(nodes) {
            Ok([node]) => node,
            Err(nodes) => {
                self.count_nodes(1);
                Node::joined(nodes, kind)
            }
        };
        self.check_limits(&node)?;
        Ok(node)
    }
}

/// Returns the part of `text` before its own tail `rest`.
pub(super) fn until<'t>(text: &'t str, rest: &str) -> &'t str {
    &text[..text.len() - rest.len()]
}

/// A count such as `{2,3}`.
struct Count<'t> {
    min: u32,
    max: Option<u32>,
    after: &'t str,
}

impl<'t> Count<'t> {
    /// Reads the count at the beginning of `text`. A brace that begins none means itself.
    fn read(text: &'t str) -> Option<Self> {
        let (min, rest) = number(text.strip_prefix('{')?)?;
        let (max, rest) = match rest.strip_prefix(',') {
            None => (Some(min), rest),
            Some(rest) if rest.starts_with('}') => (None, rest),
            Some(rest) => {
                let (max, rest) = number(rest)?;
                (Some(max), rest)
            }
        };
        let after = rest.strip_prefix('}')?;
        Some(Self { min, max, after })
    }

    /// Returns the bounds, if they are within Go's limit and in order.
    fn bounds(&self) -> Option<(u32, Option<u32>)> {
        let largest = self.max.unwrap_or(self.min);
        (self.min <= largest && largest <= REPEAT_MAX).then_some((self.min, self.max))
    }
}

/// Reads decimal digits without leading zeros. A number too large is `u32::MAX`.
fn number(text: &str) -> Option<(u32, &str)> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = until(text, rest);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
