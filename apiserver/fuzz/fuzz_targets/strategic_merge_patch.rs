//! The entry `strategic_merge_patch`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kubeproof_apiserver::fuzzing::run("strategic_merge_patch", data));
