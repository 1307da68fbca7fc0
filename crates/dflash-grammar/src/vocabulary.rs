use dflash_text::Tokenizer;
use toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenizerEnv};

/// A model's ids as the grammar library sees them: the trie of their bytes, and the tokenizer for what is forced.
pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Vocabulary {
    /// Control tokens and `stop_ids` are marked as such, so that no text can be one of them; ids without bytes are
    /// in no answer.
    pub fn new(tokenizer: &Tokenizer, stop_ids: &[u32]) -> Self {
        let words: Vec<Vec<u8>> =
            (0..tokenizer.vocab_len() as u32).map(|id| word(tokenizer, stop_ids, id)).collect();
        let known: Vec<u32> = stop_ids.iter().copied().filter(|&id| (id as usize) < words.len()).collect();
        let first = known.first().copied().unwrap_or(INVALID_TOKEN);
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, first), &words);
        let trie = if known.is_empty() { trie } else { trie.with_eos_tokens(&known) };
        Self { tokenizer: tokenizer.clone(), trie }
    }
}

/// The bytes of `id` in the trie. The library takes what begins with 0xFF, a byte no text has, for a control token.
fn word(tokenizer: &Tokenizer, stop_ids: &[u32], id: u32) -> Vec<u8> {
    const MARKER: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
    match tokenizer.token_bytes(id) {
        Some(bytes) if tokenizer.is_special(id) || stop_ids.contains(&id) => [&[MARKER], bytes].concat(),
        Some(bytes) if bytes.first() != Some(&MARKER) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// What the tokenizer makes of `bytes`, as long as it says the same bytes: it may put a blank before a text or
    /// compose its characters.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let ids = std::str::from_utf8(bytes).ok().and_then(|text| self.tokenizer.encode(text, false).ok());
        match ids {
            Some(ids) if self.spells(&ids, bytes) => ids,
            _ => self.trie.greedy_tokenize(bytes),
        }
    }
}

impl Vocabulary {
    fn spells(&self, ids: &[u32], mut bytes: &[u8]) -> bool {
        let all = ids.iter().all(|&id| {
            let rest = bytes.strip_prefix(self.trie.token(id));
            bytes = rest.unwrap_or_default();
            rest.is_some()
        });
        all && bytes.is_empty()
    }
}
