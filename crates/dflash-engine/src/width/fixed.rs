use super::{Outcome, Plan, WidthPolicy};
use crate::Offer;

/// Always the same width, from the first proposer that has something to offer, the cheapest asked first.
pub struct Fixed {
    width: usize,
    order: Vec<usize>,
}

impl Fixed {
    /// `order` lists the proposers by preference.
    pub fn new(width: usize, order: Vec<usize>) -> Self {
        Self { width, order }
    }
}

impl WidthPolicy for Fixed {
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan {
        let offers = |index: &usize| offers.get(*index).map_or(0, |offer| offer.ids);
        let offering = self.order.iter().find(|&index| offers(index) > 0);
        offering
            .map_or(Plan::PLAIN, |index| Plan::chain(*index, self.width.min(limit).min(offers(index) + 1)))
    }

    fn record(&mut self, _: &Outcome<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_offers_is_taken() {
        let mut policy = Fixed::new(8, vec![1, 0]);
        let offers = |ids: [usize; 2]| ids.map(|ids| Offer { ids, class: 0 });
        assert_eq!(policy.plan(&offers([15, 0]), 16), Plan::chain(0, 8));
        assert_eq!(policy.plan(&offers([15, 2]), 16), Plan::chain(1, 3));
        assert_eq!(policy.plan(&offers([0, 0]), 16), Plan::PLAIN);
        assert_eq!(policy.plan(&offers([15, 0]), 5).width, 5);
        assert_eq!(policy.plan(&offers([15, 0])[..1], 16).proposer, Some(0), "one that does not take part");
    }
}
