use std::collections::BTreeSet;
use std::path::Path;

use dflash_tensor::{Format, PartData};

use crate::affine::{AffineMatrix, DraftQuant};
use crate::checkpoint::Matrix;
use crate::{Element, ModelError};

/// Quantises float matrices as they are loaded and counts those that the plan does not fit.
pub(crate) struct Quantizer {
    quant: DraftQuant,
    quantised: usize,
    /// Format and inputs of every float matrix that stayed as it is stored.
    kept: Vec<(Format, usize)>,
}

impl Quantizer {
    /// For one plan.
    pub(crate) fn new(quant: DraftQuant) -> Self {
        Self { quant, quantised: 0, kept: Vec::new() }
    }

    /// The matrix by the plan; `None` when it is no float matrix or its inputs are not whole groups.
    pub(crate) fn quantize(&mut self, matrix: &Matrix<'_>) -> Option<AffineMatrix> {
        let PartData::Plain(bytes) = matrix.data else { return None };
        let element = Element::Plain(matrix.format);
        let scale = element.scale()?;
        if !matrix.cols.is_multiple_of(self.quant.group as usize) {
            self.kept.push((matrix.format, matrix.cols));
            return None;
        }
        self.quantised += 1;
        let values = element.floats(bytes)?;
        Some(AffineMatrix::quantize(&values, matrix.cols, self.quant, scale))
    }

    /// A note on the matrices that stayed as they are.
    ///
    /// # Errors
    /// [`ModelError::Quantization`] when the plan fits no float matrix at all.
    pub(crate) fn note(&self, path: &Path) -> Result<Option<String>, ModelError> {
        if self.kept.is_empty() {
            return Ok(None);
        }
        if self.quantised == 0 {
            let what = self.nothing_fits();
            return Err(ModelError::Quantization { path: path.to_owned(), module: "draft".into(), what });
        }
        let (kept, all) = (self.kept.len(), self.kept.len() + self.quantised);
        let formats = self.kept.iter().map(|(format, _)| format.to_string()).collect::<BTreeSet<_>>();
        let formats = formats.into_iter().collect::<Vec<_>>().join(", ");
        let group = self.quant.group;
        Ok(Some(format!("{kept} of {all} matrices are not a multiple of {group} wide and stay in {formats}")))
    }

    fn nothing_fits(&self) -> String {
        let fits = |group: usize| self.kept.iter().any(|(_, cols)| cols.is_multiple_of(group));
        let smaller = [64, 32].into_iter().filter(|&group| group < self.quant.group.into() && fits(group));
        let hint = match smaller.map(|group| format!("gs{group}")).collect::<Vec<_>>().join(" or ") {
            none if none.is_empty() => "leave the draft as it is stored".into(),
            groups => format!("take {groups}"),
        };
        format!("none of its {} matrices is a multiple of {} wide; {hint}", self.kept.len(), self.quant.group)
    }
}
