//! Which normalizers and pre-tokenizers of a `tokenizer.json` are run: those that models of today use, in forms that
//! keep a text's length in bounds.

use serde_json::Value;

use crate::TextError;

const NORMALIZERS: [&str; 11] = [
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Lowercase",
    "Strip",
    "StripAccents",
    "Nmt",
    "Precompiled",
    "Prepend",
    "Replace",
];
const PRE_TOKENIZERS: [&str; 7] =
    ["ByteLevel", "Split", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit"];
/// How many times longer all normalizers together may make a text, and what they may put before it.
const GROWTH: usize = 64;
/// Parts of one sequence.
const MOST_PARTS: usize = 64;

/// Checks the two parts of a `tokenizer.json` that work on text.
pub(crate) fn check(normalizer: &Value, pre_tokenizer: &Value) -> Result<(), TextError> {
    let normalizers = listed("normalizer", normalizer, "normalizers", &NORMALIZERS)?;
    let pre_tokenizers = listed("pre-tokenizer", pre_tokenizer, "pretokenizers", &PRE_TOKENIZERS)?;
    for part in normalizers.iter().chain(&pre_tokenizers) {
        if pattern(part).is_some_and(|(pattern, _)| pattern.is_empty()) {
            return refuse("an empty pattern".into());
        }
    }
    let growth = normalizers.iter().map(|part| growth(part)).fold(1, usize::saturating_mul);
    let before = normalizers.iter().filter_map(|part| part["prepend"].as_str()).map(str::len).sum::<usize>();
    match growth > GROWTH || before > GROWTH {
        true => refuse("normalizers that make a text many times longer".into()),
        false => Ok(()),
    }
}

/// `part`, or the parts that it is a sequence of, all of them `known`.
fn listed<'a>(role: &str, part: &'a Value, list: &str, known: &[&str]) -> Result<Vec<&'a Value>, TextError> {
    let mut found = Vec::new();
    let mut open = vec![part];
    while let Some(part) = open.pop() {
        match part["type"].as_str() {
            None if part.is_null() => {}
            Some("Sequence") => open.extend(part[list].as_array().into_iter().flatten()),
            Some(kind) if known.contains(&kind) => found.push(part),
            kind => return refuse(format!("the {role} {:?}", kind.unwrap_or_default())),
        }
    }
    match found.len() > MOST_PARTS {
        true => refuse(format!("more than {MOST_PARTS} parts in a {role}")),
        false => Ok(found),
    }
}

/// The pattern of a part, and whether it is a regular expression.
fn pattern(part: &Value) -> Option<(&str, bool)> {
    let of = |kind: &str| part["pattern"].get(kind).and_then(Value::as_str);
    of("String").map(|text| (text, false)).or_else(|| of("Regex").map(|regex| (regex, true)))
}

/// How many times longer a replacement can make a text; a regular expression may match nothing between two bytes.
fn growth(part: &Value) -> usize {
    let content = part["content"].as_str().unwrap_or_default().len();
    match pattern(part) {
        Some((text, false)) => content.div_ceil(text.len().max(1)).max(1),
        Some((_, true)) => content + 1,
        None => 1,
    }
}

fn refuse<T>(what: String) -> Result<T, TextError> {
    Err(TextError::UnsupportedTokenizer { what })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_trusted_is_refused_by_name() {
        let replace =
            |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let sequence = |part: &Value| json!({"type": "Sequence", "normalizers": [part, part, part, part]});
        let refusal = |normalizer, pre: Value| check(&normalizer, &pre).unwrap_err().to_string();
        assert!(refusal(json!(null), json!({"type": "FixedLength", "length": 0})).contains("FixedLength"));
        assert!(refusal(json!({"type": "BertNormalizer"}), json!(null)).contains("BertNormalizer"));
        assert!(refusal(replace("", "x"), json!(null)).contains("empty pattern"));
        assert!(
            refusal(json!(null), json!({"type": "Split", "pattern": {"String": ""}}))
                .contains("empty pattern")
        );
        assert!(refusal(sequence(&replace("a", "aaaa")), json!(null)).contains("longer"));
        assert!(
            refusal(json!({"type": "Prepend", "prepend": "x".repeat(65)}), json!(null)).contains("longer")
        );
        assert!(check(&sequence(&replace("''", "\"")), &json!({"type": "Digits"})).is_ok());
        assert!(check(&replace(" ", "▁"), &json!(null)).is_ok());
    }
}
