use super::random::Random;

/// The first `limit` of `items`, after shuffling them where there is a seed.
pub(super) fn select<T>(mut items: Vec<T>, limit: Option<usize>, seed: Option<u64>) -> Vec<T> {
    if let Some(seed) = seed {
        shuffle(&mut items, &mut Random::new(seed));
    }
    items.truncate(limit.unwrap_or(usize::MAX));
    items
}

/// Fisher and Yates' shuffle.
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_stays_and_the_order_is_fixed() {
        let shuffled = select((0..10).collect(), None, Some(0));
        assert_eq!(shuffled, [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        let mut sorted = shuffled.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        assert_eq!(select((0..10).collect(), Some(3), Some(0)), shuffled[..3]);
    }

    #[test]
    fn without_a_seed_the_first_are_taken() {
        assert_eq!(select(vec![4, 5, 6], Some(2), None), [4, 5]);
        assert_eq!(select(vec![4, 5, 6], Some(9), None), [4, 5, 6]);
        assert!(select(Vec::<u8>::new(), None, Some(1)).is_empty());
    }
}
