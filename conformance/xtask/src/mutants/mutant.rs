//! A mutant, and how its text is put into the source it changes.

use std::ops::Range;

/// A change of a source file, which is made when the mutant's number is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The path from the root of the workspace, with slashes.
    pub(crate) file: String,
    /// The function, such as `Controller::sync` or `<impl Reconcile for Controller>::reconcile`.
    pub(crate) function: String,
    /// The change, such as `replace < with <=`.
    pub(crate) change: String,
    /// The line of the change, from 1.
    pub(crate) line: usize,
    /// Tells apart mutants of a file that change the same in functions of the same name, from 1.
    pub(crate) ordinal: usize,
    /// A hash of the function's text.
    pub(crate) hash: u64,
    /// The bytes of the function's body.
    pub(crate) body: Range<usize>,
    pub(crate) splice: Splice,
}

impl Mutant {
    /// The name in reports, which does not depend on other functions.
    pub(crate) fn name(&self) -> String {
        let Self {
            file,
            change,
            function,
            ..
        } = self;
        match self.ordinal {
            1 => format!("{file}: {change} in {function}"),
            ordinal => format!("{file}: {change} in {function} ({ordinal})"),
        }
    }

    fn leaves(&self) -> bool {
        let deleted = self.change.strip_prefix("delete `").unwrap_or_default();
        ["return", "continue", "break"]
            .iter()
            .any(|leaving| deleted.starts_with(leaving))
    }

    /// What results are kept under: a result holds as long as the function stays as it is.
    pub(crate) fn key(&self) -> (String, u64) {
        (self.name(), self.hash)
    }
}

/// Text around a part of a source. `IS` stands for the condition that the mutant is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    /// The bytes of the part, which can be none.
    pub(crate) range: Range<usize>,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Splice {
    /// Another expression in place of the one there.
    pub(crate) fn replace(range: Range<usize>, with: &str) -> Self {
        Self::around(range, format!("(if IS {{ {with} }} else {{ "), " })")
    }

    /// A statement, or a tail of type `()`, that is not executed.
    pub(crate) fn delete(range: Range<usize>) -> Self {
        Self::around(range, "if !IS { ".to_owned(), " }")
    }

    /// A statement before the others of a function.
    pub(crate) fn first(at: usize, statement: &str) -> Self {
        Self::around(at..at, format!(" if IS {{ {statement} }}"), "")
    }

    pub(crate) fn around(range: Range<usize>, before: String, after: &str) -> Self {
        let after = after.to_owned();
        Self {
            range,
            before,
            after,
        }
    }
}

/// A source with mutants in it.
#[derive(Debug, Default)]
pub(crate) struct Mutated {
    pub(crate) text: String,
    /// Where each mutant is in the text, in the order of the mutants.
    pub(crate) places: Vec<Place>,
}

/// Where a mutant is in a mutated source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u32,
    /// The bytes of the text before the part and after it.
    pub(crate) added: [Range<usize>; 2],
    /// The body of the function.
    pub(crate) body: Range<usize>,
    /// Whether the mutant deletes a statement that leaves a block early.
    pub(crate) leaves: bool,
}

impl Place {
    /// All of it: what is added, and the part between.
    pub(crate) fn region(&self) -> Range<usize> {
        self.added[0].start..self.added[1].end
    }
}

/// Where a text goes: at this byte; what ends there before what begins there; ends from the inside out, beginnings
/// from the outside in.
type Order = (usize, bool, usize, usize);

/// Puts these mutants of a file, each with its number, into its source.
///
/// `switch` is the path of the function that returns whether a number is chosen; `prefix` goes before everything.
pub(crate) fn mutate(
    source: &str,
    mutants: &[(u32, &Mutant)],
    switch: &str,
    prefix: &str,
) -> Mutated {
    let mut texts: Vec<(Order, usize, usize, String)> = Vec::new();
    for (index, (number, mutant)) in mutants.iter().enumerate() {
        let Splice {
            range,
            before,
            after,
        } = &mutant.splice;
        let condition = format!("{switch}({number})");
        let before = before.replacen("IS", &condition, 1);
        let (length, last) = (range.len(), usize::MAX);
        texts.push(((range.start, true, last - length, index), index, 0, before));
        let after_at = match length {
            // An addition at one place has no second part.
            0 => (range.start, true, last, index),
            _ => (range.end, false, length, last - index),
        };
        texts.push((after_at, index, 1, after.clone()));
    }
    texts.sort();
    let mut mutated = Mutated {
        text: prefix.to_owned(),
        places: Vec::new(),
    };
    let nowhere = [0..0, 0..0];
    let mut added = vec![nowhere; mutants.len()];
    let mut written = 0;
    // Where bytes of the source are in the text: from each on, this much further.
    let mut shifts = vec![(0, prefix.len())];
    for ((at, ..), index, side, text) in texts {
        mutated.text.push_str(&source[written..at]);
        written = at;
        let start = mutated.text.len();
        mutated.text.push_str(&text);
        added[index][side] = start..mutated.text.len();
        shifts.push((at, mutated.text.len() - at));
    }
    mutated.text.push_str(&source[written..]);
    let moved = |at: usize| {
        let before = shifts.partition_point(|(from, _)| *from < at);
        at + shifts[before.saturating_sub(1)].1
    };
    let places = mutants.iter().zip(added);
    let places = places.map(|((number, mutant), added)| Place {
        number: *number,
        added,
        body: moved(mutant.body.start)..moved(mutant.body.end),
        leaves: mutant.leaves(),
    });
    mutated.places = places.collect();
    mutated
}

/// A hash (FNV-1a) that is the same everywhere.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
