/// How the rows of a span hang together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Row `i` continues row `i-1`.
    Chain,
    /// Row `i` continues row `parents[i]`, which is below `i`; `None` continues the committed tokens.
    Tree(Vec<Option<usize>>),
}

/// The rows of one sequence in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Row of the batch at which the span begins.
    pub first_row: usize,
    /// Rows of the span.
    pub rows: usize,
    /// Position of the first row: the committed length of the sequence's cache.
    pub start: usize,
    /// Chain or tree.
    pub shape: Shape,
}

impl Span {
    /// Absolute position of row `i` of the span: prefix plus depth.
    pub fn position(&self, i: usize) -> usize {
        match &self.shape {
            Shape::Chain => self.start + i,
            Shape::Tree(parents) => {
                let depth = std::iter::successors(parents[i], |&row| parents[row]).count();
                self.start + depth
            }
        }
    }
}

/// Rows of one or more sequences that go through a model together. Span `i` belongs to cache `i` of the
/// call. Plain data, reused from step to step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Batch {
    ids: Vec<u32>,
    spans: Vec<Span>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all spans; storage stays.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.spans.clear();
    }

    /// Appends a span of `ids` at positions `start..`.
    ///
    /// # Panics
    /// When a tree has another number of parents than ids, or a parent that does not precede its row.
    pub fn push(&mut self, ids: &[u32], start: usize, shape: Shape) {
        if let Shape::Tree(parents) = &shape {
            assert_eq!(parents.len(), ids.len(), "one parent per row");
            let ordered = parents.iter().enumerate().all(|(row, parent)| parent.is_none_or(|p| p < row));
            assert!(ordered, "a parent precedes its row");
        }
        self.spans.push(Span { first_row: self.ids.len(), rows: ids.len(), start, shape });
        self.ids.extend_from_slice(ids);
    }

    /// Token ids of all rows.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// All rows together.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// The spans in row order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
}
