//! Which keys a row sees, by absolute position.

use std::ops::Range;

use dflash_tensor::{BLOCK_POSITIONS, Mask, Span};

/// The visible positions of a row: two ranges, the first before the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visible {
    /// What is left of the kept leading positions; empty without a mask that keeps.
    pub(crate) sink: Range<usize>,
    /// All other visible positions.
    pub(crate) near: Range<usize>,
}

impl Visible {
    /// Of the row of `span` at absolute position `position`.
    pub(crate) fn new(mask: &Mask, span: &Span, position: usize) -> Self {
        let window = mask.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let end = if mask.causal { position + 1 } else { span.start + span.rows };
        let Some(keep) = mask.keep else {
            return Self { sink: 0..0, near: window..end };
        };
        let tail = span.start.saturating_sub(keep.tail);
        Self { sink: window..keep.sink.min(tail).max(window), near: window.max(tail)..end }
    }

    /// Nothing.
    pub(crate) fn none() -> Self {
        Self { sink: 0..0, near: 0..0 }
    }

    /// The smallest pair of ranges around both.
    pub(crate) fn hull(&self, other: &Self) -> Self {
        Self { sink: around(&self.sink, &other.sink), near: around(&self.near, &other.near) }
    }

    /// What of it lies in `positions`.
    pub(crate) fn within(&self, positions: &Range<usize>) -> Self {
        let clip = |range: &Range<usize>| {
            let start = range.start.max(positions.start);
            start..range.end.min(positions.end).max(start)
        };
        Self { sink: clip(&self.sink), near: clip(&self.near) }
    }

    /// Visible positions.
    pub(crate) fn len(&self) -> usize {
        self.sink.len() + self.near.len()
    }

    /// The visible positions of block `block`, one bit each.
    pub(crate) fn mask(&self, block: usize) -> u64 {
        bits(&self.sink, block) | bits(&self.near, block)
    }

    /// The blocks that hold visible positions, in order (and none of the gap between the ranges).
    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> + use<> {
        let sink = blocks(&self.sink);
        let near = blocks(&self.near);
        let near = near.start.max(sink.end)..near.end;
        sink.chain(near)
    }
}

fn around(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

fn blocks(range: &Range<usize>) -> Range<usize> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BLOCK_POSITIONS..range.end.div_ceil(BLOCK_POSITIONS)
}

fn bits(range: &Range<usize>, block: usize) -> u64 {
    let first = block * BLOCK_POSITIONS;
    let below = |end: usize| match end.saturating_sub(first) {
        count @ 0..BLOCK_POSITIONS => (1_u64 << count) - 1,
        _ => u64::MAX,
    };
    below(range.end.max(range.start)) & !below(range.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dflash_tensor::{Keep, Shape};

    /// The rule of the seam, one key at a time.
    fn rule(mask: &Mask, span: &Span, q: usize, k: usize) -> bool {
        let committed = k < span.start;
        let own = !committed && k < span.start + span.rows && (!mask.causal || k <= q);
        let kept = mask.keep.is_none_or(|keep| k < keep.sink || k + keep.tail >= span.start);
        let inside = mask.window.is_none_or(|window| k > q || q - k < window);
        inside && (own || committed && kept)
    }

    #[test]
    fn ranges_follow_the_rule() {
        let keeps = [None, Some((0, 16)), Some((4, 64)), Some((70, 3)), Some((300, 0)), Some((0, 0))];
        let keeps = keeps.map(|keep| keep.map(|(sink, tail)| Keep { sink, tail }));
        for (start, rows) in [(0, 1), (0, 70), (63, 2), (130, 16), (200, 90)] {
            let span = Span { first_row: 0, rows, start, shape: Shape::Chain };
            for (keep, window, causal) in keeps.iter().flat_map(|&keep| {
                [None, Some(1), Some(16), Some(100)].into_iter().map(move |w| (keep, w, w != Some(100)))
            }) {
                let mask = Mask { causal, window, keep };
                for row in 0..rows {
                    let visible = Visible::new(&mask, &span, start + row);
                    let blocks: Vec<usize> = visible.blocks().collect();
                    assert!(blocks.is_sorted_by(|a, b| a < b));
                    let mut seen = 0;
                    for k in 0..start + rows + 64 {
                        let bit = visible.mask(k / 64) >> (k % 64) & 1 == 1;
                        assert_eq!(bit, rule(&mask, &span, start + row, k), "{mask:?} {span:?} {row} {k}");
                        assert!(!bit || blocks.contains(&(k / 64)));
                        seen += usize::from(bit);
                    }
                    assert_eq!(seen, visible.len());
                }
            }
        }
    }

    #[test]
    fn the_hull_covers_both() {
        let a = Visible { sink: 0..4, near: 100..200 };
        let b = Visible { sink: 0..0, near: 190..260 };
        assert_eq!(a.hull(&b), Visible { sink: 0..4, near: 100..260 });
        assert_eq!(Visible::none().hull(&a), a);
    }
}
