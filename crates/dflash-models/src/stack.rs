use dflash_tensor::PartData;

use crate::checkpoint::{Checkpoint, Matrix};
use crate::{Element, ModelError};

impl Checkpoint {
    pub fn has_module(&self, module: &str) -> bool {
        self.contains(module) || self.contains(&format!("{module}.weight"))
    }

    pub fn stack(
        &self,
        module: &str,
        [count, rows, cols]: [usize; 3],
        separate: impl Fn(usize) -> String,
    ) -> Result<Vec<Matrix<'_>>, ModelError> {
        let weight = format!("{module}.weight");
        let name = if !self.contains(&weight) && self.contains(module) { module.to_owned() } else { weight };
        if !self.contains(&name) {
            return (0..count).map(|index| self.matrix(&separate(index), rows, cols)).collect();
        }
        let view = self.take(&name, &[count, rows, cols])?;
        let Element::Plain(format) = view.element else {
            return Err(self.wrong_element(&view, "a float or block format"));
        };
        let bytes = view.bytes.chunks_exact(rows * format.row_bytes(cols));
        Ok(bytes.map(|bytes| Matrix { format, rows, cols, data: PartData::Plain(bytes) }).collect())
    }
}

impl<'a> Matrix<'a> {
    pub fn rows(&self, range: std::ops::Range<usize>) -> Matrix<'a> {
        let PartData::Plain(bytes) = self.data else { panic!() };
        let width = self.format.row_bytes(self.cols);
        let bytes = &bytes[range.start * width..range.end * width];
        Matrix { format: self.format, rows: range.len(), cols: self.cols, data: PartData::Plain(bytes) }
    }
}
