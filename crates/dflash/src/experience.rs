//! What was accepted of a pair's drafts: the prior of the next run's width policy.

use std::sync::{Arc, Mutex, PoisonError};

use dflash_engine::{Decoder, Experience};

use crate::options::Options;
use crate::remembered::{self, Entry};
use crate::runtime::PairInfo;

const FILE: &str = "acceptance.json";

/// Experience of a pair that is kept when it is dropped.
pub struct Kept {
    shared: Arc<Mutex<Experience>>,
    before: Experience,
    options: Options,
    key: String,
    of: String,
}

impl Kept {
    /// Recalls what earlier runs have kept, and takes what the decoder learns from now on.
    pub fn of(decoder: &Decoder, info: &PairInfo, options: &Options) -> Self {
        let (key, of) = (remembered::pair(decoder, info), remembered::files(info));
        let shared = Arc::clone(decoder.experience());
        let recalled = remembered::recall(options, FILE, &key, &of);
        let mut now = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recalled) = recalled.filter(|recalled: &Experience| recalled.fits(&now)) {
            *now = recalled;
        }
        let before = now.clone();
        drop(now);
        Self { shared, before, options: options.clone(), key, of }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let value = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if value != self.before {
            remembered::keep(&self.options, FILE, &self.key, Entry { of: self.of.clone(), value });
        }
    }
}
