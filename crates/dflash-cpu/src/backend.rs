use std::sync::{Mutex, MutexGuard};

use crate::Isa;
use crate::choose::ChooseBuffers;
use crate::inputs::InputBuffers;
use crate::pool::Pool;

/// The operations on the cores of this machine.
pub struct CpuBackend {
    pub(crate) pool: Pool,
    pub(crate) isa: Isa,
    scratch: Mutex<Scratch>,
}

/// Storage that operations reuse, so that none is allocated once it has grown.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) inputs: InputBuffers,
    pub(crate) choose: ChooseBuffers,
}

impl CpuBackend {
    /// A backend of `threads` threads, the caller included, with the kernels of `isa`.
    ///
    /// # Panics
    /// When this machine lacks the instructions.
    pub fn new(threads: usize, isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        Self { pool: Pool::new(threads), isa, scratch: Mutex::default() }
    }

    /// The best kernels on all cores.
    pub fn detect() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(threads, Isa::detect())
    }

    /// Threads that take part in an operation.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Kernels in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Its contents never matter between operations, so a panic in one of them does no harm.
    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
