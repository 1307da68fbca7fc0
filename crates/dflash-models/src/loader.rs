use std::sync::Arc;

use dflash_tensor::{Backend, Part, Tensor, Weight};

use crate::ModelError;
use crate::affine::{AffineMatrix, DraftQuant};
use crate::checkpoint::{Checkpoint, Matrix};
use crate::quantizer::Quantizer;

/// What every load needs and gathers: the backend, progress and notes.
pub(crate) struct LoadContext<'a> {
    /// Packs the weights.
    pub(crate) backend: Arc<dyn Backend>,
    /// Called with (bytes of the file done, all bytes of the file).
    pub(crate) progress: &'a mut dyn FnMut(u64, u64),
    /// What a user may want to know, such as tensors that were skipped.
    pub(crate) notes: Vec<String>,
    /// Bytes of the packed weights.
    pub(crate) packed: u64,
}

/// Packs the tensors of a checkpoint one after the other and lets go of their mapped pages.
pub(crate) struct Loader<'a, 'b> {
    checkpoint: &'a Checkpoint,
    context: &'a mut LoadContext<'b>,
    quantizer: Option<Quantizer>,
    done: u64,
}

/// Whether linear layers have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BiasRule {
    /// None has.
    Never,
    /// All have; a missing one is an error.
    Always,
    /// Those have whose bias is in the file.
    IfPresent,
}

/// How a file stores the gain of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormRule {
    /// As it is.
    Plain,
    /// Less one; the sum is taken in f32.
    ZeroCentred,
}

/// One matrix of a weight to be packed.
pub(crate) struct Wanted {
    /// Module path.
    pub(crate) module: String,
    /// Output features in the file.
    pub(crate) rows: usize,
    /// Input features.
    pub(crate) cols: usize,
    /// Bias per output feature, in output order.
    pub(crate) bias: Option<Vec<f32>>,
    /// Order of the rows of the file, see [`Part::order`].
    pub(crate) order: Option<Vec<u32>>,
}

impl Wanted {
    /// A matrix in file order without bias.
    pub(crate) fn new(module: impl Into<String>, rows: usize, cols: usize) -> Self {
        Self { module: module.into(), rows, cols, bias: None, order: None }
    }

    /// The outputs `order` of a matrix in file order, in that order.
    pub(crate) fn rows_of(&self, order: Vec<u32>) -> Self {
        let pick = |bias: &Vec<f32>| order.iter().map(|&row| bias[row as usize]).collect();
        let bias = self.bias.as_ref().map(pick);
        Self { module: self.module.clone(), rows: self.rows, cols: self.cols, bias, order: Some(order) }
    }
}

/// A matrix as it stands in the file, or quantised on the way.
enum Source<'a> {
    Mapped(Matrix<'a>),
    Quantised(AffineMatrix),
}

impl Source<'_> {
    fn part<'a>(&'a self, wanted: &'a Wanted) -> Part<'a> {
        let (bias, order) = (wanted.bias.as_deref(), wanted.order.as_deref());
        match self {
            Self::Mapped(matrix) => matrix.part(bias, order),
            Self::Quantised(matrix) => matrix.part(bias, order),
        }
    }
}

impl<'a, 'b> Loader<'a, 'b> {
    /// For a checkpoint whose float matrices are quantised by `quant` on the way.
    pub(crate) fn new(
        checkpoint: &'a Checkpoint,
        context: &'a mut LoadContext<'b>,
        quant: Option<DraftQuant>,
    ) -> Self {
        Self { checkpoint, context, quantizer: quant.map(Quantizer::new), done: 0 }
    }

    /// The checkpoint.
    pub(crate) fn checkpoint(&self) -> &'a Checkpoint {
        self.checkpoint
    }

    /// The backend.
    pub(crate) fn backend(&self) -> &dyn Backend {
        self.context.backend.as_ref()
    }

    /// Adds a note for the user.
    pub(crate) fn note(&mut self, note: String) {
        self.context.notes.push(note);
    }

    /// A matrix of the file with the bias that `rule` gives it. Its shape is checked here, so that an order of
    /// its rows is made only for rows that are there.
    pub(crate) fn wanted(
        &mut self,
        module: String,
        rows: usize,
        cols: usize,
        rule: BiasRule,
    ) -> Result<Wanted, ModelError> {
        self.checkpoint.matrix(&module, rows, cols)?;
        let bias = self.bias(&module, rows, rule)?;
        Ok(Wanted { bias, ..Wanted::new(module, rows, cols) })
    }

    /// The bias of a module, if `rule` gives it one.
    pub(crate) fn bias(
        &mut self,
        module: &str,
        len: usize,
        rule: BiasRule,
    ) -> Result<Option<Vec<f32>>, ModelError> {
        let name = format!("{module}.bias");
        let has = match rule {
            BiasRule::Never => false,
            BiasRule::Always => true,
            BiasRule::IfPresent => self.checkpoint.contains(&name),
        };
        has.then(|| self.floats(&name, len)).transpose()
    }

    /// Packs the matrices that share an input into one weight.
    pub(crate) fn weight(&mut self, wanted: &[Wanted]) -> Result<Weight, ModelError> {
        let sources = wanted.iter().map(|wanted| self.source(wanted)).collect::<Result<Vec<_>, _>>()?;
        self.pack(&sources, wanted)
    }

    /// Packs an embedding or head, which is never quantised on the way.
    pub(crate) fn table(
        &mut self,
        module: &str,
        rows: usize,
        cols: usize,
    ) -> Result<Arc<Weight>, ModelError> {
        let source = Source::Mapped(self.checkpoint.matrix(module, rows, cols)?);
        self.pack(&[source], &[Wanted::new(module, rows, cols)]).map(Arc::new)
    }

    fn pack(&mut self, sources: &[Source<'_>], wanted: &[Wanted]) -> Result<Weight, ModelError> {
        let parts =
            sources.iter().zip(wanted).map(|(source, wanted)| source.part(wanted)).collect::<Vec<_>>();
        let weight = self.context.backend.pack(&parts).map_err(|source| {
            let names = wanted.iter().map(|wanted| wanted.module.as_str()).collect::<Vec<_>>();
            let path = self.checkpoint.path().to_owned();
            ModelError::Pack { path, tensor: names.join(", "), source }
        })?;
        self.context.packed += weight.bytes() as u64;
        // A module taken apart stands here several times.
        wanted.chunk_by(|a, b| a.module == b.module).for_each(|same| self.packed(&same[0].module));
        Ok(weight)
    }

    /// Packs matrices that share an input, as they stand, into one weight; `what` names them in errors.
    pub(crate) fn pack_matrices(
        &mut self,
        what: &str,
        matrices: &[Matrix<'_>],
    ) -> Result<Weight, ModelError> {
        let parts = matrices.iter().map(|matrix| matrix.part(None, None)).collect::<Vec<_>>();
        let weight = self.context.backend.pack(&parts).map_err(|source| {
            let path = self.checkpoint.path().to_owned();
            ModelError::Pack { path, tensor: what.to_owned(), source }
        })?;
        self.context.packed += weight.bytes() as u64;
        let done = matrices.iter().map(|matrix| self.checkpoint.release_matrix(matrix)).sum();
        self.advance(done);
        Ok(weight)
    }

    fn packed(&mut self, module: &str) {
        self.checkpoint.release(module);
        self.advance(self.checkpoint.module_bytes(module));
    }

    fn advance(&mut self, bytes: u64) {
        let total = self.checkpoint.bytes();
        self.done = total.min(self.done + bytes);
        (self.context.progress)(self.done, total);
    }

    fn source(&mut self, wanted: &Wanted) -> Result<Source<'a>, ModelError> {
        let matrix = self.checkpoint.matrix(&wanted.module, wanted.rows, wanted.cols)?;
        let quantised = self.quantizer.as_mut().and_then(|quantizer| quantizer.quantize(&matrix));
        Ok(quantised.map_or(Source::Mapped(matrix), Source::Quantised))
    }

    /// A float vector, such as a bias.
    pub(crate) fn floats(&mut self, name: &str, len: usize) -> Result<Vec<f32>, ModelError> {
        self.floats_of(name, &[&[len]])
    }

    /// A float tensor of one of `shapes`, the first of which an error names.
    pub(crate) fn floats_of(&mut self, name: &str, shapes: &[&[usize]]) -> Result<Vec<f32>, ModelError> {
        let found = self.checkpoint.shape(name);
        let shape = shapes.iter().find(|shape| found == Some(**shape)).unwrap_or(&shapes[0]);
        let view = self.checkpoint.take(name, shape)?;
        let values = view.element.floats(view.bytes);
        let values = values.ok_or_else(|| self.checkpoint.wrong_element(&view, "F32, F16 or BF16"))?;
        self.advance(view.bytes.len() as u64);
        Ok(values)
    }

    /// The gain of a norm as a tensor `[1, len]`.
    pub(crate) fn gain(&mut self, name: &str, len: usize, rule: NormRule) -> Result<Tensor, ModelError> {
        let mut values = self.floats(name, len)?;
        if rule == NormRule::ZeroCentred {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        Ok(self.tensor(len, &values))
    }

    /// Numbers as a tensor of rows of `cols`.
    pub(crate) fn tensor(&mut self, cols: usize, values: &[f32]) -> Tensor {
        let mut tensor = self.backend().tensor(values.len() / cols, cols);
        self.backend().write(&mut tensor, 0, values);
        self.context.packed += 4 * values.len() as u64;
        tensor
    }

    /// Checks that the checkpoint holds nothing else, notes what could not be quantised and reports all
    /// bytes as done.
    pub(crate) fn finish(mut self) -> Result<(), ModelError> {
        self.checkpoint.finish()?;
        self.context.notes.extend_from_slice(self.checkpoint.notes());
        if let Some(quantizer) = &self.quantizer {
            self.context.notes.extend(quantizer.note(self.checkpoint.path())?);
        }
        self.advance(self.checkpoint.bytes());
        Ok(())
    }
}
