/// Longest span that is looked for: a loop of more ids is a text of its own.
const LONGEST: usize = 512;
/// A span is a loop when it stands there so often, back to back.
const TIMES: usize = 3;

/// Ids of the longest stretch that is one span said three times or more, back to back; 0 when there is none.
pub fn repeated_span(ids: &[u32]) -> usize {
    (1..=LONGEST.min(ids.len() / TIMES)).map(|period| longest(ids, period)).max().unwrap_or(0)
}

/// Whether more than half of an answer is such a stretch: it went round in circles, which is easy to draft.
pub fn degenerate(ids: &[u32]) -> bool {
    2 * repeated_span(ids) > ids.len()
}

/// The longest stretch of this period.
fn longest(ids: &[u32], period: usize) -> usize {
    let (mut run, mut most) = (0, 0);
    for (id, later) in ids.iter().zip(&ids[period..]) {
        run = if id == later { run + 1 } else { 0 };
        most = most.max(run);
    }
    // Equal pairs over so many ids are one copy more.
    if most >= (TIMES - 1) * period { most + period } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_a_span_three_times_over() {
        for (ids, span) in [
            (&[][..], 0),
            (&[7], 0),
            (&[7, 7], 0),
            (&[7, 7, 7], 3),
            (&[1, 2, 1, 2], 0),
            (&[1, 2, 1, 2, 1, 2], 6),
            (&[9, 1, 2, 1, 2, 1, 2, 1, 8], 7),
            (&[1, 2, 3, 4, 5, 6, 7, 8], 0),
            (&[5, 5, 5, 1, 2, 3, 1, 2, 3, 1, 2, 3], 9),
        ] {
            assert_eq!(repeated_span(ids), span, "{ids:?}");
        }
    }

    #[test]
    fn an_answer_is_degenerate_when_most_of_it_goes_round() {
        let loops = |head: u32, copies: usize| -> Vec<u32> {
            (100..100 + head).chain([1, 2, 3, 4].repeat(copies)).collect()
        };
        assert!(degenerate(&loops(11, 3)));
        assert!(!degenerate(&loops(12, 3)));
        assert!(!degenerate(&loops(2, 2)), "twice is no loop");
        assert!(!degenerate(&[]));
    }

    #[test]
    fn spans_beyond_the_longest_are_no_loop() {
        let span: Vec<u32> = (0..=LONGEST as u32).collect();
        assert_eq!(repeated_span(&span.repeat(3)), 0);
        assert_eq!(repeated_span(&span[..LONGEST].repeat(3)), 3 * LONGEST);
    }
}
