use std::str::FromStr;

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::TextError;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How text is cut into words before byte-pair merging, by the name GGUF files give it.
///
/// A wrong cut still decodes to the right text but feeds the model ids it was not trained on, so an unknown
/// name is an error and never a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreTokenizer {
    /// GPT-2's regex.
    Gpt2,
    /// Digits one by one, then GPT-2's regex.
    SmolLm,
    /// Llama 3 and LFM2: digits in groups of up to three; whole words found in the vocabulary skip the merges.
    LlamaBpe,
    /// Qwen 2 and 3: digits one by one, text in normal form C.
    Qwen2,
    /// Qwen 3.5: as `Qwen2`, but a mark belongs to the letter before it.
    Qwen35,
}

impl PreTokenizer {
    const NAMES: [(&str, Self); 9] = [
        ("gpt2", Self::Gpt2),
        ("gpt-2", Self::Gpt2),
        ("smollm", Self::SmolLm),
        ("llama-bpe", Self::LlamaBpe),
        ("llama3", Self::LlamaBpe),
        ("llama-v3", Self::LlamaBpe),
        ("lfm2", Self::LlamaBpe),
        ("qwen2", Self::Qwen2),
        ("qwen35", Self::Qwen35),
    ];

    pub(crate) fn build(self) -> Result<PreTokenizerWrapper, TextError> {
        Ok(match self {
            Self::Gpt2 => byte_level(true).into(),
            Self::SmolLm => Sequence::new(vec![Digits::new(true).into(), byte_level(true).into()]).into(),
            Self::LlamaBpe => split_then_bytes(LLAMA3)?,
            Self::Qwen2 => split_then_bytes(QWEN2)?,
            Self::Qwen35 => split_then_bytes(QWEN35)?,
        })
    }

    /// Whether a word that is a token is taken whole, even where the merges would cut it otherwise.
    pub(crate) fn ignores_merges(self) -> bool {
        self == Self::LlamaBpe
    }

    /// Whether a raw prompt begins with the beginning of sequence where the file does not say.
    pub(crate) fn adds_bos(self) -> bool {
        self == Self::LlamaBpe
    }

    /// Whether text is brought to normal form C first.
    pub(crate) fn normalizes(self) -> bool {
        matches!(self, Self::Qwen2 | Self::Qwen35)
    }
}

impl FromStr for PreTokenizer {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, kind)| kind).ok_or_else(|| TextError::UnsupportedPreTokenizer {
            name: name.to_owned(),
            supported: Self::NAMES.map(|(known, _)| known).join(", "),
        })
    }
}

fn byte_level(use_regex: bool) -> ByteLevel {
    ByteLevel::new(false, true, use_regex)
}

fn split_then_bytes(regex: &str) -> Result<PreTokenizerWrapper, TextError> {
    let pattern = SplitPattern::Regex(regex.to_owned());
    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map_err(|e| TextError::GgufVocab { reason: format!("pre-tokenizer regex: {e}") })?;
    Ok(Sequence::new(vec![split.into(), byte_level(false).into()]).into())
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _};

    use super::*;

    fn words(kind: PreTokenizer, text: &str) -> Vec<String> {
        let mut cut = PreTokenizedString::from(text);
        kind.build().unwrap().pre_tokenize(&mut cut).unwrap();
        let splits = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(word, ..)| word.replace('Ġ', " ").replace('Ċ', "\n")).collect()
    }

    #[test]
    fn digits_are_cut_as_each_family_cuts_them() {
        assert_eq!(words(PreTokenizer::Gpt2, "in 12345"), ["in", " 12345"]);
        assert_eq!(words(PreTokenizer::SmolLm, "in 123"), ["in", " ", "1", "2", "3"]);
        assert_eq!(words(PreTokenizer::LlamaBpe, "in 12345"), ["in", " ", "123", "45"]);
        assert_eq!(words(PreTokenizer::Qwen2, "in 123"), ["in", " ", "1", "2", "3"]);
    }

    #[test]
    fn marks_stay_with_their_letters_since_qwen_3_5() {
        let counts =
            [PreTokenizer::Qwen2, PreTokenizer::Qwen35].map(|kind| words(kind, "e\u{302}\u{323}e").len());
        assert_eq!(counts, [3, 1]);
    }

    #[test]
    fn newlines_and_contractions() {
        assert_eq!(words(PreTokenizer::Gpt2, "I'LL\n\n go"), ["I", "'", "LL", "\n\n", " go"]);
        assert_eq!(words(PreTokenizer::Qwen2, "I'LL\n\n go"), ["I", "'LL", "\n\n", " go"]);
        assert_eq!(words(PreTokenizer::LlamaBpe, "f(x);\n\ty"), ["f", "(x", ");\n", "ĉy"]);
    }

    #[test]
    fn unknown_name_is_refused_with_the_list() {
        let error = "tekken".parse::<PreTokenizer>().unwrap_err().to_string();
        assert!(error.contains("\"tekken\"") && error.contains("llama-v3"), "{error}");
    }
}
