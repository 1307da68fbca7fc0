use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::cores::cores;

/// What was measured on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Physical cores that the process may use.
    pub cores: usize,
    /// Memory in 10^9 bytes.
    pub memory_gb: f64,
    /// Name and version of the system.
    pub os: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let kinds = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(kinds);
        let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
        Self {
            cpu: brand.filter(|brand| !brand.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: cores().physical,
            memory_gb: system.total_memory() as f64 / 1e9,
            os: System::long_os_version().unwrap_or_else(|| std::env::consts::OS.to_owned()),
        }
    }
}
