//! Where a model's reasoning begins and ends.

use crate::{Rendered, Segment, Tokenizer};

/// What opens and what closes a block of reasoning, as text; parts of it may be single tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningMarkers {
    /// What opens a block.
    pub open: String,
    /// What closes it.
    pub close: String,
}

const KNOWN: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<|think:start|>", "<|think:end|>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
];

impl ReasoningMarkers {
    /// The first known pair that the vocabulary or the template has.
    pub(crate) fn find(tokenizer: &Tokenizer, template: &str) -> Option<Self> {
        let has = |text: &str| {
            let token = text.strip_suffix("thought").unwrap_or(text);
            tokenizer.id_of(token).is_some() || template.contains(text)
        };
        let (open, close) = KNOWN.into_iter().find(|(open, close)| has(open) && has(close))?;
        Some(Self { open: open.to_owned(), close: close.to_owned() })
    }

    /// Whether `prompt` ends within a block. Only what follows the last other control token counts, which is the
    /// opening of the answer's turn.
    pub(crate) fn left_open(&self, prompt: &Rendered) -> bool {
        let is_other = |segment: &Segment| match segment {
            Segment::Control(token) => {
                !self.open.contains(token.as_str()) && !self.close.contains(token.as_str())
            }
            Segment::Text(_) => false,
        };
        let segments = prompt.segments();
        let from = segments.iter().rposition(is_other).map_or(0, |at| at + 1);
        let tail: String = segments[from..].iter().map(Segment::as_str).collect();
        tail.rfind(&self.open).is_some_and(|open| tail.rfind(&self.close).is_none_or(|close| close < open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::smollm;

    fn markers() -> ReasoningMarkers {
        ReasoningMarkers { open: "<think>".into(), close: "</think>".into() }
    }

    fn left_open(parts: &[Segment]) -> bool {
        markers().left_open(&parts.iter().cloned().collect())
    }

    #[test]
    fn the_tail_of_a_prompt_says_where_the_answer_begins() {
        let text = |text: &str| Segment::Text(text.into());
        let control = |token: &str| Segment::Control(token.into());
        let turn = control("<|im_start|>");
        assert!(left_open(&[turn.clone(), text("assistant\n<think>\n")]));
        assert!(left_open(&[turn.clone(), text("assistant\n"), control("<think>"), text("\n")]));
        assert!(!left_open(&[turn.clone(), text("assistant\n<think>\n\n</think>\n\n")]));
        assert!(!left_open(&[turn.clone(), text("user\n<think>"), turn.clone(), text("assistant\n")]));
        assert!(!left_open(&[text("assistant\n")]));
        assert!(left_open(&[text("<think></think> <think>")]));
    }

    #[test]
    fn markers_come_from_the_vocabulary_or_the_template() {
        assert_eq!(ReasoningMarkers::find(&smollm(), ""), None, "half a pair");
        assert_eq!(ReasoningMarkers::find(&smollm(), "'</think>'"), Some(markers()));
        let gemma = ReasoningMarkers::find(&smollm(), "'<|channel>thought\n<channel|>'").unwrap();
        assert_eq!((gemma.open.as_str(), gemma.close.as_str()), ("<|channel>thought", "<channel|>"));
    }
}
