use std::ops::Range;

use dflash_tensor::{Shape, Span};

use super::kernel::{Columns, on};
use super::layout::Layout;
use super::store::State;
use super::tape::{Step, record};
use crate::Isa;
use crate::disjoint::Disjoint;

/// A span of a call with the state that it continues.
pub(crate) struct Job<'a> {
    pub(crate) span: &'a Span,
    layout: Layout,
    pub(crate) committed: &'a State,
    /// The state after the last row.
    pub(crate) next: Disjoint<'a, Columns>,
    tape: Option<Disjoint<'a, f32>>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        span: &'a Span,
        layout: Layout,
        committed: &'a State,
        next: &'a mut [Columns],
        tape: Option<Disjoint<'a, f32>>,
    ) -> Self {
        Self { span, layout, committed, next: Disjoint::new(next), tape }
    }

    /// The row of the span that row `row` continues.
    pub(crate) fn parent(&self, row: usize) -> Option<usize> {
        match &self.span.shape {
            Shape::Chain => row.checked_sub(1),
            Shape::Tree(parents) => parents[row],
        }
    }

    /// Whether row `row` continues something else than the row before it.
    pub(crate) fn restarts(&self, row: usize) -> bool {
        self.parent(row) != row.checked_sub(1)
    }

    /// The convolution of row `row` in columns `columns`; `raw` are the raw rows of the batch. The newest row
    /// comes first.
    pub(crate) fn convolve(
        &self,
        isa: Isa,
        filter: &[f32],
        raw: &[f32],
        row: usize,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        let channels = self.layout.channels();
        let own = &raw[self.span.first_row * channels..];
        let path = std::iter::successors(Some(row), |&row| self.parent(row));
        let path = path.map(|row| &own[row * channels..][..channels]);
        let window = path.chain(self.committed.tail.chunks_exact(channels).rev());
        out.fill(0.0);
        for (filter, x) in filter.chunks_exact(channels).rev().zip(window) {
            on!(isa, add_product(&filter[columns.clone()], &x[columns.clone()], out));
        }
    }

    /// Writes the step of row `row` to the tape, if there is one.
    ///
    /// # Safety
    /// A row is recorded by one thread.
    pub(crate) unsafe fn record(&self, row: usize, step: &Step<'_>) {
        if let Some(tape) = &self.tape {
            let width = self.layout.tape().iter().sum::<usize>();
            // SAFETY: rows do not overlap, and each is one thread's.
            record(step, unsafe { tape.piece(row * width..(row + 1) * width) });
        }
    }
}

/// The jobs of a call. The first one stands alone: a call for one sequence allocates nothing.
pub(crate) struct Jobs<'a> {
    first: Option<Job<'a>>,
    others: Vec<Job<'a>>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn new(mut jobs: impl Iterator<Item = Job<'a>>) -> Self {
        Self { first: jobs.next(), others: jobs.collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Job<'a>> {
        self.first.iter().chain(&self.others)
    }

    /// Job `index`.
    pub(crate) fn at(&self, index: usize) -> &Job<'a> {
        self.iter().nth(index).expect("a job of the call")
    }

    /// The job of row `row` of the batch, and its row there.
    pub(crate) fn find(&self, row: usize) -> (&Job<'a>, usize) {
        let job = self.iter().rfind(|job| job.span.first_row <= row).expect("every row is in a span");
        (job, row - job.span.first_row)
    }
}
