//! The cores of this machine.

use dflash_cpu::Cores;
use sysinfo::System;

/// Cores that this process may use.
pub fn cores() -> Cores {
    let cores = Cores::detect();
    match System::physical_core_count() {
        // Linux has told the backend, affinity included.
        Some(physical) if cfg!(not(target_os = "linux")) => {
            Cores { physical: physical.clamp(1, cores.logical), ..cores }
        }
        _ => cores,
    }
}
