use std::fmt;

/// A parameter that is a number, and what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `temperature`
    Temperature,
    /// `top_p`
    TopP,
    /// `min_p`
    MinP,
    /// `repetition_penalty`
    RepetitionPenalty,
    /// `presence_penalty`
    PresencePenalty,
    /// `frequency_penalty`
    FrequencyPenalty,
    /// A value of `logit_bias`
    LogitBias,
}

impl Field {
    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::RepetitionPenalty => "repetition_penalty",
            Self::PresencePenalty => "presence_penalty",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::LogitBias => "logit_bias",
        }
    }

    /// Whether it may be `value`; never NaN nor infinite.
    pub fn accepts(self, value: f64) -> bool {
        match self {
            Self::Temperature => (0.0..=100.0).contains(&value),
            Self::TopP => value > 0.0 && value <= 1.0,
            Self::MinP => (0.0..=1.0).contains(&value),
            Self::RepetitionPenalty => (0.01..=100.0).contains(&value),
            Self::PresencePenalty | Self::FrequencyPenalty => (-2.0..=2.0).contains(&value),
            Self::LogitBias => (-100.0..=100.0).contains(&value),
        }
    }

    /// What [`Field::accepts`] takes, in words.
    pub fn valid(self) -> &'static str {
        match self {
            Self::Temperature => "a number from 0 to 100",
            Self::TopP => "a number above 0, at most 1",
            Self::MinP => "a number from 0 to 1",
            Self::RepetitionPenalty => "a number from 0.01 to 100",
            Self::PresencePenalty | Self::FrequencyPenalty => "a number from -2 to 2",
            Self::LogitBias => "a number from -100 to 100",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
