//! Merges of a SentencePiece vocabulary, which lists none: it scores its pieces.

use tokenizers::models::bpe::{Merges, Vocab};

/// One way to put a piece together.
struct Way<'a> {
    score: f32,
    whole: u32,
    left: (u32, &'a str),
    right: (u32, &'a str),
}

/// Every pair in `pieces` that makes up a piece, the best score first.
///
/// SentencePiece joins the neighbours whose union scores best, the leftmost of equals. A list of merges says the
/// same as long as scores differ; equal ones fall back on ids (of the whole, then of the halves), which is
/// the order in which Llama 2's `tokenizer.json` lists them.
pub(crate) fn merges_by_score(pieces: &Vocab, score: impl Fn(u32) -> f32) -> Merges {
    let mut ways: Vec<Way<'_>> =
        pieces.iter().flat_map(|(piece, &id)| ways(pieces, piece, id, score(id))).collect();
    ways.sort_by(|a, b| {
        let ids = |way: &Way<'_>| (way.whole, way.left.0, way.right.0);
        b.score.total_cmp(&a.score).then_with(|| ids(a).cmp(&ids(b)))
    });
    ways.into_iter().map(|way| (way.left.1.to_owned(), way.right.1.to_owned())).collect()
}

fn ways<'a>(pieces: &'a Vocab, piece: &'a str, whole: u32, score: f32) -> impl Iterator<Item = Way<'a>> {
    piece.char_indices().skip(1).filter_map(move |(at, _)| {
        let (left, right) = piece.split_at(at);
        let known = |half: &'a str| pieces.get(half).map(|&id| (id, half));
        Some(Way { score, whole, left: known(left)?, right: known(right)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_score_comes_first_and_ids_break_ties() {
        let scored =
            [("a", 0.0), ("b", 0.0), ("é", 0.0), ("ab", -2.0), ("bé", -1.0), ("abé", -3.0), ("ba", -1.0)];
        let pieces: Vocab = (0..).zip(scored).map(|(id, (piece, _))| (piece.to_owned(), id)).collect();
        let merges = merges_by_score(&pieces, |id| scored[id as usize].1);
        let merges: Vec<_> = merges.iter().map(|(left, right)| (left.as_str(), right.as_str())).collect();
        assert_eq!(merges, [("b", "é"), ("b", "a"), ("a", "b"), ("a", "bé"), ("ab", "é")]);
    }
}
