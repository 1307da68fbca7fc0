use crate::Isa;
use crate::pool::Pool;

/// The operations on the cores of this machine.
pub struct CpuBackend {
    pub(crate) pool: Pool,
    pub(crate) isa: Isa,
}

impl CpuBackend {
    /// A backend of `threads` threads, the caller included, with the kernels of `isa`.
    pub fn new(threads: usize, isa: Isa) -> Self {
        Self { pool: Pool::new(threads), isa }
    }
}
