//! The registers of a thread at a system call.

/// All registers.
pub(super) type Registers = libc::user_regs_struct;

/// The number of a system call that is left out.
const NO_CALL: u64 = u64::MAX;

/// The registers with which a call returns `result` without the kernel.
pub(super) fn answered(registers: Registers, result: i64) -> Registers {
    Registers {
        orig_rax: NO_CALL,
        rax: result.cast_unsigned(),
        ..registers
    }
}

/// A register as the kernel takes it for an `int`.
pub(super) fn number(register: u64) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel takes the lower half"
    )]
    let lower = register as u32;
    lower.cast_signed()
}

/// An `int` as a register.
pub(super) fn bits(number: i32) -> u64 {
    u64::from(number.cast_unsigned())
}
