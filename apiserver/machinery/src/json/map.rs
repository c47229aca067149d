//! The members of an object.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::ops;
use std::slice;
use std::vec;

use super::{SmolStr, Value};

/// The members of an object, sorted by name.
///
/// Few members, and many that are added in order, are one list. A look-up compares the first eight bytes of names as
/// numbers, and whole names only where these are equal: a short list is scanned, a longer one is halved. An addition or
/// a removal moves the members with later names; the list becomes a tree before many would have to move.
#[derive(Clone)]
pub struct Map(Members);

#[derive(Clone)]
enum Members {
    List(Vec<Member>),
    #[expect(clippy::box_collection, reason = "every value would be larger")]
    Tree(Box<BTreeMap<SmolStr, Value>>),
}

/// A member of an object.
#[derive(Clone, PartialEq, Eq)]
struct Member {
    beginning: u64,
    name: SmolStr,
    value: Value,
}

impl Member {
    fn new(name: SmolStr, value: Value) -> Self {
        let beginning = beginning_of(&name);
        Self {
            beginning,
            name,
            value,
        }
    }

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

/// Where the member is in a list.
fn position(list: &[Member], name: &str) -> Option<usize> {
    if list.len() > Map::SCANNED {
        return place(list, name).ok();
    }
    let beginning = beginning_of(name);
    let is_it = |member: &Member| member.beginning == beginning && member.name == name;
    list.iter().position(is_it)
}

/// Where the member is in a list, or where it would be.
fn place(list: &[Member], name: &str) -> Result<usize, usize> {
    let beginning = beginning_of(name);
    let compare = |member: &Member| {
        let begins = member.beginning.cmp(&beginning);
        begins.then_with(|| member.name.as_str().cmp(name))
    };
    match list.last().map(compare) {
        None | Some(Ordering::Less) => Err(list.len()),
        Some(Ordering::Equal) => Ok(list.len() - 1),
        Some(Ordering::Greater) => list.binary_search_by(compare),
    }
}

impl Map {
    /// The most members that a look-up compares one after the other.
    const SCANNED: usize = 16;
    /// The most members that are moved by an addition or a removal.
    const MOVED: usize = 128;

    /// An object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Members::List(Vec::new()))
    }

    /// An object without members, with room for as many.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Members::List(Vec::with_capacity(capacity)))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Members::List(list) => list.len(),
            Members::Tree(tree) => tree.len(),
        }
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        match &self.0 {
            Members::List(list) => position(list, name).map(|at| &list[at].value),
            Members::Tree(tree) => tree.get(name),
        }
    }

    /// The value of a member.
    #[must_use]
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        match &mut self.0 {
            Members::List(list) => position(list, name).map(|at| &mut list[at].value),
            Members::Tree(tree) => tree.get_mut(name),
        }
    }

    /// A member's name as it is kept, and its value.
    #[must_use]
    pub fn get_key_value(&self, name: &str) -> Option<(&SmolStr, &Value)> {
        match &self.0 {
            Members::List(list) => position(list, name).map(|at| list[at].pair()),
            Members::Tree(tree) => tree.get_key_value(name),
        }
    }

    /// Whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The members as a tree.
    fn tree(&mut self) -> &mut BTreeMap<SmolStr, Value> {
        if let Members::List(list) = &mut self.0 {
            let members = mem::take(list).into_iter().map(Member::into_pair);
            self.0 = Members::Tree(Box::new(members.collect()));
        }
        match &mut self.0 {
            Members::Tree(tree) => tree,
            Members::List(_) => unreachable!("it is a tree now"),
        }
    }

    /// Sets a member, and returns its former value.
    pub fn insert(&mut self, name: impl Into<SmolStr>, value: Value) -> Option<Value> {
        self.set(name.into(), value)
    }

    fn set(&mut self, name: SmolStr, value: Value) -> Option<Value> {
        if let Members::List(list) = &mut self.0 {
            match place(list, &name) {
                Ok(at) => return Some(mem::replace(&mut list[at].value, value)),
                Err(at) if list.len() - at <= Self::MOVED => {
                    list.insert(at, Member::new(name, value));
                    return None;
                }
                Err(_) => {}
            }
        }
        self.tree().insert(name, value)
    }

    /// Removes a member, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    /// Removes a member, and returns it.
    pub fn remove_entry(&mut self, name: &str) -> Option<(SmolStr, Value)> {
        if let Members::List(list) = &mut self.0 {
            let at = position(list, name)?;
            if list.len() - at <= Self::MOVED {
                return Some(list.remove(at).into_pair());
            }
        }
        self.tree().remove_entry(name)
    }

    /// The place of a member, which may have a value.
    pub fn entry(&mut self, name: impl Into<SmolStr>) -> Entry<'_> {
        let name = name.into();
        if self.len() > Self::MOVED {
            self.tree();
        }
        match &mut self.0 {
            Members::List(members) => match place(members, &name) {
                Ok(at) => Entry::Occupied(OccupiedEntry(Occupied::List { at, members })),
                Err(at) => Entry::Vacant(VacantEntry(Vacant::List { name, at, members })),
            },
            Members::Tree(tree) => match tree.entry(name) {
                btree_map::Entry::Occupied(entry) => {
                    Entry::Occupied(OccupiedEntry(Occupied::Tree(entry)))
                }
                btree_map::Entry::Vacant(entry) => Entry::Vacant(VacantEntry(Vacant::Tree(entry))),
            },
        }
    }

    /// Moves all members of another object into this one.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(mem::take(other));
    }

    /// Removes the members for which the function returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&SmolStr, &mut Value) -> bool) {
        match &mut self.0 {
            Members::List(list) => list.retain_mut(|member| keep(&member.name, &mut member.value)),
            Members::Tree(tree) => tree.retain(keep),
        }
    }

    /// The members in order of their names.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Members::List(list) => Either::List(list.iter()),
            Members::Tree(tree) => Either::Tree(tree.iter()),
        })
    }

    /// The members in order of their names.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(match &mut self.0 {
            Members::List(list) => Either::List(list.iter_mut()),
            Members::Tree(tree) => Either::Tree(tree.iter_mut()),
        })
    }

    /// The names in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &SmolStr> + ExactSizeIterator + Clone {
        self.iter().map(|(name, _)| name)
    }

    /// The values in order of their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values in order of their names.
    pub fn values_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The names in order.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = SmolStr> + ExactSizeIterator {
        self.into_iter().map(|(name, _)| name)
    }

    /// The values in order of their names.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator {
        self.into_iter().map(|(_, value)| value)
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Members::List(own), Members::List(other)) => own == other,
            _ => self.len() == other.len() && self.iter().eq(other),
        }
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|member| member.hash(state));
    }
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

/// An iterator over a list or over a tree.
#[derive(Clone)]
enum Either<L, T> {
    List(L),
    Tree(T),
}

/// How members are iterated over: what a member of a list becomes, and the iterators over a list and over a tree.
macro_rules! iterators {
    ($(#[$doc:meta] $name:ident [$($life:lifetime)?] $item:ty: $pair:path, $list:ty, $tree:ty;)*) => {$(
        #[$doc]
        pub struct $name $(<$life>)? (Either<$list, $tree>);

        impl $(<$life>)? Iterator for $name $(<$life>)? {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                match &mut self.0 {
                    Either::List(list) => list.next().map($pair),
                    Either::Tree(tree) => tree.next(),
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                match &self.0 {
                    Either::List(list) => list.size_hint(),
                    Either::Tree(tree) => tree.size_hint(),
                }
            }
        }

        impl $(<$life>)? DoubleEndedIterator for $name $(<$life>)? {
            fn next_back(&mut self) -> Option<Self::Item> {
                match &mut self.0 {
                    Either::List(list) => list.next_back().map($pair),
                    Either::Tree(tree) => tree.next_back(),
                }
            }
        }

        impl $(<$life>)? ExactSizeIterator for $name $(<$life>)? {}
    )*};
}

iterators! {
    /// Members by reference, in order of their names.
    Iter['m] (&'m SmolStr, &'m Value): Member::pair, slice::Iter<'m, Member>, btree_map::Iter<'m, SmolStr, Value>;
    /// Members whose values may be changed, in order of their names.
    IterMut['m] (&'m SmolStr, &'m mut Value): Member::pair_mut, slice::IterMut<'m, Member>, btree_map::IterMut<'m, SmolStr, Value>;
    /// Members by value, in order of their names.
    IntoIter[] (SmolStr, Value): Member::into_pair, vec::IntoIter<Member>, btree_map::IntoIter<SmolStr, Value>;
}

impl Clone for Iter<'_> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl IntoIterator for Map {
    type Item = (SmolStr, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(match self.0 {
            Members::List(list) => Either::List(list.into_iter()),
            Members::Tree(tree) => Either::Tree((*tree).into_iter()),
        })
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
pub struct OccupiedEntry<'m>(Occupied<'m>);

enum Occupied<'m> {
    List {
        at: usize,
        members: &'m mut Vec<Member>,
    },
    Tree(btree_map::OccupiedEntry<'m, SmolStr, Value>),
}

impl<'m> OccupiedEntry<'m> {
    /// The value.
    #[must_use]
    pub fn get(&self) -> &Value {
        match &self.0 {
            Occupied::List { at, members } => &members[*at].value,
            Occupied::Tree(entry) => entry.get(),
        }
    }

    /// The value.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut Value {
        match &mut self.0 {
            Occupied::List { at, members } => &mut members[*at].value,
            Occupied::Tree(entry) => entry.get_mut(),
        }
    }

    /// The value, for as long as the object is borrowed.
    #[must_use]
    pub fn into_mut(self) -> &'m mut Value {
        match self.0 {
            Occupied::List { at, members } => &mut members[at].value,
            Occupied::Tree(entry) => entry.into_mut(),
        }
    }

    /// Sets the value, and returns the former one.
    pub fn insert(&mut self, value: Value) -> Value {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the member, and returns its value.
    #[must_use]
    pub fn remove(self) -> Value {
        match self.0 {
            Occupied::List { at, members } => members.remove(at).value,
            Occupied::Tree(entry) => entry.remove(),
        }
    }
}

/// The place of a member that does not exist yet.
pub struct VacantEntry<'m>(Vacant<'m>);

enum Vacant<'m> {
    List {
        name: SmolStr,
        at: usize,
        members: &'m mut Vec<Member>,
    },
    Tree(btree_map::VacantEntry<'m, SmolStr, Value>),
}

impl<'m> VacantEntry<'m> {
    /// Adds the member.
    pub fn insert(self, value: Value) -> &'m mut Value {
        match self.0 {
            Vacant::List { name, at, members } => {
                members.insert(at, Member::new(name, value));
                &mut members[at].value
            }
            Vacant::Tree(entry) => entry.insert(value),
        }
    }
}
