//! Frames of watches that do not show objects as they are stored, which equal watches share.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::meta::ResourceVersion;

/// How many frames are kept: watches of an event are woken together, so it is the latest that they ask for.
const FRAMES_MAX: usize = 64;

/// Frames are kept while they have no more bytes than these, but for the newest.
const FRAMES_BYTES_MAX: usize = 1024 * 1024;

/// The version of an event, and what equal watches are called.
type Name = (ResourceVersion, String);

/// The frames made last, oldest first.
#[derive(Debug, Default)]
pub(super) struct Frames(Mutex<VecDeque<(Name, Bytes)>>);

impl Frames {
    /// The frame of this name, or else what `make` returns, which is kept for others.
    pub(super) fn get_or_make(
        &self,
        name: Name,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let kept = {
            let frames = self.0.lock();
            let mut newest_first = frames.iter().rev();
            let found = newest_first.find(|(own, _)| *own == name);
            found.map(|(_, frame)| frame.clone())
        };
        if kept.is_some() {
            return kept;
        }
        // Made without the lock: objects may have to be decoded.
        let frame = make()?;
        let mut frames = self.0.lock();
        frames.push_back((name, frame.clone()));
        let mut bytes: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
        while frames.len() > 1 && (frames.len() > FRAMES_MAX || bytes > FRAMES_BYTES_MAX) {
            let oldest = frames.pop_front();
            bytes -= oldest.map_or(0, |(_, frame)| frame.len());
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(rv: u64, name: &str) -> Name {
        (ResourceVersion::new(rv), name.to_owned())
    }

    #[test]
    fn frames_are_made_once_for_each_name_and_version() {
        let frames = Frames::default();
        let get = |rv, own, text: &'static [u8]| {
            frames.get_or_make(name(rv, own), || Some(Bytes::from_static(text)))
        };
        assert_eq!(get(1, "a", b"first").unwrap(), "first");
        assert_eq!(get(1, "a", b"again").unwrap(), "first");
        assert_eq!(get(1, "b", b"other").unwrap(), "other");
        assert_eq!(get(2, "a", b"later").unwrap(), "later");
        assert_eq!(frames.get_or_make(name(3, "a"), || None), None);
        assert_eq!(get(3, "a", b"now").unwrap(), "now");
    }

    #[test]
    fn only_the_latest_are_kept() {
        let frames = Frames::default();
        let make = |rv, bytes| {
            frames.get_or_make(name(rv, "a"), || Some(vec![0; bytes].into()));
        };
        (0..100).for_each(|rv| make(rv, 10));
        assert_eq!(frames.0.lock().len(), FRAMES_MAX);
        make(100, FRAMES_BYTES_MAX - 15);
        assert_eq!(frames.0.lock().len(), 2);
        make(101, 2 * FRAMES_BYTES_MAX);
        let kept: Vec<_> = frames.0.lock().iter().map(|(name, _)| name.0).collect();
        assert_eq!(kept, [ResourceVersion::new(101)]);
    }
}
