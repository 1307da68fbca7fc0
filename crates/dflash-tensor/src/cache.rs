use crate::{Accepted, Backend, KvCache, RecurrentStore};

/// State of one layer for one sequence.
pub enum LayerCache {
    /// Keys and values.
    Kv(KvCache),
    /// A state of fixed size.
    Recurrent(Box<dyn RecurrentStore>),
}

impl Clone for LayerCache {
    fn clone(&self) -> Self {
        match self {
            Self::Kv(cache) => Self::Kv(cache.clone()),
            Self::Recurrent(store) => Self::Recurrent(store.copy()),
        }
    }
}

impl LayerCache {
    /// The keys and values of an attention layer.
    ///
    /// # Panics
    /// When it is a recurrent one.
    pub fn kv(&self) -> &KvCache {
        let Self::Kv(cache) = self else { panic!("a layer with keys and values") };
        cache
    }

    /// The keys and values of an attention layer, for writing.
    ///
    /// # Panics
    /// When it is a recurrent one.
    pub fn kv_mut(&mut self) -> &mut KvCache {
        let Self::Kv(cache) = self else { panic!("a layer with keys and values") };
        cache
    }

    /// The state of a recurrent layer.
    ///
    /// # Panics
    /// When it is an attention layer.
    pub fn recurrent(&self) -> &dyn RecurrentStore {
        let Self::Recurrent(store) = self else { panic!("a recurrent layer") };
        store.as_ref()
    }

    /// The state of a recurrent layer, for writing.
    ///
    /// # Panics
    /// When it is an attention layer.
    pub fn recurrent_mut(&mut self) -> &mut dyn RecurrentStore {
        let Self::Recurrent(store) = self else { panic!("a recurrent layer") };
        store.as_mut()
    }

    /// Bytes that every further position takes: K/V in halves, nothing in a state of fixed size.
    pub fn bytes_per_position(&self) -> usize {
        match self {
            Self::Kv(cache) => 2 * 2 * cache.geometry().heads * cache.geometry().dim,
            Self::Recurrent(_) => 0,
        }
    }

    fn begin(&mut self, taped: bool) {
        if let Self::Recurrent(store) = self {
            store.begin(taped);
        }
    }

    /// Commits rows of a pass that began at position `start` and ends at `end`.
    fn accept(&mut self, start: usize, end: usize, rows: Accepted<'_>) {
        match (self, rows) {
            (Self::Recurrent(store), rows) => store.accept(rows),
            (Self::Kv(cache), Accepted::Path(path)) => {
                cache.accept_tree(start, path);
                cache.drop_hidden(end);
            }
            (Self::Kv(cache), Accepted::Chain(_)) => cache.drop_hidden(end),
        }
    }

    /// A copy of the first `len` of `of` committed positions.
    fn prefix(&self, len: usize, of: usize) -> Option<Self> {
        match self {
            Self::Kv(cache) => cache.reaches(len).then(|| Self::Kv(cache.prefix(len))),
            Self::Recurrent(store) => (len == of).then(|| Self::Recurrent(store.copy())),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Kv(cache) => cache.bytes(),
            Self::Recurrent(store) => store.bytes(),
        }
    }
}

/// State of one sequence in one model: what its committed tokens left behind in every layer.
///
/// Invariant: rows beyond [`SeqCache::len`] may hold rejected leftovers, but are never read as committed;
/// only accepting moves the length.
pub struct SeqCache {
    len: usize,
    pending: Option<usize>,
    layers: Vec<LayerCache>,
}

impl SeqCache {
    /// Of a sequence without tokens.
    pub fn new(layers: Vec<LayerCache>) -> Self {
        Self { len: 0, pending: None, layers }
    }

    /// Committed positions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Layer `index`.
    pub fn layer(&self, index: usize) -> &LayerCache {
        &self.layers[index]
    }

    /// Layer `index`, for a backend's operations.
    pub fn layer_mut(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Bytes held, shared blocks counted in full.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(LayerCache::bytes).sum()
    }

    /// Announces a forward pass of `rows` rows that accepting will settle, any part of them.
    ///
    /// # Panics
    /// When an earlier pass is not settled.
    pub fn begin_verify(&mut self, rows: usize) {
        self.begin(rows, rows > 1);
    }

    /// Announces a forward pass of `rows` rows that will be accepted whole or not at all, so that nothing is
    /// recorded to go back to.
    ///
    /// # Panics
    /// When an earlier pass is not settled.
    pub fn begin_prefill(&mut self, rows: usize) {
        self.begin(rows, false);
    }

    fn begin(&mut self, rows: usize, taped: bool) {
        assert!(self.pending.is_none(), "a pass is settled before the next one begins");
        self.pending = Some(rows);
        self.layers.iter_mut().for_each(|layer| layer.begin(taped));
    }

    /// Commits the first `rows` rows of the pass, a chain, and forgets the others.
    ///
    /// # Panics
    /// Without [`SeqCache::begin_verify`], or with more rows than the pass had.
    pub fn accept_chain(&mut self, rows: usize) {
        let pending = self.settle();
        assert!(rows <= pending, "{rows} of {pending} rows accepted");
        self.commit(rows, Accepted::Chain(rows));
    }

    /// Commits the rows on `path` of a tree (row numbers of the span, root first) and forgets the others.
    ///
    /// # Panics
    /// Without [`SeqCache::begin_verify`], or with a path that does not follow `parents`.
    pub fn accept_path(&mut self, parents: &[Option<usize>], path: &[usize]) {
        assert_eq!(self.settle(), parents.len(), "the pass had these rows");
        let mut last = None;
        for &row in path {
            assert_eq!(parents[row], last, "a path follows its parents");
            last = Some(row);
        }
        self.commit(path.len(), Accepted::Path(path));
    }

    fn settle(&mut self) -> usize {
        self.pending.take().expect("accept settles a pass that was begun")
    }

    fn commit(&mut self, count: usize, rows: Accepted<'_>) {
        let start = self.len;
        self.len += count;
        let end = self.len;
        self.layers.iter_mut().for_each(|layer| layer.accept(start, end, rows));
    }

    /// A copy of the committed state that shares all blocks.
    ///
    /// # Panics
    /// Between [`SeqCache::begin_verify`] and accepting.
    pub fn snapshot(&self) -> Self {
        assert!(self.pending.is_none(), "a snapshot is taken between passes");
        Self { len: self.len, pending: None, layers: self.layers.clone() }
    }

    /// Whether [`SeqCache::prefix`] can go back to any length: nothing but attention, without windows.
    pub fn is_divisible(&self) -> bool {
        let divisible = |layer: &LayerCache| matches!(layer, LayerCache::Kv(cache) if cache.keeps_all());
        self.layers.iter().all(divisible)
    }

    /// Whether [`SeqCache::prefix`] can go back to `len` positions.
    pub fn reaches(&self, len: usize) -> bool {
        let reaches = |layer: &LayerCache| match layer {
            LayerCache::Kv(cache) => cache.reaches(len),
            LayerCache::Recurrent(_) => len == self.len,
        };
        len <= self.len && self.layers.iter().all(reaches)
    }

    /// A copy of the committed state as it was after the first `len` positions, sharing all blocks: nothing but what a row
    /// behind them sees. `None` where it cannot be had: a recurrent layer knows its last state only, one with a window
    /// the last positions.
    ///
    /// # Panics
    /// Between [`SeqCache::begin_verify`] and accepting.
    pub fn prefix(&self, len: usize) -> Option<Self> {
        assert!(self.pending.is_none(), "a copy is taken between passes");
        let layers = self.layers.iter().map(|layer| layer.prefix(len, self.len));
        let layers = (len <= self.len).then(|| layers.collect::<Option<Vec<_>>>()).flatten()?;
        Some(Self { len, pending: None, layers })
    }

    /// Bytes that [`SeqCache::save_layer`] gives, and how many blocks.
    pub fn layer_size(&self, index: usize) -> (usize, usize) {
        let layer = &self.layers[index];
        let blocks = if let LayerCache::Kv(cache) = layer { cache.held() } else { 0 };
        (blocks, layer.bytes())
    }

    /// What a layer holds, as numbers of blocks and bytes; a recurrent one has no blocks.
    pub fn save_layer(&self, index: usize) -> (Vec<u32>, Vec<u8>) {
        match &self.layers[index] {
            LayerCache::Kv(cache) => cache.save(),
            LayerCache::Recurrent(store) => {
                let mut bytes = Vec::new();
                store.save(&mut bytes);
                (Vec::new(), bytes)
            }
        }
    }

    /// A state of `len` positions of the same model and backend, from what [`SeqCache::save_layer`] gave for each layer;
    /// `None` where that does not fit. `self` is any of the model's.
    pub fn loaded<'a>(
        &self,
        len: usize,
        layers: impl Iterator<Item = (Vec<u32>, &'a [u8])>,
        backend: &dyn Backend,
    ) -> Option<Self> {
        let one = |(layer, (numbers, bytes)): (&LayerCache, (Vec<u32>, &[u8]))| match layer {
            LayerCache::Kv(cache) => {
                cache.loaded(len, &numbers, bytes, &|geometry| backend.kv_block(geometry)).map(LayerCache::Kv)
            }
            LayerCache::Recurrent(store) => {
                let mut store = store.copy();
                store.load(bytes).then_some(LayerCache::Recurrent(store))
            }
        };
        let layers = self.layers.iter().zip(layers).map(one).collect::<Option<Vec<_>>>()?;
        (layers.len() == self.layers.len()).then_some(Self { len, pending: None, layers })
    }

    /// Tells address and bytes of everything held; what copies share has the same address in all of them.
    pub fn parts(&self, tell: &mut dyn FnMut(usize, usize)) {
        for layer in &self.layers {
            match layer {
                LayerCache::Kv(cache) => cache.parts(tell),
                LayerCache::Recurrent(store) => {
                    tell(std::ptr::from_ref(store.as_ref()).addr(), store.bytes());
                }
            }
        }
    }

    /// Goes back to a snapshot of the same model.
    pub fn restore(&mut self, snapshot: &Self) {
        assert_eq!(self.layers.len(), snapshot.layers.len(), "a snapshot of the same model");
        *self = snapshot.snapshot();
    }
}
