//! Lists as servers send them.

use std::sync::Arc;

use bytes::Bytes;
use kube::core::metadata::ListMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Undecoded;
use super::recent::{Remembered, Shards};

/// Bytes of the texts of the lists that a shard remembers: 4 MiB in all.
const REMEMBERED_BYTES_MAX: usize = 256 * 1024;

static RECENT: Shards<Known, REMEMBERED_BYTES_MAX> = Shards::new();

/// A list, or a page of one. A text that was read lately is not read again.
#[derive(Clone)]
pub(crate) struct List {
    /// Not empty.
    pub(crate) version: Option<String>,
    /// It requests the next page; not empty.
    pub(crate) continue_token: Option<String>,
    pub(crate) objects: Vec<Undecoded>,
}

/// A list and its text.
#[derive(Clone)]
struct Known {
    text: Bytes,
    list: Arc<List>,
}

impl Remembered for Known {
    fn text(&self) -> &[u8] {
        &self.text
    }
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl List {
    /// The list of this text.
    ///
    /// # Errors
    /// Why the text is no list.
    pub(crate) fn of(text: &Bytes) -> serde_json::Result<Arc<Self>> {
        if text.len() > REMEMBERED_BYTES_MAX {
            return Self::read(text).map(Arc::new);
        }
        let known = RECENT.get_or_read(text, || {
            Self::read(text).map(|list| Known {
                text: text.clone(),
                list: Arc::new(list),
            })
        });
        known.map(|known| known.list)
    }

    fn read(text: &[u8]) -> serde_json::Result<Self> {
        let list: Written<'_> = serde_json::from_slice(text)?;
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let items = list.items.unwrap_or_default().into_iter();
        Ok(Self {
            version: some(list.metadata.resource_version),
            continue_token: some(list.metadata.continue_),
            objects: items.map(Undecoded::of).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_once_unless_it_is_large() {
        let of = |fill: usize| {
            let object = r#"{"metadata":{"name":"a"}}"#;
            let fill = "x".repeat(fill);
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"3","continue":""}},"fill":"{fill}","items":[{object}]}}"#
            );
            List::of(&text.into()).unwrap()
        };
        let list = of(1);
        assert_eq!(list.version.as_deref(), Some("3"));
        assert_eq!(list.continue_token, None);
        assert_eq!(list.objects.len(), 1);
        assert!(Arc::ptr_eq(&list, &of(1)));
        assert!(!Arc::ptr_eq(&list, &of(2)));
        let large = || of(REMEMBERED_BYTES_MAX);
        assert!(!Arc::ptr_eq(&large(), &large()));
    }

    #[test]
    fn a_list_without_items_is_empty() {
        let of = |text: &'static str| List::of(&Bytes::from_static(text.as_bytes()));
        let list = of(r#"{"metadata":{"continue":"next"},"items":null}"#).unwrap();
        assert_eq!(list.version, None);
        assert_eq!(list.continue_token.as_deref(), Some("next"));
        assert!(list.objects.is_empty());
        assert!(of(r#"{"items":[{]}"#).is_err());
    }
}
