use dflash_tensor::KvGeometry;

use crate::attention::ValueSource;
use crate::loader::BiasRule;
use crate::moe::MoeShape;
use crate::rope::RopeConfig;

/// What the mathematics needs, whichever file it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Config {
    pub(super) hidden: usize,
    pub(super) eps: f32,
    /// Valid token ids; the tables may have more rows.
    pub(super) vocab: usize,
    /// Positions.
    pub(super) context: usize,
    /// Query heads.
    pub(super) heads: usize,
    /// Biases of the projections of attention.
    pub(super) bias: BiasRule,
    /// Cap of the logits.
    pub(super) softcap: Option<f32>,
    /// `None` when the file does not say, so that the presence of a head decides.
    pub(super) tied: Option<bool>,
    /// Width of the inputs that every layer has of its own.
    pub(super) layer_inputs: Option<usize>,
    /// Beside the MLP of every layer.
    pub(super) experts: Option<MoeShape>,
    /// Where there are sliding layers.
    pub(super) sliding: Option<Habits>,
    /// Where there are full layers.
    pub(super) full: Option<Habits>,
    pub(super) layers: Vec<LayerPlan>,
}

/// Which keys a layer sees: those in its window, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Sliding,
    Full,
}

/// What layers of one reach have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Habits {
    pub(super) window: Option<usize>,
    pub(super) kv: KvGeometry,
    pub(super) rope: RopeConfig,
}

/// What one layer has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerPlan {
    pub(super) reach: Reach,
    pub(super) values: ValueSource,
    /// Layer of the caches with its keys and values.
    pub(super) cache: usize,
    /// Width of the MLP.
    pub(super) ffn: usize,
}

impl Config {
    /// What the layers of a reach have in common.
    ///
    /// # Panics
    /// When there are no such layers.
    pub(super) fn habits(&self, reach: Reach) -> &Habits {
        let habits = match reach {
            Reach::Sliding => &self.sliding,
            Reach::Full => &self.full,
        };
        habits.as_ref().expect("habits of every reach in use")
    }
}

/// The layer whose keys and values layer `layer` reads when the last `shared` layers have none of their own:
/// itself, or the last layer of the same reach that has. `None` when there is no such layer.
pub(super) fn cache_layer(reaches: &[Reach], shared: usize, layer: usize) -> Option<usize> {
    let own = reaches.len() - shared;
    if layer < own { Some(layer) } else { (0..own).rev().find(|&other| reaches[other] == reaches[layer]) }
}

#[cfg(test)]
mod tests {
    use super::Reach::{Full, Sliding};
    use super::cache_layer;

    #[test]
    fn shared_layers_read_the_last_own_layer_of_their_reach() {
        let reaches = [Sliding, Full, Sliding, Sliding, Full, Sliding, Full];
        let read = |shared| (0..7).map(|layer| cache_layer(&reaches, shared, layer)).collect::<Vec<_>>();
        assert_eq!(read(0), (0..7).map(Some).collect::<Vec<_>>());
        assert_eq!(read(3)[3..], [Some(3), Some(1), Some(3), Some(1)]);
        assert_eq!(read(6), [Some(0), None, Some(0), Some(0), None, Some(0), None]);
    }
}
