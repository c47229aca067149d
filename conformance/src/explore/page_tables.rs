//! The page tables that a branch takes over.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Once;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use procfs::{ProcError, ProcResult};

/// Has each process that branches off from this one take over the page tables of the program and its libraries, if the
/// kernel allows it. It would fill them itself by page faults, of which each maps 64 KiB at most: a third of all faults of
/// a branch.
///
/// Linux copies page tables at a fork only if the mapping has pages that differ from the file. One page of each mapping is
/// made such a page: its first byte is written as it is.
///
/// Source: `vma_needs_copy` in `mm/memory.c` of Linux.
pub(super) fn hand_on() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // Without it branches are slower, and nothing else.
        let _ = write_to_mappings();
    });
}

/// Writes to each mapping that is only read.
///
/// # Errors
/// A kernel may forbid the write: it is [`ProcError::Io`] then.
fn write_to_mappings() -> ProcResult<()> {
    let forbidden = |error| ProcError::Io(error, None);
    let mappings = Process::myself()?.maps()?;
    let memory = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let memory = memory.map_err(forbidden)?;
    for mapping in mappings.iter().filter(|own| is_read_only(own)) {
        let (address, mut byte) = (mapping.address.0, [0]);
        // Beyond the end of a file there is nothing to read.
        if memory.read_exact_at(&mut byte, address).is_ok() {
            memory.write_all_at(&byte, address).map_err(forbidden)?;
        }
    }
    Ok(())
}

/// Whether the mapping is of a file, and is only read.
fn is_read_only(mapping: &MemoryMap) -> bool {
    let wanted = MMPermissions::READ | MMPermissions::PRIVATE;
    let is_read = mapping.perms.contains(wanted) && !mapping.perms.contains(MMPermissions::WRITE);
    is_read && matches!(mapping.pathname, MMapPath::Path(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_of_the_program_has_a_page_of_its_own() {
        match write_to_mappings() {
            Err(ProcError::Io(error, None)) => {
                println!("skipped: this kernel forbids it: {error}");
                return;
            }
            written => written.unwrap(),
        }
        let program = std::env::current_exe().unwrap();
        let mappings = Process::myself().unwrap().smaps().unwrap();
        let own: Vec<u64> = mappings
            .iter()
            .filter(|mapping| is_read_only(mapping))
            .filter(|mapping| mapping.pathname == MMapPath::Path(program.clone()))
            .map(|mapping| mapping.extension.map["Anonymous"])
            .collect();
        assert!(own.len() >= 2, "there are code and constants");
        assert!(own.iter().all(|bytes| *bytes > 0), "{own:?}");
    }
}
