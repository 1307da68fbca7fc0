use std::sync::Arc;
use std::time::Instant;

use crate::life::Life;
use crate::metrics::Metrics;
use crate::{ServedModel, ServerSettings};

/// What every route reaches. Clones share it.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// See [`App`].
pub struct Parts {
    /// The pair.
    pub model: ServedModel,
    /// How the server behaves.
    pub settings: ServerSettings,
    /// What it counts.
    pub metrics: Metrics,
    /// Where it is in its life.
    pub life: Life,
    /// When it started.
    pub started: Instant,
}

impl App {
    /// Brings both together.
    pub fn new(model: ServedModel, settings: ServerSettings) -> Self {
        Self::observed(model, settings, Metrics::default())
    }

    /// With counts of the caller's.
    pub fn observed(model: ServedModel, settings: ServerSettings, metrics: Metrics) -> Self {
        let (life, started) = (Life::default(), Instant::now());
        Self(Arc::new(Parts { model, settings, metrics, life, started }))
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
