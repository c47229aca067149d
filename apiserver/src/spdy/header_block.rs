//! The headers of streams: blocks of names and values in one zlib stream for each direction, with a
//! dictionary that both sides know.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};
use flate2::{Decompress, FlushDecompress};

use super::Fault;

/// The size limit of a block; clients of Kubernetes need less than a hundredth.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: u32 = 1000;

/// The flag of a zlib header that announces a dictionary.
const HAS_DICTIONARY: u8 = 0x20;

/// The words of the dictionary, one a line, and what follows them.
const DICTIONARY: &str = include_str!("dictionary.txt");

/// The dictionary in the encoding of header names, as the stream's past has it.
pub(super) fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut lines = DICTIONARY.lines().peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() {
            bytes.put_u32(u32::try_from(line.len()).expect("a word is short"));
        }
        bytes.put_slice(line.as_bytes());
    }
    bytes
}

/// Adler-32, by which zlib names a dictionary (RFC 1950).
pub(super) fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (sum, weighted) = bytes.iter().fold((1, 0), |(sum, weighted), byte| {
        let sum = (sum + u32::from(*byte)) % MODULUS;
        (sum, (weighted + sum) % MODULUS)
    });
    weighted << 16 | sum
}

/// The headers of a stream, by their names in lower case; of several values only the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(BTreeMap<String, String>);

impl Headers {
    /// The value of `name`, in lower case; empty when it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// The blocks that one side has sent so far.
#[derive(Default)]
pub(super) struct HeaderBlocks {
    /// Absent before the first block.
    zlib: Option<Decompress>,
}

impl HeaderBlocks {
    /// Reads the next block, which has to be whole.
    ///
    /// # Errors
    /// A block that is malformed or too large; no later block can be read then.
    pub(super) fn read(&mut self, mut block: &[u8]) -> Result<Headers, Fault> {
        let zlib = match &mut self.zlib {
            Some(zlib) => zlib,
            none => none.insert(begin(&mut block)?),
        };
        parse(&inflate(zlib, block)?)
    }
}

/// Reads zlib's own header off the first block.
fn begin(block: &mut &[u8]) -> Result<Decompress, Fault> {
    const MALFORMED: Fault = Fault("no zlib stream");
    let method = block.try_get_u8().map_err(|_| MALFORMED)?;
    let flags = block.try_get_u8().map_err(|_| MALFORMED)?;
    let check = u16::from_be_bytes([method, flags]);
    if method & 0x0f != 8 || !check.is_multiple_of(31) {
        return Err(MALFORMED);
    }
    let mut zlib = Decompress::new(false);
    if flags & HAS_DICTIONARY != 0 {
        let dictionary = dictionary();
        if block.try_get_u32().map_err(|_| MALFORMED)? != adler32(&dictionary) {
            return Err(Fault("unknown dictionary"));
        }
        // An uncompressed block puts the dictionary into the stream's past.
        let length = u16::try_from(dictionary.len()).expect("the dictionary is short");
        let mut past = vec![0];
        past.put_u16_le(length);
        past.put_u16_le(!length);
        past.put_slice(&dictionary);
        inflate(&mut zlib, &past)?;
    }
    Ok(zlib)
}

fn inflate(zlib: &mut Decompress, mut block: &[u8]) -> Result<Vec<u8>, Fault> {
    const MALFORMED: Fault = Fault("malformed compression");
    let (mut inflated, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let (taken, made) = (zlib.total_in(), zlib.total_out());
        let result = zlib.decompress(block, &mut buffer, FlushDecompress::Sync);
        result.map_err(|_| MALFORMED)?;
        let progress = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(0);
        let taken = progress(zlib.total_in(), taken);
        let made = progress(zlib.total_out(), made);
        block = &block[taken..];
        inflated.extend_from_slice(&buffer[..made]);
        if inflated.len() > BLOCK_BYTES_MAX {
            return Err(Fault("too many headers"));
        }
        match (taken, made) {
            (0, 0) if block.is_empty() => return Ok(inflated),
            (0, 0) => return Err(MALFORMED),
            _ => {}
        }
    }
}

fn parse(mut block: &[u8]) -> Result<Headers, Fault> {
    const TRUNCATED: Fault = Fault("truncated headers");
    let number = |block: &mut &[u8]| block.try_get_u32().map_err(|_| TRUNCATED);
    let text = |block: &mut &[u8]| {
        let length = usize::try_from(number(block)?).map_err(|_| TRUNCATED)?;
        let (text, rest) = block.split_at_checked(length).ok_or(TRUNCATED)?;
        *block = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    };
    let mut headers = BTreeMap::new();
    let count = number(&mut block)?;
    if count > HEADERS_MAX {
        return Err(Fault("too many headers"));
    }
    for _ in 0..count {
        let name = text(&mut block)?.to_lowercase();
        let mut value = text(&mut block)?;
        // Values of one name are between NULs.
        let first = value.find('\0').unwrap_or(value.len());
        value.truncate(first);
        if headers.insert(name, value).is_some() {
            return Err(Fault("duplicate headers"));
        }
    }
    match block.is_empty() {
        true => Ok(Headers(headers)),
        false => Err(Fault("more than headers")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Blocks;
    use super::*;

    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        let dictionary = dictionary();
        assert_eq!(
            (dictionary.len(), adler32(&dictionary)),
            (1423, 0xe3c6_a7c2)
        );
    }

    #[test]
    fn blocks_of_a_go_client_are_read() {
        // The first two streams of a `kubectl port-forward`, v1.36.2: their compression leans on the
        // dictionary, and the second one on the first.
        let recorded = [
            (
                "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc6461c0c0c0c0590489c44c50e26634\
                 00000000ffff",
                "error",
            ),
            ("c2aa15540a2512d209000000ffff", "data"),
        ];
        let mut blocks = HeaderBlocks::default();
        for (hex, kind) in recorded {
            let digits = hex.as_bytes().chunks(2);
            let digits = digits.map(|two| std::str::from_utf8(two).unwrap());
            let block: Vec<u8> = digits
                .map(|two| u8::from_str_radix(two, 16).unwrap())
                .collect();
            let headers = blocks.read(&block).unwrap();
            assert_eq!(headers.get("streamtype"), kind);
            assert_eq!((headers.get("port"), headers.get("requestid")), ("80", "0"));
            assert_eq!(headers.get("absent"), "");
        }
    }

    #[test]
    fn a_block_is_read_as_it_was_written_and_no_other_way() {
        let (mut written, mut blocks) = (Blocks::default(), HeaderBlocks::default());
        let first = written.next(&[("Port", "80\081")]);
        assert_eq!(blocks.read(&first).unwrap().get("port"), "80");
        let twice = written.next(&[("a", "1"), ("A", "2")]);
        assert_eq!(blocks.read(&twice), Err(Fault("duplicate headers")));

        let long = "a".repeat(BLOCK_BYTES_MAX);
        let too_long = Blocks::default().next(&[("a", &long)]);
        for (malformed, why) in [
            (&b""[..], "no zlib stream"),
            (b"\x78", "no zlib stream"),
            (b"\x78\xbc\0\0\0\0", "no zlib stream"),
            (b"\x78\xbb\0\0\0\0", "unknown dictionary"),
            (b"\x78\x9c\xff", "malformed compression"),
            (b"\x78\x9c\x00\x02\x00\xfd\xff\x00\x00", "truncated headers"),
            (&too_long, "too many headers"),
        ] {
            let mut blocks = HeaderBlocks::default();
            assert_eq!(blocks.read(malformed), Err(Fault(why)), "{malformed:?}");
        }
    }
}
