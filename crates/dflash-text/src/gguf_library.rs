//! The tokenizer library, set up as a GGUF vocabulary asks.

use std::collections::HashSet;

use tokenizers::models::bpe::{BPE, BpeBuilder, Merges, Vocab};
use tokenizers::normalizers::{NFC, Prepend, Replace, Sequence};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer as Library};

use crate::gguf_vocab::{BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, damaged};
use crate::score_merges::merges_by_score;
use crate::vocab_kind::VocabKind;
use crate::{GgufVocab, TextError};

/// SentencePiece's sign for a space.
const BLANK: &str = "▁";
/// Bytes of the longest piece that merges are looked for in, which takes the square of its length. Llama 2 and
/// Gemma have none above 100.
const LONGEST_PIECE: usize = 1024;

pub(crate) fn build(vocab: &GgufVocab, kind: VocabKind) -> Result<Library, TextError> {
    let words = words(vocab, kind);
    let merges = match kind {
        VocabKind::Scored { .. } => scored_merges(vocab)?,
        VocabKind::ByteLevel(_) | VocabKind::Listed => listed_merges(vocab, &words)?,
    };
    let unknown = unknown(vocab, kind, &words)?;
    let model = with_options(BPE::builder().vocab_and_merges(words, merges), kind, unknown);
    let mut library = Library::new(model.build().map_err(library_error)?);
    library.with_pre_tokenizer(pre_tokenizer(kind)?);
    library.with_normalizer(normalizer(kind)?).map_err(library_error)?;
    let added = vocab.by_kind(USER_DEFINED).filter(|(_, token)| !token.is_empty());
    let added = added.map(|(_, token)| AddedToken::from(token.as_str(), false).normalized(false));
    library.add_tokens(added.collect::<Vec<_>>()).map_err(library_error)?;
    Ok(library)
}

/// What merging may see: the model's own tokens are kept out altogether, so that no plain text can reach them.
fn words(vocab: &GgufVocab, kind: VocabKind) -> Vocab {
    let unknown = vocab.unknown_id().filter(|_| !matches!(kind, VocabKind::ByteLevel(_)));
    let ids = (0..vocab.tokens.len()).filter(|&id| !vocab.is_hidden(id) || unknown == Some(id as u32));
    ids.map(|id| (vocab.tokens[id].clone(), id as u32)).collect()
}

fn scored_merges(vocab: &GgufVocab) -> Result<Merges, TextError> {
    if vocab.scores.is_empty() {
        return Err(damaged("a SentencePiece vocabulary needs scores, and it has none".into()));
    }
    if let Some(id) = vocab.scores.iter().position(|score| score.is_nan()) {
        return Err(damaged(format!("the score of token {id} is not a number")));
    }
    if let Some((id, piece)) = vocab.by_kind(NORMAL).find(|(_, piece)| piece.len() > LONGEST_PIECE) {
        return Err(damaged(format!("token {id} has {} bytes, more than {LONGEST_PIECE}", piece.len())));
    }
    let pieces = vocab.by_kind(NORMAL).map(|(id, token)| (token.clone(), id)).collect();
    Ok(merges_by_score(&pieces, |id| vocab.scores[id as usize]))
}

fn listed_merges(vocab: &GgufVocab, words: &Vocab) -> Result<Merges, TextError> {
    let hidden = [CONTROL, UNUSED].into_iter().flat_map(|kind| vocab.by_kind(kind));
    let hidden: HashSet<&str> = hidden.map(|(_, token)| token.as_str()).collect();
    let mut merges = Merges::with_capacity(vocab.merges.len());
    for (rank, merge) in vocab.merges.iter().enumerate() {
        let (left, right) =
            split_merge(merge).ok_or_else(|| damaged(format!("merge {rank} is {merge:?}")))?;
        let whole = format!("{left}{right}");
        if hidden.contains(whole.as_str()) {
            continue;
        }
        if let Some(lost) = [left, right, &whole].into_iter().find(|part| !words.contains_key(*part)) {
            return Err(damaged(format!("merge {rank} needs {lost:?}, which is no token")));
        }
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// The blank that separates the halves is never the first character: a token may begin with one, not be empty.
fn split_merge(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let blank = first + merge[first..].find(' ')?;
    let (left, right) = (&merge[..blank], &merge[blank + 1..]);
    (!right.is_empty()).then_some((left, right))
}

/// The token for what no other stands for. Byte-level BPE has no use for it; others may do without if they can
/// spell every byte.
fn unknown(vocab: &GgufVocab, kind: VocabKind, words: &Vocab) -> Result<Option<String>, TextError> {
    if matches!(kind, VocabKind::ByteLevel(_)) {
        return Ok(None);
    }
    let unknown = vocab.unknown_id().map(|id| vocab.tokens[id as usize].clone());
    let spelled = (0..=u8::MAX).all(|byte| {
        let id = words.get(&format!("<0x{byte:02X}>"));
        id.is_some_and(|&id| matches!(vocab.kind(id as usize), BYTE | NORMAL))
    });
    match unknown.is_some() || spelled {
        true => Ok(unknown),
        false => Err(damaged("it has neither a token for every byte nor an unknown token".into())),
    }
}

fn with_options(model: BpeBuilder, kind: VocabKind, unknown: Option<String>) -> BpeBuilder {
    let model = match kind {
        VocabKind::ByteLevel(pre) => model.ignore_merges(pre.ignores_merges()),
        VocabKind::Scored { .. } | VocabKind::Listed => model.byte_fallback(true).fuse_unk(true),
    };
    match unknown {
        Some(unknown) => model.unk_token(unknown),
        None => model,
    }
}

fn pre_tokenizer(kind: VocabKind) -> Result<Option<PreTokenizerWrapper>, TextError> {
    match kind {
        VocabKind::ByteLevel(pre) => pre.build().map(Some),
        VocabKind::Scored { .. } | VocabKind::Listed => Ok(None),
    }
}

fn normalizer(kind: VocabKind) -> Result<Option<NormalizerWrapper>, TextError> {
    let blanks = || Replace::new(" ", BLANK).map_err(library_error);
    Ok(match kind {
        VocabKind::ByteLevel(pre) => pre.normalizes().then(|| NFC.into()),
        VocabKind::Scored { space_prefix: true } => {
            Some(Sequence::new(vec![Prepend::new(BLANK.into()).into(), blanks()?.into()]).into())
        }
        VocabKind::Scored { space_prefix: false } | VocabKind::Listed => Some(blanks()?.into()),
    })
}

fn library_error(error: tokenizers::Error) -> TextError {
    damaged(error.to_string())
}
