use std::cmp::Ordering;

use super::SamplingParams;
use super::scale::Scale;

/// A gap beyond which ids have no mass.
const FAR: f32 = 90.0;

/// The ids that `top_k`, `top_p` and `min_p` leave, the best first, into `kept`; false where nothing filters.
pub(super) fn filter(params: &SamplingParams, row: &[f32], scale: &Scale, kept: &mut Vec<u32>) -> bool {
    let (by_k, by_p) = ((1..row.len()).contains(&params.top_k), params.top_p < 1.0);
    match (by_k, by_p) {
        (true, _) => {
            best(row, params.top_k, kept);
            if by_p {
                let total = kept.iter().map(|&id| f64::from(scale.mass(row[id as usize]))).sum::<f64>();
                cut(row, scale, params.top_p * total, kept);
            }
        }
        (false, true) => nucleus(row, scale, params.top_p, kept),
        (false, false) if params.min_p > 0.0 => within(row, scale, reach(params.min_p), kept),
        (false, false) => return false,
    }
    if params.min_p > 0.0 {
        kept.retain(|&id| f64::from(scale.mass(row[id as usize])) >= params.min_p);
    }
    true
}

/// Higher logits first, then lower ids. A row that is filtered holds no NaN.
fn rank(row: &[f32], a: u32, b: u32) -> Ordering {
    row[b as usize].partial_cmp(&row[a as usize]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// The `k` best ids in order; all when there are no more.
pub(super) fn best(row: &[f32], k: usize, out: &mut Vec<u32>) {
    out.clear();
    if k == 0 {
        return;
    }
    let (room, mut bar) = ((2 * k).max(64), f32::NEG_INFINITY);
    for (id, &logit) in row.iter().enumerate() {
        // A later id loses every tie, so only one above the k-th so far comes in.
        if logit > bar || out.len() < k {
            out.push(id as u32);
        }
        if out.len() == room {
            out.select_nth_unstable_by(k - 1, |&a, &b| rank(row, a, b));
            out.truncate(k);
            bar = row[out[k - 1] as usize];
        }
    }
    out.sort_unstable_by(|&a, &b| rank(row, a, b));
    out.truncate(k);
}

/// A gap that ids with this share of the best one's mass do not have, rounding considered.
fn reach(share: f64) -> f32 {
    (0.01 - libm::log(share)) as f32
}

/// The fewest best ids with `share` of the mass of the row.
fn nucleus(row: &[f32], scale: &Scale, share: f64, out: &mut Vec<u32>) {
    let wanted = share * scale.total(row);
    let mut reach = 2.0;
    loop {
        within(row, scale, reach, out);
        out.sort_unstable_by(|&a, &b| rank(row, a, b));
        // Beyond `FAR` nothing is left to find; what is missing was lost in rounding.
        if cut(row, scale, wanted, out) || reach > FAR {
            return;
        }
        reach *= 2.0;
    }
}

/// Ids with a gap of `reach` at most, in their order.
fn within(row: &[f32], scale: &Scale, reach: f32, out: &mut Vec<u32>) {
    out.clear();
    let near = |(id, &logit): (usize, &f32)| (scale.near_gap(logit) <= reach).then_some(id as u32);
    out.extend(row.iter().enumerate().filter_map(near));
}

/// Cuts `ids` behind the one that makes their mass `wanted`; false where they have less.
fn cut(row: &[f32], scale: &Scale, wanted: f64, ids: &mut Vec<u32>) -> bool {
    let mut mass = 0.0;
    let end = ids.iter().position(|&id| {
        mass += f64::from(scale.mass(row[id as usize]));
        mass >= wanted
    });
    ids.truncate(end.map_or(ids.len(), |end| end + 1));
    end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Sampling;

    /// ln of 8, 4, 2, 2, 1, 1, 1, 1 twentieths, not in order.
    fn row() -> Vec<f32> {
        [1.0_f32, 2.0, 8.0, 1.0, 2.0, 4.0, 1.0, 1.0].map(f32::ln).to_vec()
    }

    fn kept(row: &[f32], sampling: Sampling) -> Option<Vec<u32>> {
        let params = SamplingParams::new(Sampling { temperature: 1.0, ..sampling }).unwrap();
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut kept = vec![77];
        filter(&params, row, &Scale::new(max, params.temperature), &mut kept).then_some(kept)
    }

    fn of(top_k: usize, top_p: f64, min_p: f64) -> Sampling {
        Sampling { top_k, top_p, min_p, ..Sampling::default() }
    }

    #[test]
    fn known_answers() {
        for (sampling, expected) in [
            (of(1, 1.0, 0.0), &[2][..]),
            (of(2, 1.0, 0.0), &[2, 5]),
            (of(3, 1.0, 0.0), &[2, 5, 1]),
            (of(5, 1.0, 0.0), &[2, 5, 1, 4, 0]),
            (of(0, 0.1, 0.0), &[2]),
            (of(0, 0.39, 0.0), &[2]),
            (of(0, 0.41, 0.0), &[2, 5]),
            (of(0, 0.61, 0.0), &[2, 5, 1]),
            (of(0, 0.79, 0.0), &[2, 5, 1, 4]),
            (of(0, 0.999, 0.0), &[2, 5, 1, 4, 0, 3, 6, 7]),
            // Of three ids with 8, 4 and 2 parts the first two have six sevenths.
            (of(3, 0.85, 0.0), &[2, 5]),
            (of(3, 0.87, 0.0), &[2, 5, 1]),
            (of(0, 1.0, 0.49), &[2, 5]),
            (of(0, 1.0, 0.51), &[2]),
            (of(0, 1.0, 1.0), &[2]),
            (of(4, 1.0, 0.3), &[2, 5]),
            (of(0, 0.79, 0.24), &[2, 5, 1, 4]),
        ] {
            let mut kept = kept(&row(), sampling.clone()).expect("it filters");
            if sampling.top_k == 0 && sampling.top_p == 1.0 {
                kept.sort_by(|&a, &b| rank(&row(), a, b));
            }
            assert_eq!(kept, expected, "{sampling:?}");
        }
    }

    #[test]
    fn values_that_keep_all_filter_nothing() {
        for sampling in [of(0, 1.0, 0.0), of(8, 1.0, 0.0), of(1000, 1.0, 0.0)] {
            assert_eq!(kept(&row(), sampling), None);
        }
    }

    #[test]
    fn ties_go_to_the_lowest_ids() {
        let row = vec![1.0; 300];
        assert_eq!(kept(&row, of(3, 1.0, 0.0)).unwrap(), [0, 1, 2]);
        assert_eq!(kept(&row, of(0, 0.0099, 0.0)).unwrap(), [0, 1, 2]);
        assert_eq!(kept(&row, of(0, 1.0, 1.0)).unwrap().len(), 300);
    }

    #[test]
    fn the_best_are_those_of_a_sort() {
        for (len, k) in [(1, 1), (70, 3), (500, 40), (500, 499), (500, 500), (4000, 100)] {
            let row = (0..len)
                .map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 16.0)
                .collect::<Vec<_>>();
            let mut sorted = (0..len).collect::<Vec<_>>();
            sorted.sort_by(|&a, &b| rank(&row, a, b));
            let mut found = Vec::new();
            best(&row, k, &mut found);
            assert_eq!(found, sorted[..k], "{k} of {len}");
        }
        let mut found = vec![1];
        best(&[f32::NEG_INFINITY; 200], 2, &mut found);
        assert_eq!(found, [0, 1]);
    }
}
