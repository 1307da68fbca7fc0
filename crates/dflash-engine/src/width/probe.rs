/// Plain steps before the second probe of a proposer that does not pay; the first one comes at once, unless earlier
/// requests have shown what it is like.
const FIRST_PROBE: usize = 16;
/// Plain steps between probes at most.
const LAST_PROBE: usize = 512;

/// When to try a proposer that does not promise to pay.
pub(super) struct Probe {
    interval: usize,
    plain_steps: usize,
    /// Times in a row that it paid.
    paid: usize,
}

impl Probe {
    /// Whoever is known well is not tried at once.
    pub fn new(known: bool) -> Self {
        Self { interval: if known { 4 * FIRST_PROBE } else { 1 }, plain_steps: 0, paid: 0 }
    }

    /// Whether a proposer that loses at present is worth a try: it is cheap to find out now and then.
    pub fn due(&mut self) -> bool {
        self.plain_steps += 1;
        let due = self.plain_steps >= self.interval || self.paid > 0;
        if due {
            self.plain_steps = 0;
            self.interval = (self.interval * 2).clamp(FIRST_PROBE, LAST_PROBE);
        }
        due
    }

    /// It paid, so it may pay again, and the next step is a try; twice in a row is more than luck.
    pub fn record(&mut self, paid: bool) {
        self.paid = if paid { self.paid + 1 } else { 0 };
        if self.paid > 1 {
            self.interval = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain steps until the next probe, that one included.
    fn wait(probe: &mut Probe) -> usize {
        (1..).find(|_| probe.due()).unwrap_or(0)
    }

    #[test]
    fn losing_probes_come_ever_later_and_a_known_proposer_waits_from_the_start() {
        let mut probe = Probe::new(false);
        let waits: Vec<usize> = (0..8).map(|_| wait(&mut probe)).collect();
        assert_eq!(waits, [1, 16, 32, 64, 128, 256, 512, 512]);
        assert_eq!(wait(&mut Probe::new(true)), 64);
    }

    #[test]
    fn one_gain_is_followed_up_and_two_in_a_row_begin_anew() {
        let mut probe = Probe::new(true);
        wait(&mut probe);
        probe.record(true);
        assert_eq!(wait(&mut probe), 1, "followed up");
        probe.record(false);
        assert!(wait(&mut probe) > 64, "it was luck");
        probe.record(true);
        probe.record(true);
        probe.record(false);
        assert_eq!([wait(&mut probe), wait(&mut probe)], [1, 16]);
    }
}
