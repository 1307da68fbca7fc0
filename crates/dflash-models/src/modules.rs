use dflash_tensor::{Format, PartData};

use crate::checkpoint::{Checkpoint, View};
use crate::matrix::Matrix;
use crate::quantization::Plan;
use crate::{Element, ModelError};

impl Checkpoint {
    /// Takes the matrix `[rows, cols]` of a module, quantised when the file holds `<module>.scales`.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that no backend packs.
    pub fn matrix(&self, module: &str, rows: usize, cols: usize) -> Result<Matrix<'_>, ModelError> {
        self.block(module, &[rows], cols)
    }

    /// Whether the file holds a module, under its bare name too, as fused experts are.
    pub fn has_module(&self, module: &str) -> bool {
        self.contains(&self.weight_name(module))
    }

    /// Takes `count` matrices `[rows, cols]` that stand in one tensor `[count, rows, cols]` of a module,
    /// plain or quantised as a single matrix would be. Without that module the matrices are modules of
    /// their own, which `separate` names.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that no backend packs.
    pub fn stack(
        &self,
        module: &str,
        [count, rows, cols]: [usize; 3],
        separate: impl Fn(usize) -> String,
    ) -> Result<Vec<Matrix<'_>>, ModelError> {
        if !self.contains(&self.weight_name(module)) {
            return (0..count).map(|index| self.matrix(&separate(index), rows, cols)).collect();
        }
        let all = self.block(module, &[count, rows], cols)?;
        Ok((0..count).map(|index| all.rows(index * rows..(index + 1) * rows)).collect())
    }

    /// A tensor `[outer.., cols]` as one matrix of all its rows.
    fn block(&self, module: &str, outer: &[usize], cols: usize) -> Result<Matrix<'_>, ModelError> {
        if self.contains(&format!("{module}.scales")) {
            return self.affine(module, outer, cols);
        }
        let name = self.weight_name(module);
        // A matrix of one row may stand in its file as a vector.
        let vector = outer == [1] && self.shape(&name) == Some(&[cols]);
        let view = self.take(&name, &with(if vector { &[] } else { outer }, cols))?;
        let Element::Plain(format) = view.element else {
            return Err(self.wrong_element(&view, "a float or block format"));
        };
        Ok(Matrix { format, rows: outer.iter().product(), cols, data: PartData::Plain(view.bytes) })
    }

    /// `<module>.weight`, or the bare name where the file has only that, as fused experts do.
    fn weight_name(&self, module: &str) -> String {
        let weight = format!("{module}.weight");
        if !self.contains(&weight) && self.contains(module) { module.to_owned() } else { weight }
    }

    fn affine(&self, module: &str, outer: &[usize], cols: usize) -> Result<Matrix<'_>, ModelError> {
        let Plan { bits, group } = self.plan(module, cols)?;
        let take = |tail: &str, cols: usize| self.take(&format!("{module}.{tail}"), &with(outer, cols));
        let groups = cols / group as usize;
        let elements = take("weight", cols * bits as usize / 32)?;
        let (scales, biases) = (take("scales", groups)?, take("biases", groups)?);
        let scale = self.affine_elements([&elements, &scales, &biases])?;
        let format = Format::Affine { bits, group, scale };
        let (elements, scales, biases) = (elements.bytes, scales.bytes, biases.bytes);
        let data = PartData::Affine { elements, scales, biases };
        Ok(Matrix { format, rows: outer.iter().product(), cols, data })
    }

    fn affine_elements(
        &self,
        [elements, scales, biases]: [&View<'_>; 3],
    ) -> Result<dflash_tensor::AffineScale, ModelError> {
        if elements.element != Element::U32 {
            return Err(self.wrong_element(elements, "U32"));
        }
        if biases.element != scales.element {
            return Err(self.wrong_element(biases, "the type of its scales"));
        }
        scales.element.scale().ok_or_else(|| self.wrong_element(scales, "F32, F16 or BF16"))
    }

    fn plan(&self, module: &str, cols: usize) -> Result<Plan, ModelError> {
        let error = |what: String| {
            let (path, module) = (self.path().to_owned(), module.into());
            ModelError::Quantization { path, module, what }
        };
        let none = || error("the file holds scales, but config.json has no `quantization` section".into());
        let plan = self.quantization().ok_or_else(none)?.plan(module)?;
        if !cols.is_multiple_of(plan.group as usize) {
            return Err(error(format!("{cols} inputs are not a multiple of group_size {}", plan.group)));
        }
        Ok(plan)
    }
}

fn with(outer: &[usize], cols: usize) -> Vec<usize> {
    [outer, &[cols]].concat()
}
