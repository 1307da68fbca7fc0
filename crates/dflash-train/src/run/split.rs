use std::collections::BTreeMap;

use crate::Sequence;
use crate::mix::mix;

/// Parts the sequences into those that are trained on and `held_out` others, as evenly among the categories as there are
/// enough. Which ones is decided by `seed`, and does not change when more data comes to the end.
pub(super) fn split(sequences: Vec<Sequence>, held_out: usize, seed: u64) -> (Vec<Sequence>, Vec<Sequence>) {
    let mut by_category: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, sequence) in sequences.iter().enumerate() {
        by_category.entry(&sequence.category).or_default().push(index);
    }
    let mut queues: Vec<_> = by_category
        .into_values()
        .map(|mut indices| {
            indices.truncate(FIRST);
            indices.sort_by_key(|&index| mix(seed, index as u64));
            indices.into_iter()
        })
        .collect();
    let mut left = held(sequences.len(), held_out);
    let mut held = vec![false; sequences.len()];
    while left > 0 {
        let before = left;
        for index in queues.iter_mut().filter_map(Iterator::next).take(left).collect::<Vec<_>>() {
            held[index] = true;
            left -= 1;
        }
        if left == before {
            break;
        }
    }
    let parts: (Vec<_>, Vec<_>) = sequences.into_iter().zip(held).partition(|(_, held)| !held);
    let plain = |part: Vec<(Sequence, bool)>| part.into_iter().map(|(sequence, _)| sequence).collect();
    (plain(parts.0), plain(parts.1))
}

/// Of so many sequences, those that are held out: at most half of them.
pub(super) fn held(sequences: usize, held_out: usize) -> usize {
    held_out.min(sequences / 2)
}

/// Of the first so many of a category some are held out.
const FIRST: usize = 200;

#[cfg(test)]
mod tests {
    use super::split;
    use crate::Sequence;

    fn sequences(count: u64) -> Vec<Sequence> {
        let sequence = |source: u64| Sequence {
            source,
            category: if source.is_multiple_of(4) { "code" } else { "chat" }.into(),
            ids: vec![1, 2],
            prompt: 1,
        };
        (0..count).map(sequence).collect()
    }

    #[test]
    fn categories_are_even_and_more_data_changes_nothing() {
        let (train, held) = split(sequences(2000), 10, 3);
        assert_eq!((train.len(), held.len()), (1990, 10));
        assert_eq!(held.iter().filter(|sequence| sequence.category == "code").count(), 5);
        assert!(held.iter().all(|sequence| !train.contains(sequence)));
        assert_eq!(split(sequences(5000), 10, 3).1, held);
        assert_ne!(split(sequences(2000), 10, 4).1, held);
    }

    #[test]
    fn few_sequences_are_shared() {
        assert_eq!(split(sequences(3), 10, 0).1.len(), 1);
        assert_eq!(split(Vec::new(), 10, 0).1.len(), 0);
    }
}
