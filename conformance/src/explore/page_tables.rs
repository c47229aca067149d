//! The page tables that a branch takes over.

use std::fs::File;
use std::os::unix::fs::FileExt;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use procfs::{ProcError, ProcResult};

/// Has each process that branches off from this one take over the page tables of the program and its libraries. It would
/// fill them itself by page faults, of which each maps 64 KiB at most: a third of all faults of a branch.
///
/// Linux copies page tables at a fork only if the mapping has pages that differ from the file. One page of each mapping is
/// made such a page: its first byte is written as it is.
///
/// # Errors
/// A kernel may forbid this. Branches are slower then.
///
/// Source: `vma_needs_copy` in `mm/memory.c` of Linux.
pub(super) fn hand_on() -> ProcResult<()> {
    let memory = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem")
        .map_err(|error| ProcError::Io(error, None))?;
    for mapping in Process::myself()?.maps()?.iter().filter(|own| is_text(own)) {
        let (address, mut byte) = (mapping.address.0, [0]);
        // Beyond the end of a file there is nothing to read.
        if memory.read_exact_at(&mut byte, address).is_ok() {
            let written = memory.write_all_at(&byte, address);
            written.map_err(|error| ProcError::Io(error, None))?;
        }
    }
    Ok(())
}

/// Whether the mapping is of a file, and is only read.
fn is_text(mapping: &MemoryMap) -> bool {
    let wanted = MMPermissions::READ | MMPermissions::PRIVATE;
    let is_read = mapping.perms.contains(wanted) && !mapping.perms.contains(MMPermissions::WRITE);
    is_read && matches!(mapping.pathname, MMapPath::Path(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_of_the_program_has_a_page_of_its_own() {
        if let Err(error) = hand_on() {
            println!("skipped: this kernel forbids it: {error}");
            return;
        }
        let program = std::env::current_exe().unwrap();
        let mappings = Process::myself().unwrap().smaps().unwrap();
        let own: Vec<u64> = mappings
            .iter()
            .filter(|mapping| is_text(mapping))
            .filter(|mapping| mapping.pathname == MMapPath::Path(program.clone()))
            .map(|mapping| mapping.extension.map["Anonymous"])
            .collect();
        assert!(own.len() >= 2, "there are code and constants");
        assert!(own.iter().all(|bytes| *bytes > 0), "{own:?}");
    }
}
