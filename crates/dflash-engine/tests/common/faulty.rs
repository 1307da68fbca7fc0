//! A target that fails once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dflash_models::{Taps, Target, TargetSpec, Workspace};
use dflash_tensor::{Backend, BackendError, Batch, Choice, SeqCache, Tensor, Weight};

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Panics in the middle of a pass.
    Panic,
    /// The device fails.
    Device,
    /// A row is no number, for whoever asks for choices without logits.
    NotANumber,
}

/// Fails at its pass number `at`, from 0.
pub struct Faulty {
    pub target: Box<dyn Target>,
    pub fault: Fault,
    pub at: usize,
    pub passes: AtomicUsize,
}

impl Faulty {
    pub fn new(target: Box<dyn Target>, fault: Fault, at: usize) -> Box<Self> {
        Box::new(Self { target, fault, at, passes: AtomicUsize::new(0) })
    }
}

impl Target for Faulty {
    fn forward(
        &self,
        ws: &mut Workspace,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        taps: Option<&mut Taps>,
    ) {
        let pass = self.passes.fetch_add(1, Ordering::SeqCst);
        assert!((pass, self.fault) != (self.at, Fault::Panic), "a fault in a kernel");
        self.target.forward(ws, batch, caches, taps);
    }

    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError> {
        match self.fault {
            _ if self.passes.load(Ordering::SeqCst) != self.at + 1 => self.target.choose(ws, rows, out),
            Fault::Panic => self.target.choose(ws, rows, out),
            Fault::Device => Err(BackendError::Device("it is gone".into())),
            Fault::NotANumber => Err(BackendError::NotANumber { row: rows[0], id: 3 }),
        }
    }

    fn spec(&self) -> &TargetSpec {
        self.target.spec()
    }

    fn limit_vocab(&mut self, vocab: usize) {
        self.target.limit_vocab(vocab);
    }

    fn new_cache(&self) -> SeqCache {
        self.target.new_cache()
    }

    fn workspace(&self) -> Workspace {
        self.target.workspace()
    }

    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor) {
        self.target.logits(ws, rows, out);
    }

    fn embedding(&self) -> &Arc<Weight> {
        self.target.embedding()
    }

    fn head(&self) -> &Arc<Weight> {
        self.target.head()
    }

    fn embedding_scale(&self) -> f32 {
        self.target.embedding_scale()
    }

    fn softcap(&self) -> Option<f32> {
        self.target.softcap()
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        self.target.backend()
    }
}
