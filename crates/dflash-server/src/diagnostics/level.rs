/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticsLevel {
    /// Every answer.
    Basic,
    /// Every cycle too, and the memory after every answer.
    Full,
}

impl DiagnosticsLevel {
    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Full => "full",
        }
    }
}
