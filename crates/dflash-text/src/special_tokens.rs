/// The special tokens that a chat template has to know, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Beginning of sequence: `bos_token` in the template.
    pub bos: Option<String>,
    /// End of sequence: `eos_token` in the template.
    pub eos: Option<String>,
    /// Every control token of the vocabulary, `bos` and `eos` among them.
    pub control: Vec<String>,
}
