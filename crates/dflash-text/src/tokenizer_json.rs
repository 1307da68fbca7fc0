//! The reader of `tokenizer.json`.

use serde_json::Value;
use tokenizers::{AddedToken, ModelWrapper, Tokenizer as Library};

use crate::control::{ControlToken, ControlTokens};
use crate::isolation::quietly;
use crate::known_ends::{distinct, known_ends};
use crate::pieces::{Pieces, Spelling};
use crate::tokenizer::{CONTRADICTION, Parts, library_ids};
use crate::{TextError, TokenizerConfig, tokenizer_parts};

/// The parts of a tokenizer; `config` names the beginning and the end of a sequence.
pub(crate) fn read(bytes: &[u8], config: &TokenizerConfig) -> Result<Parts, TextError> {
    shielded(|| json_parts(bytes, config))
}

/// Turns a panic of the tokenizer library into an error: a damaged file must not take the process down.
fn shielded<T>(read: impl FnOnce() -> Result<T, TextError>) -> Result<T, TextError> {
    quietly(read).unwrap_or_else(|| Err(damaged(CONTRADICTION.into())))
}

fn json_parts(bytes: &[u8], config: &TokenizerConfig) -> Result<Parts, TextError> {
    let mut library = Library::from_bytes(bytes).map_err(|e| damaged(e.to_string()))?;
    // Both are training leftovers; a prompt must never be cut or filled up silently.
    library.with_truncation(None).map_err(|e| damaged(e.to_string()))?;
    library.with_padding(None);
    library.set_encode_special_tokens(true);
    refuse_unsupported(&library)?;
    let control = ControlTokens::new(control_tokens(&library)).map_err(|e| damaged(e.to_string()))?;
    let id = |role, token: &Option<String>| special_id(&library, role, token.as_deref());
    let (bos, eos) = (id("bos", &config.bos)?, id("eos", &config.eos)?);
    Ok(Parts {
        pieces: pieces(&library)?,
        prompt_prefix: prompt_prefix(&library, config.add_bos, bos)?,
        bos,
        eos: distinct([eos]),
        known_ends: known_ends(&control),
        control,
        library,
    })
}

fn refuse_unsupported(library: &Library) -> Result<(), TextError> {
    let refuse = |what: &str| Err(TextError::UnsupportedTokenizer { what: what.into() });
    match library.get_model() {
        ModelWrapper::BPE(bpe) if bpe.dropout.is_some_and(|p| p > 0.0) => {
            return refuse("random merges (dropout)");
        }
        ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => {}
        _ => return refuse("a model other than BPE or Unigram"),
    }
    let pre_tokenizer = as_json(library.get_pre_tokenizer());
    tokenizer_parts::check(&as_json(library.get_normalizer()), &pre_tokenizer)?;
    // Text is encoded in runs between control tokens, and each run must be cut like the first.
    match mentions(&pre_tokenizer, "prepend_scheme", "first") {
        true => refuse("a blank before the first word only (prepend_scheme \"first\")"),
        false => Ok(()),
    }
}

fn control_tokens(library: &Library) -> Vec<ControlToken> {
    let added = library.get_added_tokens_decoder().into_iter().filter(|(_, token)| token.special);
    let control = added.map(|(id, token)| ControlToken {
        id,
        content: token.content,
        single_word: token.single_word,
        lstrip: token.lstrip,
        rstrip: token.rstrip,
    });
    control.collect()
}

fn special_id(library: &Library, role: &'static str, token: Option<&str>) -> Result<Option<u32>, TextError> {
    let Some(token) = token else { return Ok(None) };
    let id = library.token_to_id(token);
    id.map(Some).ok_or_else(|| TextError::UnknownSpecialToken { role, token: token.to_owned() })
}

fn pieces(library: &Library) -> Result<Pieces, TextError> {
    let spelling = Spelling::of_decoder(&as_json(library.get_decoder()))?;
    let added = library.get_added_tokens_decoder();
    let ordinary = library.get_vocab(false).into_iter().filter(|(_, id)| !added.contains_key(id));
    let ordinary = ordinary.map(|(token, id)| (id, spelling.bytes_of(&token), false));
    let added = added.iter().map(|(&id, token)| (id, added_bytes(spelling, token), token.special));
    let tokens: Vec<_> = ordinary.chain(added).collect();
    if tokens.is_empty() {
        return Err(damaged("it has no tokens".into()));
    }
    Pieces::new(spelling, tokens).ok_or_else(|| damaged("its ids are far apart".into()))
}

/// SentencePiece vocabularies have pieces such as `▁▁` among their added tokens; elsewhere these are plain text.
fn added_bytes(spelling: Spelling, token: &AddedToken) -> Vec<u8> {
    match spelling {
        Spelling::Sentence { .. } if !token.special => spelling.bytes_of(&token.content),
        _ => token.content.clone().into_bytes(),
    }
}

/// What the post-processor puts before a text; `add_bos_token` in the configuration has the last word.
fn prompt_prefix(library: &Library, add_bos: Option<bool>, bos: Option<u32>) -> Result<Vec<u32>, TextError> {
    let (plain, framed) = (library_ids(library, "a", false)?, library_ids(library, "a", true)?);
    let added = framed.windows(plain.len().max(1)).position(|window| window == plain).unwrap_or(0);
    Ok(match (add_bos, bos) {
        (Some(false), _) => Vec::new(),
        (Some(true), Some(bos)) if added == 0 => vec![bos],
        _ => framed[..added].to_vec(),
    })
}

fn as_json(part: Option<impl serde::Serialize>) -> Value {
    part.and_then(|part| serde_json::to_value(part).ok()).unwrap_or(Value::Null)
}

fn mentions(value: &Value, key: &str, wanted: &str) -> bool {
    match value {
        Value::Object(map) => {
            map.get(key).is_some_and(|v| v == wanted) || map.values().any(|v| mentions(v, key, wanted))
        }
        Value::Array(list) => list.iter().any(|v| mentions(v, key, wanted)),
        _ => false,
    }
}

fn damaged(reason: String) -> TextError {
    TextError::TokenizerJson { reason }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Tokenizer;
    use crate::byte_alphabet::spelling_of;

    /// A byte-level `tokenizer.json` in the form the Hub has them.
    fn sample() -> Value {
        let mut vocab: serde_json::Map<String, Value> =
            (0..=255u8).map(|byte| (spelling_of(&[byte]), byte.into())).collect();
        vocab.insert("hi".into(), 256.into());
        let added = |id: u32, content: &str, special: bool, rstrip: bool| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": rstrip,
                   "normalized": false, "special": special})
        };
        json!({
            "version": "1.0",
            "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
            "padding": null,
            "added_tokens": [added(257, "<s>", true, false), added(258, "<end>", true, true), added(259, "<think>", false, false)],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [257], "tokens": ["<s>"]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocab, "merges": [["h", "i"]]}
        })
    }

    fn read(json: &Value, config: &TokenizerConfig) -> Result<Tokenizer, TextError> {
        Tokenizer::from_json(json.to_string().as_bytes(), config)
    }

    fn config() -> TokenizerConfig {
        TokenizerConfig { bos: Some("<s>".into()), eos: Some("<end>".into()), ..Default::default() }
    }

    #[test]
    fn reads_tokenizer_json() {
        let tokenizer = read(&sample(), &config()).unwrap();
        assert_eq!(tokenizer.vocab_len(), 260);
        assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(257), &[258][..]));
        assert_eq!(tokenizer.encode("hi<think>", false).unwrap(), [256, 259]);
        assert_eq!(tokenizer.encode("hihihihi", false).unwrap().len(), 4, "never truncated");
        assert_eq!(tokenizer.encode("<s>hi<end>\nhi", true).unwrap(), [257, 256, 258, 256]);
        assert_eq!(tokenizer.encode("<s>", false).unwrap(), b"<s>".map(u32::from));
        assert_eq!(tokenizer.decode(&[257, 256, 258, 259, 999], true), "hi<think>");
        assert_eq!(tokenizer.decode(&[257, 256], false), "<s>hi");
        assert_eq!(tokenizer.special_tokens().control, ["<s>", "<end>"]);
    }

    #[test]
    fn the_beginning_is_added_once_and_as_the_files_say() {
        let tokenizer = read(&sample(), &config()).unwrap();
        assert_eq!(tokenizer.encode_prompt("hi", true).unwrap(), [257, 256]);
        assert_eq!(tokenizer.encode_prompt("<s>hi", true).unwrap(), [257, 256]);
        let never = TokenizerConfig { add_bos: Some(false), ..config() };
        assert_eq!(read(&sample(), &never).unwrap().encode_prompt("hi", true).unwrap(), [256]);
        let mut bare = sample();
        bare["post_processor"] = Value::Null;
        assert_eq!(read(&bare, &config()).unwrap().encode_prompt("hi", true).unwrap(), [256]);
        let always = TokenizerConfig { add_bos: Some(true), ..config() };
        assert_eq!(read(&bare, &always).unwrap().encode_prompt("hi", true).unwrap(), [257, 256]);
    }

    #[test]
    fn what_would_give_other_ids_is_refused() {
        let refusal = |change: &dyn Fn(&mut Value)| {
            let mut json = sample();
            change(&mut json);
            read(&json, &config()).unwrap_err()
        };
        let first =
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true});
        for error in [
            refusal(&|json| json["model"]["dropout"] = json!(0.5)),
            refusal(&|json| json["decoder"] = Value::Null),
            refusal(&|json| json["pre_tokenizer"] = first.clone()),
        ] {
            assert!(matches!(error, TextError::UnsupportedTokenizer { .. }), "{error}");
        }
        let stranger = TokenizerConfig { eos: Some("<no>".into()), ..Default::default() };
        let error = read(&sample(), &stranger).unwrap_err();
        assert!(matches!(error, TextError::UnknownSpecialToken { role: "eos", .. }), "{error}");
    }

    #[test]
    fn sentence_vocabulary_decodes_bytes_and_blanks() {
        let mut json = sample();
        json["pre_tokenizer"] = Value::Null;
        json["decoder"] = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        json["model"]["vocab"] = json!({"▁a": 0, "<0xC3>": 1, "<0xA9>": 2, "a": 3, "h": 4, "i": 5, "hi": 6});
        json["post_processor"] = Value::Null;
        json["added_tokens"] = json!([{"id": 7, "content": "▁▁", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": false}]);
        let tokenizer = read(&json, &TokenizerConfig::default()).unwrap();
        assert_eq!(tokenizer.decode(&[0, 0, 1, 2], true), "a aé");
        assert_eq!(tokenizer.decode(&[3, 7, 3], true), "a  a", "an added token is spelled the same way");
        let mut stream = crate::Detokenizer::new(&tokenizer);
        let text: Vec<String> = [0, 0, 1, 2].map(|id| stream.push(id)).into();
        assert_eq!(text, ["a", " a", "", "é"]);
    }

    #[test]
    fn merge_longer_than_any_token_is_an_error() {
        let mut json = sample();
        json["model"]["merges"] = json!([["hi", "hi"]]);
        assert!(matches!(read(&json, &config()), Err(TextError::TokenizerJson { .. })));
    }

    #[test]
    fn a_vocabulary_without_tokens_is_an_error() {
        let mut json = sample();
        json["added_tokens"] = json!([]);
        json["post_processor"] = Value::Null;
        (json["model"]["vocab"], json["model"]["merges"]) = (json!({}), json!([]));
        let error = read(&json, &TokenizerConfig::default()).unwrap_err().to_string();
        assert!(error.contains("it has no tokens"), "{error}");
    }

    #[test]
    fn a_panic_while_encoding_is_an_error() {
        let mut json = sample();
        json["normalizer"] = json!({"type": "Replace", "pattern": {"String": "a"}, "content": ""});
        json["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0});
        let error = read(&json, &config()).unwrap_err();
        assert!(matches!(&error, TextError::UnsupportedTokenizer { what } if what.contains("FixedLength")));
        let library = Library::from_bytes(json.to_string()).unwrap();
        assert!(matches!(library_ids(&library, "bcd", false), Err(TextError::Encode { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_truncated_file_is_an_error(keep in 0.0f64..1.0) {
            let text = sample().to_string();
            let cut = &text.as_bytes()[..(text.len() as f64 * keep) as usize];
            let refused = matches!(Tokenizer::from_json(cut, &config()), Err(TextError::TokenizerJson { .. }));
            prop_assert!(refused);
        }

        #[test]
        fn flipped_bits_end_in_a_tokenizer_or_an_error(flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4)) {
            let mut bytes = sample().to_string().into_bytes();
            for (at, bit) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            if let Ok(tokenizer) = Tokenizer::from_json(&bytes, &config()) {
                let ids = tokenizer.encode("hi <s> é", true).unwrap_or_default();
                tokenizer.decode(&ids, false);
            }
        }
    }
}
