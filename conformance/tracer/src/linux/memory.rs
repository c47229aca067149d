//! The memory of a program, and what it says about time.

use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use super::clock::SECOND;

/// The entry of the auxiliary vector with the address of the vDSO.
const AT_SYSINFO_EHDR: i64 = 33;
/// The entry with the address of random bytes.
const AT_RANDOM: i64 = 25;
/// An entry of the auxiliary vector that readers skip.
const AT_IGNORE: i64 = 1;
const AT_NULL: i64 = 0;
/// The length of a word, by which stack and vector are read.
const WORD: u64 = 8;

/// Reads `N` bytes at `address`.
///
/// # Errors
/// `EFAULT` if that memory does not exist.
pub(super) fn read<const N: usize>(thread: Pid, address: u64) -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    read_into(thread, address, &mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes` with what is at `address`.
///
/// # Errors
/// `EFAULT` when there is less.
pub(super) fn read_into(thread: Pid, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    let remote = RemoteIoVec {
        base: place(address)?,
        len: bytes.len(),
    };
    let length = bytes.len();
    match process_vm_readv(thread, &mut [IoSliceMut::new(bytes)], &[remote])? {
        read if read == length => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Writes `bytes` at `address`, unless that is zero.
///
/// # Errors
/// `EFAULT` when the program could not write there.
pub(super) fn write_if_set(thread: Pid, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    match address {
        0 => Ok(()),
        address => write(thread, address, bytes),
    }
}

/// Writes `bytes` at `address`.
///
/// # Errors
/// `EFAULT` when the program could not write there.
pub(super) fn write(thread: Pid, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    let remote = RemoteIoVec {
        base: place(address)?,
        len: bytes.len(),
    };
    match process_vm_writev(thread, &[IoSlice::new(bytes)], &[remote])? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

fn place(address: u64) -> Result<usize, Errno> {
    usize::try_from(address).map_err(|_| Errno::EFAULT)
}

/// The units of the second number of a time.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Of a `timespec`.
    Nanos,
    /// Of a `timeval`.
    Micros,
}

impl Unit {
    fn nanos(self) -> i64 {
        match self {
            Self::Nanos => 1,
            Self::Micros => 1_000,
        }
    }
}

/// Reads a time in nanoseconds.
///
/// # Errors
/// `EFAULT`, and `EINVAL` for a time that the kernel would refuse.
pub(super) fn read_time(thread: Pid, address: u64, unit: Unit) -> Result<i64, Errno> {
    time_of(read(thread, address)?, unit)
}

/// The nanoseconds of a `timespec` or a `timeval`.
///
/// # Errors
/// `EINVAL` for a time that the kernel would refuse.
pub(super) fn time_of(bytes: [u8; 16], unit: Unit) -> Result<i64, Errno> {
    let (seconds, part) = bytes.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes);
    let (Ok(seconds), Ok(part)) = (number(seconds), number(part)) else {
        return Err(Errno::EFAULT);
    };
    if seconds < 0 || !(0..SECOND / unit.nanos()).contains(&part) {
        return Err(Errno::EINVAL);
    }
    let nanos = seconds.saturating_mul(SECOND);
    Ok(nanos.saturating_add(part * unit.nanos()))
}

/// A `timespec` or a `timeval` of nanoseconds.
pub(super) fn time_bytes(nanos: i64, unit: Unit) -> [u8; 16] {
    let mut bytes = [0; 16];
    let part = nanos.rem_euclid(SECOND) / unit.nanos();
    bytes[..8].copy_from_slice(&nanos.div_euclid(SECOND).to_le_bytes());
    bytes[8..].copy_from_slice(&part.to_le_bytes());
    bytes
}

/// Where a program that is about to begin finds its vDSO.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vdso {
    /// The address of the entry of the auxiliary vector.
    entry: u64,
    /// The address of the code.
    pub(super) code: u64,
}

impl Vdso {
    /// Takes it away from the program, so that each reading of a clock is a system call.
    ///
    /// # Errors
    /// When its memory cannot be written.
    pub(super) fn hide(self, thread: Pid) -> Result<(), Errno> {
        ptrace::write(thread, self.entry as ptrace::AddressType, AT_IGNORE)
    }
}

/// Gives a program that is about to begin these `random` bytes; returns its vDSO, if it has one. `stack` is its pointer to arguments,
/// environment and auxiliary vector.
///
/// # Errors
/// When its memory cannot be read or written.
pub(super) fn prepare(thread: Pid, stack: u64, random: [u8; 16]) -> Result<Option<Vdso>, Errno> {
    let word = |at: u64| ptrace::read(thread, at as ptrace::AddressType);
    let arguments = word(stack)?.cast_unsigned();
    // The number of arguments, the arguments, and a null.
    let mut at = stack + WORD * (arguments + 2);
    while word(at)? != 0 {
        at += WORD;
    }
    at += WORD;
    let mut vdso = None;
    loop {
        let value = || word(at + WORD).map(i64::cast_unsigned);
        match word(at)? {
            AT_NULL => return Ok(vdso),
            AT_SYSINFO_EHDR => {
                vdso = Some(Vdso {
                    entry: at,
                    code: value()?,
                });
            }
            AT_RANDOM => write(thread, value()?, &random)?,
            _ => {}
        }
        at += 2 * WORD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for unit in [Unit::Nanos, Unit::Micros] {
            let nanos = 5 * SECOND + 7_000;
            assert_eq!(time_of(time_bytes(nanos, unit), unit), Ok(nanos));
        }
        let mut wrong = [0; 16];
        wrong[8..].copy_from_slice(&SECOND.to_le_bytes());
        assert_eq!(time_of(wrong, Unit::Nanos), Err(Errno::EINVAL));
        wrong[..8].copy_from_slice(&(-1_i64).to_le_bytes());
        assert_eq!(time_of(wrong, Unit::Micros), Err(Errno::EINVAL));
    }
}
