//! What cycles were, for people.

use std::collections::BTreeMap;

/// Cycles by proposer, as in `12 copy, 3 draft, 40 plain`.
pub fn by_proposer<K: AsRef<str>>(cycles: &BTreeMap<K, usize>) -> String {
    list(cycles.iter().map(|(proposer, cycles)| match proposer.as_ref() {
        "none" => format!("{cycles} plain"),
        proposer => format!("{cycles} {proposer}"),
    }))
}

/// Cycles by the rows verified, as in `rows 1: 40, 2: 3, 8: 12`.
pub fn by_width(cycles: &BTreeMap<usize, usize>) -> String {
    "rows ".to_owned() + &list(cycles.iter().map(|(width, cycles)| format!("{width}: {cycles}")))
}

/// Time set against plain decoding, as in `0.12 s gained` and `0.03 s lost`.
pub fn gain(seconds: f64) -> String {
    format!("{:.2} s {}", seconds.abs(), if seconds < 0.0 { "lost" } else { "gained" })
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_step_is_no_proposal() {
        assert_eq!(
            by_proposer(&[("draft", 3), ("none", 40), ("copy", 12)].into()),
            "12 copy, 3 draft, 40 plain"
        );
    }

    #[test]
    fn widths_come_in_order() {
        assert_eq!(by_width(&[(16, 12), (1, 40), (2, 3)].into()), "rows 1: 40, 2: 3, 16: 12");
    }

    #[test]
    fn a_loss_is_called_a_loss() {
        assert_eq!([gain(0.124), gain(-0.031), gain(0.0)], ["0.12 s gained", "0.03 s lost", "0.00 s gained"]);
    }
}
