//! A message under construction, written from its end towards its beginning: the length of a
//! message is known where it has to be written, and nothing is moved to make room for it.

use super::wire::WireType;

/// The least room that is added when the buffer is full, in bytes.
const GROWTH_MIN: usize = 1024;

/// Bytes at the end of a buffer, and room before them.
#[derive(Debug, Default)]
pub(super) struct Writer {
    buffer: Vec<u8>,
    /// Where the written bytes begin.
    start: usize,
}

impl Writer {
    /// Returns the bytes written so far.
    pub(super) fn written(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns how many bytes were written so far.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Clears the buffer and shrinks its capacity to `room` bytes at most.
    pub(super) fn clear(&mut self, room: usize) {
        self.buffer.truncate(room);
        self.buffer.shrink_to(room);
        self.start = self.buffer.len();
    }

    /// Writes `bytes` at the front.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.start;
        self.start -= bytes.len();
        self.buffer[self.start..end].copy_from_slice(bytes);
    }

    /// Writes a varint at the front.
    #[inline]
    pub(super) fn varint(&mut self, number: u64) {
        let mut bytes = [0; 10];
        let mut length = 0;
        let mut rest = number;
        while rest >= 0x80 {
            bytes[length] = rest as u8 | 0x80;
            rest >>= 7;
            length += 1;
        }
        bytes[length] = rest as u8;
        self.put(&bytes[..=length]);
    }

    /// Puts the tag of a field before its value.
    #[inline]
    pub(super) fn tag(&mut self, number: u32, wire_type: WireType) {
        self.varint(u64::from(number) << 3 | wire_type as u64);
    }

    /// Writes a field of bytes, a string or a finished message at the front.
    #[inline]
    pub(super) fn bytes(&mut self, number: u32, content: &[u8]) {
        self.put(content);
        self.varint(content.len() as u64);
        self.tag(number, WireType::Bytes);
    }

    /// Writes a field of a number at the front.
    #[inline]
    pub(super) fn number(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, WireType::Varint);
    }

    /// Makes a field of the bytes written since the length was `end`.
    #[inline]
    pub(super) fn enclose(&mut self, number: u32, end: usize) {
        self.varint((self.len() - end) as u64);
        self.tag(number, WireType::Bytes);
    }

    fn reserve(&mut self, room: usize) {
        if self.start < room {
            self.grow(room);
        }
    }

    #[cold]
    fn grow(&mut self, room: usize) {
        let written = self.len();
        let length = (written + room + GROWTH_MIN).max(self.buffer.len() * 2);
        let mut buffer = vec![0; length];
        let start = length - written;
        buffer[start..].copy_from_slice(self.written());
        self.buffer = buffer;
        self.start = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_reverse_order_of_their_writing() {
        let mut writer = Writer::default();
        writer.bytes(2, b"b");
        let end = writer.len();
        writer.number(1, 300);
        writer.enclose(1, end);
        assert_eq!(writer.written(), b"\x0a\x03\x08\xac\x02\x12\x01b");
        writer.clear(0);
        assert_eq!(writer.len(), 0);
        writer.bytes(1, &[7; 5000]);
        assert_eq!(writer.len(), 5003);
        assert!(writer.written().starts_with(b"\x0a\x88\x27\x07"));
    }
}
