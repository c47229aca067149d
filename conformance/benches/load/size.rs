//! The size of a benchmark: `cargo bench` measures, `cargo test --benches` only shows that it works.

/// What is measured is so many times as much as what is tried.
const MEASURED_PART: usize = 100;

/// `measured`, or a small part of it if nothing is measured.
pub(crate) fn sized(measured: usize) -> usize {
    // Cargo passes this argument to benchmarks that it measures.
    match std::env::args().any(|argument| argument == "--bench") {
        true => measured,
        false => measured.div_ceil(MEASURED_PART),
    }
}
