//! The wire format: tagged values, one after the other.

/// A fault of bytes that are not a message. The text is that of the decoders generated for Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end inside a value.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A varint has more bits than fit.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length that is negative as Go reads it.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A tag of a wire type that does not exist.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u64),
    /// A tag without a field number.
    #[error("proto: {message}: illegal tag {number} (wire type {wire_type})")]
    IllegalTag {
        /// The message with the tag.
        message: String,
        /// The invalid field number.
        number: i32,
        /// The wire type in the tag.
        wire_type: u64,
    },
    /// A group ends that did not begin.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(String),
    /// A field is not encoded as its type is.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType {
        /// The wire type found.
        wire_type: u64,
        /// The name of the field.
        field: String,
    },
    /// Messages are nested too deep.
    #[error("proto: exceeded max depth")]
    Depth,
    /// A value that the type of its field refuses.
    #[error("{0}")]
    Value(String),
}

/// The wire types that types of the API have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// An encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
    Fixed64(u64),
    /// A 32-bit number or a group, with its wire type: no type of the API uses either.
    Other(u64),
}

impl<'b> Wire<'b> {
    /// The number of a varint; `field` names the field in errors.
    pub(super) fn varint(self, field: &str) -> Result<u64, Error> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(self.wrong(field)),
        }
    }

    /// The content of bytes, a string or a message; `field` names the field in errors.
    pub(super) fn bytes(self, field: &str) -> Result<&'b [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong(field)),
        }
    }

    /// The floating-point number of 64 bits; `field` names the field in errors.
    pub(super) fn double(self, field: &str) -> Result<f64, Error> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(self.wrong(field)),
        }
    }

    fn wrong(self, field: &str) -> Error {
        let wire_type = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Other(wire_type) => wire_type,
        };
        // The error has the name in Go, which but for some acronyms is that in JSON capitalized.
        let (first, rest) = field.split_at(field.len().min(1));
        let field = first.to_ascii_uppercase() + rest;
        Error::WrongWireType { wire_type, field }
    }
}

/// Takes values off the front of a message.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Error::Overflow)
    }

    /// The next field by its number, `None` at the end; `message` names the type in errors.
    pub(super) fn field(&mut self, message: &str) -> Result<Option<(u32, Wire<'b>)>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire_type = tag & 7;
        if wire_type == END_GROUP {
            return Err(Error::EndGroup(message.to_owned()));
        }
        let number = number(tag).map_err(|number| Error::IllegalTag {
            message: message.to_owned(),
            number,
            wire_type,
        })?;
        let value = match wire_type {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                Wire::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => Wire::Bytes(self.length_delimited()?),
            _ => {
                self.skip(wire_type)?;
                Wire::Other(wire_type)
            }
        };
        Ok(Some((number, value)))
    }

    /// Passes over a value of `wire_type`; of a group, up to its end.
    fn skip(&mut self, wire_type: u64) -> Result<(), Error> {
        let mut wire_type = wire_type;
        let mut groups = 0_usize;
        loop {
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => drop(self.length_delimited()?),
                3 => groups += 1,
                END_GROUP => groups -= 1,
                5 => drop(self.take(4)?),
                _ => return Err(Error::IllegalWireType(wire_type)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = self.varint()? & 7;
        }
    }

    fn length_delimited(&mut self) -> Result<&'b [u8], Error> {
        let length = i64::try_from(self.varint()?).map_err(|_| Error::NegativeLength)?;
        self.take(usize::try_from(length).map_err(|_| Error::UnexpectedEof)?)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Error::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// The wire type of the end of a group.
const END_GROUP: u64 = 4;

/// The field number in `tag`, of which Go keeps 32 bits.
fn number(tag: u64) -> Result<u32, i32> {
    match int32(tag >> 3) {
        number @ 1.. => Ok(number.unsigned_abs()),
        number => Err(number),
    }
}

/// The lower 32 bits, which an `int32` keeps of a varint.
pub(super) fn int32(number: u64) -> i32 {
    number as i32
}
