use dflash_tensor::{
    DeltaGeometry, DeltaInputs, DeltaSpec, HeadNorm, KeyHeadMap, Pre, RecurrentGeometry, Weight,
};

use crate::ModelError;
use crate::conv::filter;
use crate::loader::{BiasRule, Loader, NormRule, Wanted};
use crate::pass::{Pass, Sink};

/// Sizes and habits of a Gated DeltaNet layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeltaShape {
    pub(crate) hidden: usize,
    pub(crate) geometry: DeltaGeometry,
    /// Rows that the convolution covers.
    pub(crate) kernel: usize,
    pub(crate) eps: f32,
    pub(crate) projections: DeltaProjections,
    pub(crate) key_heads: KeyHeadMap,
    /// Whether `A_log` holds `-exp(A_log)` already, as GGUF files do.
    pub(crate) rate_baked: bool,
}

/// How the input projections stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeltaProjections {
    /// `in_proj_qkv`, `in_proj_z`, `in_proj_b`, `in_proj_a`.
    Separate,
    /// `in_proj_qkvz` and `in_proj_ba`, each interleaved per key head.
    Fused,
    /// `in_proj_qkv` and `in_proj_z`, but `in_proj_ba` interleaved per key head.
    FusedGates,
}

/// Gated DeltaNet between its projections.
pub(crate) struct GatedDelta {
    /// qkv, output gate, beta, alpha.
    input: Weight,
    spec: DeltaSpec,
    output: Weight,
}

impl GatedDelta {
    /// Reads the layer whose tensors begin with `prefix` (without the dot).
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &DeltaShape,
    ) -> Result<Self, ModelError> {
        let input = shape.projections.wanted(loader, prefix, shape)?;
        let input = loader.weight(&input)?;
        let DeltaGeometry { value_heads, value_dim, .. } = shape.geometry;
        let output = Wanted::new(format!("{prefix}.out_proj"), shape.hidden, value_heads * value_dim);
        Ok(Self { input, spec: shape.spec(loader, prefix)?, output: loader.weight(&[output])? })
    }

    /// What a sequence carries through the layer.
    pub(crate) fn geometry(&self) -> RecurrentGeometry {
        self.spec.recurrent()
    }

    /// The layer on `pre` of the residual stream; layer `layer` of the caches is its own.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, layer: usize, pre: Pre<'_>, sink: Sink<'_>) {
        let [qkv, gate, beta, alpha] = pass.project(&self.input, pre);
        let mut mixed = pass.ws.take(gate.cols());
        let inputs = DeltaInputs { qkv: &qkv, gate: &gate, beta: &beta, alpha: &alpha };
        pass.backend.gated_delta(&self.spec, layer, pass.batch, pass.caches, inputs, &mut mixed);
        pass.output(&self.output, &mixed, sink);
        pass.ws.put([qkv, gate, beta, alpha, mixed]);
    }
}

impl DeltaShape {
    fn spec(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<DeltaSpec, ModelError> {
        let DeltaGeometry { value_heads, value_dim, .. } = self.geometry;
        let name = |tail: &str| format!("{prefix}.{tail}");
        let mut rate = loader.floats(&name("A_log"), value_heads)?;
        if !self.rate_baked {
            // In f64: the elementary functions of platforms differ in the last place of f32.
            rate.iter_mut().for_each(|rate| *rate = -f64::from(*rate).exp() as f32);
        }
        let dt_bias = loader.floats(&name("dt_bias"), value_heads)?;
        let weight = loader.gain(&name("norm.weight"), value_dim, NormRule::Plain)?;
        Ok(DeltaSpec {
            geometry: self.geometry,
            filter: filter(loader, &name("conv1d.weight"), self.geometry.channels(), self.kernel)?,
            rate: loader.tensor(value_heads, &rate),
            dt_bias: loader.tensor(value_heads, &dt_bias),
            norm: HeadNorm { weight, eps: self.eps },
            key_heads: self.key_heads,
        })
    }
}

impl DeltaProjections {
    /// The matrices of qkv, output gate, beta and alpha.
    fn wanted(
        self,
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &DeltaShape,
    ) -> Result<[Wanted; 4], ModelError> {
        let DeltaGeometry { value_heads, value_dim, .. } = shape.geometry;
        let (values, channels) = (value_heads * value_dim, shape.geometry.channels());
        let mut matrix = |name: &str, rows| {
            loader.wanted(format!("{prefix}.in_proj_{name}"), rows, shape.hidden, BiasRule::Never)
        };
        let [qkv, gate] = match self {
            Self::Fused => {
                let fused = matrix("qkvz", channels + values)?;
                qkvz_rows(&shape.geometry).map(|rows| fused.rows_of(rows))
            }
            Self::Separate | Self::FusedGates => [matrix("qkv", channels)?, matrix("z", values)?],
        };
        let [beta, alpha] = match self {
            Self::Separate => [matrix("b", value_heads)?, matrix("a", value_heads)?],
            Self::Fused | Self::FusedGates => {
                let fused = matrix("ba", 2 * value_heads)?;
                ba_rows(&shape.geometry).map(|rows| fused.rows_of(rows))
            }
        };
        Ok([qkv, gate, beta, alpha])
    }
}

/// Rows of `in_proj_qkvz` that make qkv and the gate: per key head it has q, k, its value heads, their gates.
fn qkvz_rows(geometry: &DeltaGeometry) -> [Vec<u32>; 2] {
    let DeltaGeometry { key_heads, value_heads, key_dim, value_dim } = *geometry;
    let values = value_heads / key_heads * value_dim;
    let group = 2 * (key_dim + values);
    let rows = |offset: usize, width: usize| {
        let head = move |head: usize| head * group + offset..head * group + offset + width;
        (0..key_heads).flat_map(head).map(|row| row as u32)
    };
    let qkv = rows(0, key_dim).chain(rows(key_dim, key_dim)).chain(rows(2 * key_dim, values));
    [qkv.collect(), rows(2 * key_dim + values, values).collect()]
}

/// Rows of `in_proj_ba` that make beta and alpha: per key head it has those of its value heads.
fn ba_rows(geometry: &DeltaGeometry) -> [Vec<u32>; 2] {
    let per_key = geometry.value_heads / geometry.key_heads;
    let rows = |offset: usize| {
        let head = move |head: usize| (0..per_key).map(move |i| (head * 2 * per_key + offset + i) as u32);
        (0..geometry.key_heads).flat_map(head).collect()
    };
    [rows(0), rows(per_key)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fused_projections_are_taken_apart() {
        let geometry = DeltaGeometry { key_heads: 2, value_heads: 4, key_dim: 1, value_dim: 1 };
        // Per key head: q, k, v, v, z, z.
        let [qkv, gate] = qkvz_rows(&geometry);
        assert_eq!(qkv, [0, 6, 1, 7, 2, 3, 8, 9]);
        assert_eq!(gate, [4, 5, 10, 11]);
        assert_eq!(ba_rows(&geometry), [vec![0, 1, 4, 5], vec![2, 3, 6, 7]]);
    }
}
