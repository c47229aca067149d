//! The members of an object.

use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::ops;
use std::slice;
use std::vec;

use super::{SmolStr, Value};

/// The members of an object, sorted by name.
///
/// The members are one list. A look-up compares the first eight bytes of names as numbers, and whole names only where
/// these are equal: a short list is scanned, a longer one is halved. An addition or a removal moves the members with
/// later names.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Map {
    members: Vec<Member>,
}

/// A member of an object.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Member {
    beginning: u64,
    name: SmolStr,
    value: Value,
}

impl Member {
    fn pair(&self) -> (&SmolStr, &Value) {
        (&self.name, &self.value)
    }

    fn pair_mut(&mut self) -> (&SmolStr, &mut Value) {
        (&self.name, &mut self.value)
    }

    fn into_pair(self) -> (SmolStr, Value) {
        (self.name, self.value)
    }
}

/// The first eight bytes of a name as a number, with zeros after the end of a shorter one. Names whose numbers differ
/// are in the order of these.
fn beginning_of(name: &str) -> u64 {
    let bytes = name.as_bytes();
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let join = |number, byte: &u8| number << 8 | u64::from(*byte);
            bytes.iter().fold(0, join) << ((8 * (8 - bytes.len())) % 64)
        }
    }
}

impl Map {
    /// The most members that a look-up compares one after the other.
    const SCANNED: usize = 16;

    /// An object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            members: Vec::new(),
        }
    }

    /// An object without members, with room for as many.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            members: Vec::with_capacity(capacity),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Where the member is.
    fn position(&self, name: &str) -> Option<usize> {
        self.position_of(name, beginning_of(name))
    }

    fn position_of(&self, name: &str, beginning: u64) -> Option<usize> {
        if self.members.len() > Self::SCANNED {
            return self.place(name).ok();
        }
        let is_it = |member: &Member| member.beginning == beginning && member.name == name;
        self.members.iter().position(is_it)
    }

    /// Where the member is, or where it would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        let beginning = beginning_of(name);
        let compare = |member: &Member| {
            let begins = member.beginning.cmp(&beginning);
            begins.then_with(|| member.name.as_str().cmp(name))
        };
        match self.members.last().map(compare) {
            None | Some(Ordering::Less) => Err(self.members.len()),
            Some(Ordering::Equal) => Ok(self.members.len() - 1),
            Some(Ordering::Greater) => self.members.binary_search_by(compare),
        }
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).map(|at| &self.members[at].value)
    }

    /// The value of a member.
    #[must_use]
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.position(name).map(|at| &mut self.members[at].value)
    }

    /// A member's name as it is kept, and its value.
    #[must_use]
    pub fn get_key_value(&self, name: &str) -> Option<(&SmolStr, &Value)> {
        self.position(name).map(|at| self.members[at].pair())
    }

    /// Whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Sets a member, and returns its former value.
    pub fn insert(&mut self, name: impl Into<SmolStr>, value: Value) -> Option<Value> {
        self.set(name.into(), value)
    }

    fn set(&mut self, name: SmolStr, value: Value) -> Option<Value> {
        match self.place(&name) {
            Ok(at) => Some(mem::replace(&mut self.members[at].value, value)),
            Err(at) => {
                add(&mut self.members, at, name, value);
                None
            }
        }
    }

    /// Removes a member, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    /// Removes a member, and returns it.
    pub fn remove_entry(&mut self, name: &str) -> Option<(SmolStr, Value)> {
        let at = self.position(name)?;
        Some(self.members.remove(at).into_pair())
    }

    /// The place of a member, which may have a value.
    pub fn entry(&mut self, name: impl Into<SmolStr>) -> Entry<'_> {
        let name = name.into();
        match self.place(&name) {
            Ok(at) => Entry::Occupied(OccupiedEntry {
                at,
                members: &mut self.members,
            }),
            Err(at) => Entry::Vacant(VacantEntry {
                name,
                at,
                members: &mut self.members,
            }),
        }
    }

    /// Moves all members of another object into this one.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(mem::take(other));
    }

    /// Removes the members for which the function returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&SmolStr, &mut Value) -> bool) {
        self.members
            .retain_mut(|member| keep(&member.name, &mut member.value));
    }

    /// The members in order of their names.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.members.iter())
    }

    /// The members in order of their names.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(self.members.iter_mut())
    }

    /// The names in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &SmolStr> + ExactSizeIterator + Clone {
        self.members.iter().map(|member| &member.name)
    }

    /// The values in order of their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.members.iter().map(|member| &member.value)
    }

    /// The values in order of their names.
    pub fn values_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.members.iter_mut().map(|member| &mut member.value)
    }

    /// The names in order.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = SmolStr> + ExactSizeIterator {
        self.members.into_iter().map(|member| member.name)
    }

    /// The values in order of their names.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator {
        self.members.into_iter().map(|member| member.value)
    }
}

/// Adds a member where it belongs.
fn add(members: &mut Vec<Member>, at: usize, name: SmolStr, value: Value) {
    let beginning = beginning_of(&name);
    let member = Member {
        beginning,
        name,
        value,
    };
    members.insert(at, member);
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl ops::Index<&str> for Map {
    type Output = Value;

    /// # Panics
    ///
    /// When there is no such member.
    fn index(&self, name: &str) -> &Value {
        self.get(name)
            .unwrap_or_else(|| panic!("there is no member {name:?}"))
    }
}

impl ops::IndexMut<&str> for Map {
    /// # Panics
    ///
    /// When there is no such member.
    fn index_mut(&mut self, name: &str) -> &mut Value {
        self.get_mut(name)
            .unwrap_or_else(|| panic!("there is no member {name:?}"))
    }
}

impl<K: Into<SmolStr>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, members: I) {
        for (name, value) in members {
            self.set(name.into(), value);
        }
    }
}

impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut map = Self::with_capacity(members.size_hint().0);
        map.extend(members);
        map
    }
}

/// Members by reference, in order of their names.
#[derive(Clone)]
pub struct Iter<'m>(slice::Iter<'m, Member>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m SmolStr, &'m Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Member::pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Member::pair)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Members whose values may be changed, in order of their names.
pub struct IterMut<'m>(slice::IterMut<'m, Member>);

impl<'m> Iterator for IterMut<'m> {
    type Item = (&'m SmolStr, &'m mut Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Member::pair_mut)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IterMut<'_> {}

/// Members by value, in order of their names.
pub struct IntoIter(vec::IntoIter<Member>);

impl Iterator for IntoIter {
    type Item = (SmolStr, Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Member::into_pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for IntoIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Member::into_pair)
    }
}

impl ExactSizeIterator for IntoIter {}

impl IntoIterator for Map {
    type Item = (SmolStr, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(self.members.into_iter())
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m SmolStr, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Iter<'m> {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m SmolStr, &'m mut Value);
    type IntoIter = IterMut<'m>;

    fn into_iter(self) -> IterMut<'m> {
        self.iter_mut()
    }
}

/// The place of a member.
pub enum Entry<'m> {
    /// The member has a value.
    Occupied(OccupiedEntry<'m>),
    /// There is no such member yet.
    Vacant(VacantEntry<'m>),
}

impl<'m> Entry<'m> {
    /// The value of the member. A missing member is added with `value` first.
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => entry.insert(value),
        }
    }

    /// The value of the member. A missing member is added first, with the value that the function returns.
    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'m mut Value {
        match self {
            Self::Occupied(entry) => entry.into_mut(),
            Self::Vacant(entry) => entry.insert(value()),
        }
    }
}

/// The place of a member that has a value.
pub struct OccupiedEntry<'m> {
    at: usize,
    members: &'m mut Vec<Member>,
}

impl<'m> OccupiedEntry<'m> {
    /// The value.
    #[must_use]
    pub fn get(&self) -> &Value {
        &self.members[self.at].value
    }

    /// The value.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut Value {
        &mut self.members[self.at].value
    }

    /// The value, for as long as the object is borrowed.
    #[must_use]
    pub fn into_mut(self) -> &'m mut Value {
        &mut self.members[self.at].value
    }

    /// Sets the value, and returns the former one.
    pub fn insert(&mut self, value: Value) -> Value {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the member, and returns its value.
    #[must_use]
    pub fn remove(self) -> Value {
        self.members.remove(self.at).value
    }
}

/// The place of a member that does not exist yet.
pub struct VacantEntry<'m> {
    name: SmolStr,
    at: usize,
    members: &'m mut Vec<Member>,
}

impl<'m> VacantEntry<'m> {
    /// Adds the member.
    pub fn insert(self, value: Value) -> &'m mut Value {
        add(self.members, self.at, self.name, value);
        &mut self.members[self.at].value
    }
}
