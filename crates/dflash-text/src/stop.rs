use std::sync::Arc;

use crate::TextError;

/// What one push let through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopPush {
    /// Text that may be shown.
    pub emit: String,
    /// A stop string is complete; nothing is emitted from here on.
    pub stopped: bool,
}

/// Cuts streamed text before a stop string.
///
/// The text ends at the first character that completes any stop string, and is cut before that string (before
/// the longest, where several end there). This makes the result independent of how the text is split into
/// pushes. Text that may be the beginning of a stop string is held back, so no part of one is ever emitted.
///
/// A clone is a checkpoint: the patterns are shared and the text held back is shorter than a stop string.
///
/// ```
/// let mut stops = dflash_text::StopStrings::new(["END"])?;
/// assert_eq!(stops.push("the E").emit, "the ");
/// assert_eq!(stops.push("N or the END").emit, "EN or the ");
/// assert!(stops.stopped());
/// # Ok::<(), dflash_text::TextError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Arc<[String]>,
    held: String,
    /// Which of them is complete.
    complete: Option<usize>,
}

impl StopStrings {
    /// A matcher for `stops`; without any, text passes through.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, TextError> {
        let stops: Arc<[String]> = stops.into_iter().map(Into::into).collect();
        if stops.iter().any(String::is_empty) {
            return Err(TextError::EmptyStopString);
        }
        Ok(Self { stops, held: String::new(), complete: None })
    }

    /// Takes more text and says what of it may be shown.
    pub fn push(&mut self, text: &str) -> StopPush {
        for c in text.chars() {
            if self.stopped() {
                break;
            }
            self.held.push(c);
            self.cut_before_stop();
        }
        let keep = if self.stopped() { 0 } else { self.undecided() };
        let rest = self.held.split_off(self.held.len() - keep);
        StopPush { emit: std::mem::replace(&mut self.held, rest), stopped: self.stopped() }
    }

    /// The text still held back, now that no more comes.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Whether a stop string has been completed.
    pub fn stopped(&self) -> bool {
        self.complete.is_some()
    }

    /// The stop string that has been completed.
    pub fn complete(&self) -> Option<&str> {
        self.complete.map(|index| self.stops[index].as_str())
    }

    fn cut_before_stop(&mut self) {
        let stops = self.stops.iter().enumerate();
        let ending = stops.filter(|(_, stop)| self.held.ends_with(stop.as_str()));
        if let Some((index, stop)) = ending.max_by_key(|(_, stop)| stop.len()) {
            self.held.truncate(self.held.len() - stop.len());
            self.complete = Some(index);
        }
    }

    /// Length of the longest ending of `held` that begins a stop string.
    fn undecided(&self) -> usize {
        self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0)
    }
}

fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    let fits =
        |&len: &usize| text.as_bytes().ends_with(&stop.as_bytes()[..len]) && stop.is_char_boundary(len);
    (1..=longest).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, written down plainly: grow the text by characters until it ends in a stop string.
    fn oracle(text: &str, stops: &[&str]) -> (String, bool) {
        for end in text.char_indices().map(|(at, c)| at + c.len_utf8()) {
            let grown = &text[..end];
            let longest = stops.iter().filter(|stop| grown.ends_with(**stop)).map(|stop| stop.len()).max();
            if let Some(len) = longest {
                return (grown[..end - len].to_owned(), true);
            }
        }
        (text.to_owned(), false)
    }

    fn stream(chunks: &[&str], stops: &[&str]) -> (String, bool) {
        let mut matcher = StopStrings::new(stops.iter().copied()).unwrap();
        let mut text = String::new();
        for chunk in chunks {
            text += &matcher.push(chunk).emit;
        }
        text += &matcher.flush();
        (text, matcher.stopped())
    }

    #[test]
    fn every_two_cuts_give_the_same_text() {
        let text = "alpha beta bet beta gamma delta žluť👩‍👧 end";
        for stops in [&["beta gamma"][..], &["👩‍👧", "delta ž!"], &["alpha"], &["none"], &[]] {
            let expected = oracle(text, stops);
            let cuts: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
            for (i, &a) in cuts.iter().enumerate() {
                for &b in &cuts[i..] {
                    assert_eq!(
                        stream(&[&text[..a], &text[a..b], &text[b..]], stops),
                        expected,
                        "{stops:?} {a} {b}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_of_a_stop_string_is_emitted() {
        let mut matcher = StopStrings::new(["beta gamma"]).unwrap();
        assert_eq!(matcher.push("x beta").emit, "x ");
        assert_eq!(matcher.push(" gamm").emit, "");
        assert_eq!(matcher.push("a and more"), StopPush { emit: String::new(), stopped: true });
        assert_eq!(matcher.push("later"), StopPush { emit: String::new(), stopped: true });
        assert_eq!(matcher.complete(), Some("beta gamma"));
        assert_eq!(matcher.flush(), "");
    }

    #[test]
    fn the_first_text_may_be_the_stop_string() {
        let mut matcher = StopStrings::new(["Hello"]).unwrap();
        assert_eq!(matcher.push("Hello"), StopPush { emit: String::new(), stopped: true });
    }

    #[test]
    fn held_text_comes_out_when_it_was_no_stop_string() {
        let mut matcher = StopStrings::new(["\n\nUser:"]).unwrap();
        assert_eq!(matcher.push("a\n\n").emit, "a");
        assert_eq!(matcher.push("b\n").emit, "\n\nb");
        assert_eq!(matcher.flush(), "\n");
    }

    #[test]
    fn empty_stop_string_is_refused() {
        assert!(matches!(StopStrings::new([""]), Err(TextError::EmptyStopString)));
    }

    proptest! {
        #[test]
        fn splitting_never_matters(
            chunks in proptest::collection::vec("[abž]{0,4}", 0..8),
            stops in proptest::collection::vec("[abž]{1,4}", 0..4),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let parts: Vec<&str> = chunks.iter().map(String::as_str).collect();
            prop_assert_eq!(stream(&parts, &stops), oracle(&chunks.concat(), &stops));
        }
    }
}
