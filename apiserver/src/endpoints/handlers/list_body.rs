//! The body of a list: the bytes of the items as they are stored, in pieces.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use super::Request;
use super::page::Page;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::negotiation::{Accepted, MediaType};
use crate::endpoints::response;
use crate::json::Value;
use crate::schema::protobuf;
use crate::storage::StoredObject;

/// The end of the JSON of a list of built-in objects.
const JSON_END: &[u8] = b"]}\n";
/// A list is sent in pieces of about this size: the client reads one while the next is made.
const PIECE: usize = 128 * 1024;

/// A list in pieces: a head, the items, and an end.
pub(super) struct ListBody {
    head: Vec<u8>,
    items: Items,
    end: Vec<u8>,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    length: usize,
    sent: usize,
}

/// How objects are items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Items {
    /// As JSON with their types.
    Json,
    /// As JSON without their types, as built-in kinds are in a list of them.
    JsonFields,
    /// As messages.
    Protobuf,
}

impl Items {
    /// The length of an item without separators.
    fn length(self, object: &StoredObject) -> usize {
        match self {
            Self::Json => object.json_length(),
            // They lack their opening brace.
            Self::JsonFields => object.json_fields_length() + 1,
            Self::Protobuf => protobuf::item_length(message(object)),
        }
    }

    fn write(self, body: &mut Vec<u8>, object: &StoredObject) {
        match self {
            Self::Json => body.extend_from_slice(&object.json()),
            Self::JsonFields => {
                body.push(b'{');
                body.extend_from_slice(&object.json_fields());
            }
            Self::Protobuf => protobuf::push_item(body, message(object)),
        }
    }

    fn between(self) -> &'static [u8] {
        match self {
            Self::Json | Self::JsonFields => b",",
            Self::Protobuf => b"",
        }
    }
}

/// The message of an object of a built-in kind.
fn message(object: &StoredObject) -> &[u8] {
    let document = object.protobuf();
    document.expect("a built-in kind has a message").message()
}

/// The metadata of a list in the order of Go's fields.
fn list_meta(metadata: &Value) -> String {
    let fields = ["resourceVersion", "continue", "remainingItemCount"];
    let present = fields.into_iter().filter_map(|name| {
        let value = metadata.get(name)?;
        Some(format!("{name:?}:{value}"))
    });
    format!("{{{}}}", present.collect::<Vec<_>>().join(","))
}

impl ListBody {
    /// The list in the negotiated encoding; `None` where it does not consist of the objects' bytes.
    pub(super) fn new(request: &Request<'_>, page: &Page, metadata: &Value) -> Option<Self> {
        let accepted = request.accepted;
        match accepted.media {
            MediaType::Json if !accepted.pretty => Some(Self::json(request, page, metadata)),
            MediaType::Protobuf => Some(Self::protobuf(request, page, metadata)),
            MediaType::Json | MediaType::Yaml => None,
        }
    }

    /// The list as JSON.
    pub(super) fn json(request: &Request<'_>, page: &Page, metadata: &Value) -> Self {
        let kind = request.resource.list_kind();
        let version = request.resource.gvk().api_version();
        let (items, head, end) = match request.resource.custom.is_some() {
            // What has no Go type is sorted.
            true => (
                Items::Json,
                format!("{{\"apiVersion\":{version:?},\"items\":["),
                format!("],\"kind\":{kind:?},\"metadata\":{metadata}}}\n").into_bytes(),
            ),
            false => (
                Items::JsonFields,
                format!(
                    "{{\"kind\":{kind:?},\"apiVersion\":{version:?},\"metadata\":{},\"items\":[",
                    list_meta(metadata),
                ),
                JSON_END.to_vec(),
            ),
        };
        let length = items_length(items, page);
        Self::of(head.into_bytes(), items, end, page, length)
    }

    fn protobuf(request: &Request<'_>, page: &Page, metadata: &Value) -> Self {
        let length = items_length(Items::Protobuf, page);
        let head = protobuf::list_head(
            &request.resource.gvk().api_version(),
            &request.resource.list_kind(),
            metadata,
            length,
        );
        let end = protobuf::ENVELOPE_END.to_vec();
        Self::of(head, Items::Protobuf, end, page, length)
    }

    fn of(head: Vec<u8>, items: Items, end: Vec<u8>, page: &Page, items_length: usize) -> Self {
        Self {
            length: head.len() + items_length + end.len(),
            head,
            items,
            end,
            objects: page.objects.clone().into_iter(),
            sent: 0,
        }
    }

    /// The response: in pieces, except for a list that is short or may have to be compressed.
    pub(super) fn response(
        self,
        code: u16,
        accepted: Accepted,
        takes_gzip: bool,
    ) -> Response<ResponseBody> {
        let media = accepted.media.as_str();
        if self.length < PIECE || takes_gzip {
            return response::whole(code, media, self.joined());
        }
        let length = self.length;
        response::with_body(code, media, ResponseBody::pieces(self, length))
    }

    /// The list in one piece.
    pub(super) fn joined(mut self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.length);
        while self.sent < self.length {
            self.write_piece(&mut body);
        }
        body
    }

    /// Writes the next piece, of about the usual size.
    fn write_piece(&mut self, body: &mut Vec<u8>) {
        let start = body.len();
        let mut between = self.sent > 0;
        body.append(&mut self.head);
        while body.len() - start < PIECE
            && let Some(object) = self.objects.next()
        {
            if between {
                body.extend_from_slice(self.items.between());
            }
            between = true;
            self.items.write(body, &object);
        }
        if self.objects.len() == 0 {
            body.append(&mut self.end);
        }
        self.sent += body.len() - start;
    }
}

/// The length of all items and their separators.
fn items_length(items: Items, page: &Page) -> usize {
    let lengths = page.objects.iter().map(|object| items.length(object));
    let between = items.between().len() * page.objects.len().saturating_sub(1);
    lengths.sum::<usize>() + between
}

impl Iterator for ListBody {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.sent == self.length {
            return None;
        }
        let mut body = Vec::with_capacity(PIECE + PIECE / 4);
        self.write_piece(&mut body);
        Some(body.into())
    }
}
