use dflash_engine::Decoding;
use serde::Serialize;

use crate::options::VerifyMode;
use crate::request::ComparisonRequest;
use crate::runtime::DraftInfo;

/// A way of decoding that is measured beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Leg {
    /// One id a pass.
    Plain,
    /// With everything that drafts.
    Dflash,
    /// With what copies from the context, and no draft model.
    Ngram,
}

impl Leg {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        ["plain", "dflash", "ngram"][self as usize]
    }

    /// How its requests are decoded.
    pub fn decoding(self) -> Decoding {
        match self {
            Self::Plain => Decoding::Plain,
            Self::Dflash => Decoding::Speculative,
            Self::Ngram => Decoding::Ngram,
        }
    }

    /// The legs of a comparison, in the order of reports.
    pub fn of(request: &ComparisonRequest, draft: &DraftInfo) -> Vec<Self> {
        let off = request.options.verify_mode.value == VerifyMode::Off;
        let drafts = !off && (request.oracle.is_some() || !matches!(draft, DraftInfo::None));
        // Where the draft is context copy itself, or an oracle in the place of all proposers, there is no third way.
        let copies = !off && request.oracle.is_none() && matches!(draft, DraftInfo::Model { .. });
        let plain = !request.only_dflash;
        [(Self::Plain, plain), (Self::Dflash, drafts), (Self::Ngram, plain && copies)]
            .into_iter()
            .filter_map(|(leg, wanted)| wanted.then_some(leg))
            .collect()
    }

    /// The order of a round: there and back again, so that a machine that grows slower or faster favours no leg.
    pub fn order(legs: &[Self], round: usize) -> Vec<Self> {
        match round % 2 {
            0 => legs.to_vec(),
            _ => legs.iter().rev().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Leg::{self, Dflash, Ngram, Plain};

    #[test]
    fn rounds_go_there_and_back() {
        let rounds = |legs: &[Leg], count| -> Vec<Leg> {
            (0..count).flat_map(|round| Leg::order(legs, round)).collect()
        };
        assert_eq!(rounds(&[Plain, Dflash], 3), [Plain, Dflash, Dflash, Plain, Plain, Dflash]);
        assert_eq!(rounds(&[Plain, Dflash, Ngram], 2), [Plain, Dflash, Ngram, Ngram, Dflash, Plain]);
    }
}
