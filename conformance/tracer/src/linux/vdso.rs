//! The code in a program with which the C library and Go read clocks without a system call. It is replaced by code that reads a
//! page of our own.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};

use super::memory;

/// No kernel's code is longer.
const LENGTH_MAX: usize = 65_536;
/// The size of a word, by which code is written.
const WORD: usize = 8;

/// Maps a page, and stops: the arguments are in the registers.
///
/// ```asm
/// mov eax, 9                  ; mmap
/// syscall
/// int3
/// ```
const MAP: &[u8] = &[0xb8, 9, 0, 0, 0, 0x0f, 0x05, 0xcc];

/// `int clock_gettime(int clock, struct timespec *time)`
///
/// ```asm
///   cmp edi, 11               ; the last clock
///   ja 3f
///   mov rdx, PAGE
///   mov ecx, 0x921            ; the clocks of real time: 0, 5, 8, 11
///   bt ecx, edi
///   jc 1f
///   mov ecx, 0x2d2            ; those of monotonic time: 1, 4, 6, 7, 9
///   bt ecx, edi
///   jnc 3f
///   mov r8, [rdx+8]
///   jmp 2f
/// 1: mov r8, [rdx]
/// 2: mov eax, 1000            ; a reading takes a microsecond
///   lock xadd [rdx+16], rax
///   lea rax, [rax+r8+1000]
///   xor edx, edx
///   mov ecx, 1000000000
///   div rcx
///   mov [rsi], rax
///   mov [rsi+8], rdx
///   xor eax, eax
///   ret
/// 3: mov eax, 228             ; clock_gettime
///   syscall
///   ret
/// ```
const CLOCK_GETTIME: &[u8] = &[
    0x83, 0xff, 0x0b, 0x77, 0x4e, 0x48, 0xba, 0, 0, 0, 0, 0, 0, 0, 0, 0xb9, 0x21, 0x09, 0, 0, 0x0f,
    0xa3, 0xf9, 0x72, 0x10, 0xb9, 0xd2, 0x02, 0, 0, 0x0f, 0xa3, 0xf9, 0x73, 0x30, 0x4c, 0x8b, 0x42,
    0x08, 0xeb, 0x03, 0x4c, 0x8b, 0x02, 0xb8, 0xe8, 0x03, 0, 0, 0xf0, 0x48, 0x0f, 0xc1, 0x42, 0x10,
    0x4a, 0x8d, 0x84, 0, 0xe8, 0x03, 0, 0, 0x31, 0xd2, 0xb9, 0, 0xca, 0x9a, 0x3b, 0x48, 0xf7, 0xf1,
    0x48, 0x89, 0x06, 0x48, 0x89, 0x56, 0x08, 0x31, 0xc0, 0xc3, 0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05,
    0xc3,
];
/// The place of the page's address in it.
const PAGE_IN_CLOCK_GETTIME: usize = 7;

/// `int gettimeofday(struct timeval *time, struct timezone *zone)`
///
/// ```asm
///   test rdi, rdi
///   jz 1f
///   mov rdx, PAGE
///   mov r8, [rdx]
///   mov eax, 1000
///   lock xadd [rdx+16], rax
///   lea rax, [rax+r8+1000]
///   xor edx, edx
///   mov ecx, 1000000000
///   div rcx
///   mov [rdi], rax
///   mov eax, edx
///   xor edx, edx
///   mov ecx, 1000
///   div ecx
///   mov [rdi+8], rax
/// 1: test rsi, rsi
///   jz 2f
///   mov qword ptr [rsi], 0
/// 2: xor eax, eax
///   ret
/// ```
const GETTIMEOFDAY: &[u8] = &[
    0x48, 0x85, 0xff, 0x74, 0x3c, 0x48, 0xba, 0, 0, 0, 0, 0, 0, 0, 0, 0x4c, 0x8b, 0x02, 0xb8, 0xe8,
    0x03, 0, 0, 0xf0, 0x48, 0x0f, 0xc1, 0x42, 0x10, 0x4a, 0x8d, 0x84, 0, 0xe8, 0x03, 0, 0, 0x31,
    0xd2, 0xb9, 0, 0xca, 0x9a, 0x3b, 0x48, 0xf7, 0xf1, 0x48, 0x89, 0x07, 0x89, 0xd0, 0x31, 0xd2,
    0xb9, 0xe8, 0x03, 0, 0, 0xf7, 0xf1, 0x48, 0x89, 0x47, 0x08, 0x48, 0x85, 0xf6, 0x74, 0x07, 0x48,
    0xc7, 0x06, 0, 0, 0, 0, 0x31, 0xc0, 0xc3,
];
/// The place of the page's address in it.
const PAGE_IN_GETTIMEOFDAY: usize = 7;

/// `time_t time(time_t *time)`
///
/// ```asm
/// mov eax, 201                ; time
/// syscall
/// ret
/// ```
const TIME: &[u8] = &[0xb8, 0xc9, 0, 0, 0, 0x0f, 0x05, 0xc3];

/// `getrandom` without a system call is not there, so that callers make one.
///
/// ```asm
/// mov rax, -38                ; ENOSYS
/// ret
/// ```
const GETRANDOM: &[u8] = &[0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3];

/// The addresses of the functions in a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    clock_gettime: u64,
    gettimeofday: u64,
    time: u64,
    /// The kernel has it since 6.11.
    getrandom: Option<u64>,
}

impl Functions {
    /// Finds the functions in the code at `address`. `None` if no function can be replaced.
    pub(super) fn find(thread: Pid, address: u64) -> Option<Self> {
        let mut image = vec![0; length(memory::read(thread, address).ok()?)?];
        memory::read_into(thread, address, &mut image).ok()?;
        let file = ElfFile64::<Endianness>::parse(&image[..]).ok()?;
        let place = |name: &str, code: &[u8]| {
            let mut symbols = file.dynamic_symbols();
            let symbol = symbols.find(|symbol| symbol.name() == Ok(name))?;
            let has_room = usize::try_from(symbol.size()).ok()? >= code.len();
            has_room.then(|| address + symbol.address())
        };
        Some(Self {
            clock_gettime: place("__vdso_clock_gettime", CLOCK_GETTIME)?,
            gettimeofday: place("__vdso_gettimeofday", GETTIMEOFDAY)?,
            time: place("__vdso_time", TIME)?,
            getrandom: place("__vdso_getrandom", GETRANDOM),
        })
    }

    /// Writes code that maps a page; returns its address.
    ///
    /// # Errors
    /// When the program's code cannot be written.
    pub(super) fn write_map(&self, thread: Pid) -> Result<u64, Errno> {
        write(thread, self.clock_gettime, MAP)?;
        Ok(self.clock_gettime)
    }

    /// Replaces the functions by those that read the page at `page`.
    ///
    /// # Errors
    /// When the program's code cannot be written.
    pub(super) fn replace(&self, thread: Pid, page: u64) -> Result<(), Errno> {
        let with_page = |code: &[u8], place: usize| {
            let mut code = code.to_vec();
            code[place..place + WORD].copy_from_slice(&page.to_le_bytes());
            code
        };
        let clock_gettime = with_page(CLOCK_GETTIME, PAGE_IN_CLOCK_GETTIME);
        write(thread, self.clock_gettime, &clock_gettime)?;
        let gettimeofday = with_page(GETTIMEOFDAY, PAGE_IN_GETTIMEOFDAY);
        write(thread, self.gettimeofday, &gettimeofday)?;
        write(thread, self.time, TIME)?;
        match self.getrandom {
            Some(getrandom) => write(thread, getrandom, GETRANDOM),
            None => Ok(()),
        }
    }
}

/// The length of the file that begins with this header: its table of sections comes last.
fn length(header: [u8; 64]) -> Option<usize> {
    let short = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let start = u64::from_le_bytes(header[0x28..0x30].try_into().ok()?);
    let table = usize::from(short(0x3a)?) * usize::from(short(0x3c)?);
    let length = usize::try_from(start).ok()?.checked_add(table)?;
    (length <= LENGTH_MAX).then_some(length)
}

/// Writes code, which the program itself cannot write.
fn write(thread: Pid, address: u64, code: &[u8]) -> Result<(), Errno> {
    for (at, part) in (address..).step_by(WORD).zip(code.chunks(WORD)) {
        let at = at as ptrace::AddressType;
        let mut word = ptrace::read(thread, at)?.to_le_bytes();
        word[..part.len()].copy_from_slice(part);
        ptrace::write(thread, at, i64::from_le_bytes(word))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::clock::{Kind, virtual_clocks};
    use super::*;

    /// The number in the instruction at `at`, which moves it to a register.
    fn moved(at: usize) -> u32 {
        assert_eq!(CLOCK_GETTIME[at], 0xb9);
        u32::from_le_bytes(CLOCK_GETTIME[at + 1..at + 5].try_into().unwrap())
    }

    #[test]
    fn the_code_knows_the_virtual_clocks() {
        let of = |kind| {
            let clocks = virtual_clocks().filter(|clock| Kind::of(*clock) == Some(kind));
            clocks.fold(0, |mask, clock| mask | 1 << clock)
        };
        assert_eq!(moved(15), of(Kind::Realtime));
        assert_eq!(moved(25), of(Kind::Monotonic));
        assert_eq!(virtual_clocks().last(), Some(i32::from(CLOCK_GETTIME[2])));
    }
}
