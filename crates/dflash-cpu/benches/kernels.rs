//! Time of one call of every kernel: `cargo bench -p dflash-cpu [-- NAME]`.
//!
//! Elements are multiply-adds where there are any. Products read their weights from memory; what attention and
//! the recurrences read stays in the caches.

mod common;

use std::time::Duration;

use criterion::{Criterion, Throughput};
use dflash_cpu::CpuBackend;

fn main() {
    let backend = CpuBackend::detect();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args();
    // Cases are built one at a time, and only those that are asked for.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    common::cases::visit(
        &backend,
        common::ROTATION,
        |name| name.contains(&wanted),
        |mut case| {
            let (kernel, rows) = case.name.rsplit_once('/').expect("a name ends in rows");
            let mut group = criterion.benchmark_group(kernel);
            group.throughput(Throughput::Elements(case.work as u64));
            group.bench_function(rows, |bencher| bencher.iter(&mut case.run));
        },
    );
    criterion.final_summary();
}
