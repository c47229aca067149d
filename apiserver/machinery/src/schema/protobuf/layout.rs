//! The fields of a message in the order in which they are written: by their numbers.

use super::super::{Field, Object, Schema};
use super::wire::WireType;
use super::writer::Writer;

/// The message of an [`Object`], compiled for writing.
#[derive(Debug)]
pub(in crate::schema) struct Layout {
    /// The rank of each declared field among all written fields, with inlined messages in place;
    /// `None` for a field that protobuf lacks.
    ranks: Vec<Option<u16>>,
    pub(super) message: Message,
}

/// A message, or one inside another that JSON inlines.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) slots: Vec<Slot>,
    /// The slots of the ranks from `first_rank` on.
    slot_of: Vec<u16>,
    pub(super) first_rank: u16,
    /// Go's encoding of each field without a value, one after the other.
    unset: Vec<u8>,
    /// Where the bytes of each slot begin in `unset`, and after the last where they end.
    starts: Vec<usize>,
}

/// A numbered part of a message.
#[derive(Debug)]
pub(super) enum Slot {
    /// A field, by its position among those that its type declares.
    Field { number: u32, position: usize },
    /// A message whose fields JSON has among those of the message around it.
    Inlined { number: u32, message: Message },
}

impl Layout {
    pub(in crate::schema) fn new(object: &Object) -> Self {
        let fields = object.fields();
        let mut numbered: Vec<usize> = (0..fields.len())
            .filter(|position| !fields[*position].proto.is_empty())
            .collect();
        numbered.sort_by(|one, other| fields[*one].proto.cmp(&fields[*other].proto));
        let mut ranks = vec![None; fields.len()];
        for (rank, position) in numbered.iter().enumerate() {
            ranks[*position] = Some(narrow(rank));
        }
        let message = Message::new(fields, &numbered, 0, 0);
        Self { ranks, message }
    }

    /// Returns the rank of the field declared at `position`.
    pub(super) fn rank(&self, position: usize) -> Option<u16> {
        self.ranks[position]
    }
}

impl Message {
    /// Compiles the message of the fields at `positions`, which are sorted by their numbers and agree
    /// in the first `depth` of them.
    fn new(fields: &[Field], positions: &[usize], depth: usize, first_rank: u16) -> Self {
        let mut message = Self {
            slots: Vec::new(),
            slot_of: Vec::new(),
            first_rank,
            unset: Vec::new(),
            starts: vec![0],
        };
        let number = |position: usize| fields[position].proto[depth];
        for group in positions.chunk_by(|one, other| number(*one) == number(*other)) {
            let (position, number) = (group[0], number(group[0]));
            let slot = narrow(message.slots.len());
            let rank = first_rank + narrow(message.slot_of.len());
            message.slot_of.extend(group.iter().map(|_| slot));
            let mut unset = Writer::default();
            message
                .slots
                .push(match fields[position].proto.len() == depth + 1 {
                    true => {
                        write_unset(&mut unset, number, &fields[position]);
                        Slot::Field { number, position }
                    }
                    false => {
                        let message = Self::new(fields, group, depth + 1, rank);
                        unset.bytes(number, message.unset(0..message.slots.len()));
                        Slot::Inlined { number, message }
                    }
                });
            message.unset.extend_from_slice(unset.written());
            message.starts.push(message.unset.len());
        }
        message
    }

    /// Returns the slot of a field by its rank.
    pub(super) fn slot(&self, rank: u16) -> usize {
        usize::from(self.slot_of[usize::from(rank - self.first_rank)])
    }

    /// Returns the encoding of `slots` without any values.
    pub(super) fn unset(&self, slots: std::ops::Range<usize>) -> &[u8] {
        &self.unset[self.starts[slots.start]..self.starts[slots.end]]
    }
}

/// Writes a field without a value as Go does: nothing for a pointer, list, map or bytes, and the
/// zero value for everything else.
fn write_unset(writer: &mut Writer, number: u32, field: &Field) {
    if field.pointer {
        return;
    }
    match &field.schema {
        Schema::Bytes | Schema::Array(_) | Schema::Map(_) => {}
        Schema::Bool | Schema::Int32 | Schema::Int64 => writer.number(number, 0),
        Schema::Float => {
            writer.put(&0_f64.to_le_bytes());
            writer.tag(number, WireType::Fixed64);
        }
        Schema::String(_)
        | Schema::Time
        | Schema::MicroTime
        | Schema::Any
        | Schema::Raw
        | Schema::JsonSchemaOr(_) => writer.bytes(number, b""),
        Schema::Quantity => writer.bytes(number, b"\x0a\x010"),
        Schema::IntOrString => writer.bytes(number, b"\x08\0\x10\0\x1a\0"),
        Schema::Object(object) => {
            let message = &object.layout().message;
            writer.bytes(number, message.unset(0..message.slots.len()));
        }
    }
}

fn narrow(index: usize) -> u16 {
    u16::try_from(index).expect("no type has that many fields")
}
