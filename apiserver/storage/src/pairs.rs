//! Names and values of a stored object that selectors read without its text.

/// Pairs in one block of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Box<str>);

/// Ends each name and each value.
const END: char = '\0';

impl Pairs {
    /// Keeps `pairs`, except those that contain a NUL character, which no valid label does.
    pub(crate) fn new<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let kept = pairs.filter(|(name, value)| !name.contains(END) && !value.contains(END));
        let bytes = kept
            .clone()
            .map(|(name, value)| name.len() + value.len() + 2);
        let mut text = String::with_capacity(bytes.sum());
        for part in kept.flat_map(|(name, value)| [name, value]) {
            text.push_str(part);
            text.push(END);
        }
        Self(text.into_boxed_str())
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut parts = self.0.split_terminator(END);
        while let Some(own) = parts.next() {
            let value = parts.next()?;
            if own == name {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let pairs = [("a", "1"), ("b", ""), ("nul", "x\0y"), ("c/d", "2")];
        let pairs = Pairs::new(pairs.into_iter());
        let read = ["a", "b", "c/d", "nul", "1", ""].map(|name| pairs.get(name));
        assert_eq!(read, [Some("1"), Some(""), Some("2"), None, None, None]);
        assert_eq!(Pairs::default().get("a"), None);
    }
}
