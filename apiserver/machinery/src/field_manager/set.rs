//! Sets of paths, the `FieldsV1` of managed fields.

mod read;
mod within;

use std::cmp::Ordering;
use std::mem;

use super::path::{PathElement, is_plain, write_string};
use crate::json::Value;
use crate::meta::fields;

/// A set of paths into an object.
///
/// Sorted by element. Most sets have a handful, for which a map would take far more room; they come
/// in order, and are combined in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(Vec<(PathElement, Node)>);

/// The part of a set at and below an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whether the path that ends here is in the set.
    pub(super) member: bool,
    /// The paths that go on from here.
    pub(super) children: FieldSet,
}

impl Node {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// Writes the node at `element` as an entry of a map.
    fn write_at(&self, json: &mut String, element: &PathElement) {
        write_key(json, element);
        self.write_below(json);
    }

    fn write_below(&self, json: &mut String) {
        self.children.write(json, self.member);
        json.push(',');
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.0.iter().map(|(element, node)| (element, node))
    }

    pub(super) fn node(&self, element: &PathElement) -> Option<&Node> {
        Some(&self.0[self.position(element).ok()?].1)
    }

    /// Where `element` is, or belongs.
    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        // Elements inserted in order belong at the end.
        match self.0.last() {
            Some((last, _)) if last < element => Err(self.0.len()),
            _ => self.0.binary_search_by(|(own, _)| own.cmp(element)),
        }
    }

    /// Adds one path; the empty path stands for the whole object, which has no owner, and adds
    /// nothing.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else {
            return;
        };
        let at = self.position(element).unwrap_or_else(|at| {
            self.0.insert(at, (element.clone(), Node::default()));
            at
        });
        let node = &mut self.0[at].1;
        match rest {
            [] => node.member = true,
            rest => node.children.insert(rest),
        }
    }

    /// The set of these field paths.
    pub(super) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(super) fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [element] => self.node(element).is_some_and(|node| node.member),
            [element, rest @ ..] => {
                let node = self.node(element);
                node.is_some_and(|node| node.children.has(rest))
            }
        }
    }

    /// The paths in either set.
    pub(super) fn union(mut self, other: Self) -> Self {
        self.extend(other);
        self
    }

    /// Adds the paths of `other`.
    pub(super) fn extend(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let mut merged = Vec::with_capacity(self.0.len() + other.0.len());
        let mut own = mem::take(&mut self.0).into_iter().peekable();
        for (element, theirs) in other.0 {
            while let Some(before) = own.next_if(|(own, _)| *own < element) {
                merged.push(before);
            }
            match own.next_if(|(own, _)| *own == element) {
                Some((element, mut node)) => {
                    node.member |= theirs.member;
                    node.children.extend(theirs.children);
                    merged.push((element, node));
                }
                None => merged.push((element, theirs)),
            }
        }
        merged.extend(own);
        self.0 = merged;
    }

    /// The paths in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut others = other.walk();
        let shared = self.0.iter().filter_map(|(element, node)| {
            let theirs = others(element)?;
            let node = Node {
                member: node.member && theirs.member,
                children: node.children.intersection(&theirs.children),
            };
            (!node.is_empty()).then(|| (element.clone(), node))
        });
        Self(shared.collect())
    }

    /// Returns a function that finds the nodes of elements, which it must receive in order.
    fn walk<'s>(&'s self) -> impl FnMut(&PathElement) -> Option<&'s Node> {
        let mut rest = self.0.as_slice();
        move |element| {
            while let [(first, node), later @ ..] = rest {
                match first.cmp(element) {
                    Ordering::Less => rest = later,
                    Ordering::Equal => return Some(node),
                    Ordering::Greater => return None,
                }
            }
            None
        }
    }

    /// Removes the paths of `other`; paths below them stay.
    pub(super) fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut others = other.walk();
        self.0.retain_mut(|(element, node)| {
            if let Some(theirs) = others(element) {
                node.member &= !theirs.member;
                node.children.subtract(&theirs.children);
            }
            !node.is_empty()
        });
    }

    /// The paths that are not in `other`.
    pub(super) fn difference(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    /// Removes the paths of `other` with everything below them.
    pub(super) fn exclude(&mut self, other: &Self) {
        let mut others = other.walk();
        self.0.retain_mut(|(element, node)| match others(element) {
            Some(theirs) if theirs.member => false,
            Some(theirs) => {
                node.children.exclude(&theirs.children);
                !node.is_empty()
            }
            None => true,
        });
    }

    /// Whether `FieldsV1` may have a path of this set: false is certain.
    pub(super) fn may_overlap(&self, fields: &Value) -> bool {
        fields::resting(fields).is_none_or(|json| self.may_overlap_text(json))
    }

    fn may_overlap_text(&self, json: &str) -> bool {
        self.0.iter().any(|(element, node)| {
            let mut key = String::new();
            write_key(&mut key, element);
            json.contains(&key) && (node.member || node.children.may_overlap_text(json))
        })
    }

    /// Every path; those that end at a level come before those that go on.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for (element, _) in self.0.iter().filter(|(_, node)| node.member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            paths.push(path);
        }
        for (element, node) in &self.0 {
            prefix.push(element.clone());
            node.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// The set of `nodes` in any order; of those with one element the last is taken.
    fn of_nodes(mut nodes: Vec<(PathElement, Node)>) -> Self {
        nodes.retain(|(_, node)| !node.is_empty());
        if !nodes.is_sorted_by(|(one, _), (next, _)| one < next) {
            // Reversed before a stable sort, as of equal elements the first is kept: the last one
            // given.
            nodes.reverse();
            nodes.sort_by(|(one, _), (next, _)| one.cmp(next));
            nodes.dedup_by(|(one, _), (kept, _)| one == kept);
        }
        Self(nodes)
    }

    /// Puts the set under `element` into this one.
    pub(super) fn graft(&mut self, element: PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.position(&element) {
            Ok(at) => self.0[at].1 = node,
            Err(at) => self.0.insert(at, (element, node)),
        }
    }

    /// The set as the JSON of `FieldsV1`, sorted as maps of JSON are.
    pub(super) fn to_json(&self) -> String {
        // Most pods' fields take less, so that the text is not moved as it grows.
        let mut json = String::with_capacity(4096);
        self.write(&mut json, false);
        json
    }

    /// Writes the set; `member` says that the path to it is one of its paths as well.
    fn write(&self, json: &mut String, member: bool) {
        json.push('{');
        if member && !self.is_empty() {
            json.push_str("\".\":{},");
        }
        let is_field = |element: &PathElement| matches!(element, PathElement::Field(_));
        if self.0.iter().all(|(element, _)| is_field(element)) {
            for (element, node) in &self.0 {
                node.write_at(json, element);
            }
        } else {
            // Sets are ordered by content, and a number's is not the order of its digits.
            let serialized = self
                .iter()
                .map(|(element, node)| (element.serialize(), node));
            let mut sorted: Vec<_> = serialized.collect();
            sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (key, node) in sorted {
                write_string(json, &key);
                json.push(':');
                node.write_below(json);
            }
        }
        if json.as_bytes().last() == Some(&b',') {
            json.pop();
        }
        json.push('}');
    }

    /// The set as `FieldsV1`.
    #[cfg(test)]
    pub(super) fn to_fields(&self) -> Value {
        let field = |(element, node): (&PathElement, &Node)| {
            let mut below = node.children.to_fields();
            if node.member
                && !node.children.is_empty()
                && let Some(fields) = below.as_object_mut()
            {
                fields.insert(".", Value::Object(crate::json::Map::new()));
            }
            (element.serialize(), below)
        };
        Value::Object(self.iter().map(field).collect())
    }
}

/// Writes an element as the key of a map, with its colon.
fn write_key(json: &mut String, element: &PathElement) {
    match element {
        PathElement::Field(name) => write_field(json, name),
        element => {
            write_string(json, &element.serialize());
            json.push(':');
        }
    }
}

/// Writes a field as the key of a map, with its colon.
pub(super) fn write_field(json: &mut String, name: &str) {
    if is_plain(name) {
        json.push_str("\"f:");
        json.push_str(name);
        json.push_str("\":");
    } else {
        write_string(json, &["f:", name].concat());
        json.push(':');
    }
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;
    use crate::json::json;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_fields(&fields).unwrap()
    }

    #[test]
    fn field_sets_read_and_write_fields_v1() {
        let sets = [
            json!({}),
            json!({ "f:data": { ".": {}, "f:k": {} } }),
            json!({ "f:l": { "k:{\"name\":\"c\",\"port\":80}": { ".": {}, "f:name": {} } } }),
            json!({ "f:finalizers": { "v:\"a/b\"": {}, "v:1": {} }, "f:x": { "i:0": {} } }),
        ];
        for fields in sets {
            assert_eq!(set(fields.clone()).to_fields(), fields);
        }
        assert_eq!(
            set(json!({ "f:a": {}, "q:new": {} })),
            set(json!({ "f:a": {} }))
        );
        for broken in [
            json!({ "a": {} }),
            json!({ "k:[]": {} }),
            json!({ "f:a": 1 }),
        ] {
            assert!(FieldSet::from_fields(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn field_sets_combine() {
        let left = set(json!({ "f:a": { ".": {}, "f:b": {} }, "f:c": {} }));
        let right = set(json!({ "f:a": { "f:b": {} }, "f:d": {} }));
        let union = json!({ "f:a": { ".": {}, "f:b": {} }, "f:c": {}, "f:d": {} });
        assert_eq!(left.clone().union(right.clone()).to_fields(), union);
        let shared = json!({ "f:a": { "f:b": {} } });
        assert_eq!(left.intersection(&right).to_fields(), shared);
        let rest = json!({ "f:a": {}, "f:c": {} });
        assert_eq!(left.clone().difference(&right).to_fields(), rest);
        let mut excluded = left;
        excluded.exclude(&set(json!({ "f:a": {} })));
        assert_eq!(excluded.to_fields(), json!({ "f:c": {} }));
    }

    #[test]
    fn paths_in_messages() {
        let cases = [
            (json!({ "f:spec": { "f:replicas": {} } }), ".spec.replicas"),
            (
                json!({ "f:l": { "k:{\"n\":\"c\",\"p\":80}": { "f:i": {} } } }),
                ".l[n=\"c\",p=80].i",
            ),
            (json!({ "f:l": { "v:\"x\"": {} } }), ".l[=\"x\"]"),
            (json!({ "f:l": { "i:3": {} } }), ".l[3]"),
        ];
        for (fields, want) in cases {
            let paths = set(fields).paths();
            let shown: Vec<String> = paths.iter().map(|path| path::display(path)).collect();
            assert_eq!(shown, [want]);
        }
    }

    #[test]
    fn path_elements_are_ordered_by_kind_then_content() {
        let texts = [
            "f:a",
            "f:b",
            "k:{\"a\":1}",
            "k:{\"a\":2}",
            "v:1",
            "v:2",
            "v:\"a\"",
            "i:1",
            "i:10",
        ];
        let elements: Vec<PathElement> = texts
            .iter()
            .map(|text| PathElement::parse(text).unwrap().unwrap())
            .collect();
        assert!(elements.is_sorted());
        assert_eq!(PathElement::parse("v:1.0"), PathElement::parse("v:1"));
    }
}
