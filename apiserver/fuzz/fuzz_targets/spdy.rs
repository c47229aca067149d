//! The entry `spdy`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kubeproof_apiserver::fuzzing::run("spdy", data));
