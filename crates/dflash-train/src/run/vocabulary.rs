use std::collections::HashMap;

use crate::Sequence;

/// The `size` ids that answers hold most often, ascending; fewer where the answers hold fewer. `None` for all ids of the
/// target, where a size of 0 asks for them.
pub(super) fn vocabulary(sequences: &[Sequence], size: usize) -> Option<Vec<u32>> {
    if size == 0 {
        return None;
    }
    let mut counts: HashMap<u32, usize> = HashMap::new();
    sequences.iter().flat_map(Sequence::answer).for_each(|&id| *counts.entry(id).or_default() += 1);
    let mut ids: Vec<_> = counts.into_iter().collect();
    // The lower id first among those that are as frequent: the order of the map is chance.
    ids.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
    let mut ids: Vec<u32> = ids.into_iter().take(size).map(|(id, _)| id).collect();
    ids.sort_unstable();
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::vocabulary;
    use crate::Sequence;

    #[test]
    fn the_most_frequent_ids_of_answers() {
        let sequence =
            |ids: &[u32]| Sequence { source: 0, category: String::new(), ids: ids.to_vec(), prompt: 2 };
        let sequences = [sequence(&[9, 9, 7, 3, 7, 5]), sequence(&[9, 9, 5, 4])];
        assert_eq!(vocabulary(&sequences, 2), Some(vec![5, 7]));
        assert_eq!(vocabulary(&sequences, 3), Some(vec![3, 5, 7]));
        assert_eq!(vocabulary(&sequences, 100), Some(vec![3, 4, 5, 7]));
        assert_eq!(vocabulary(&sequences, 0), None);
    }
}
