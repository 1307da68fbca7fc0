//! Whether an answer to a problem of the American Invitational Mathematics Examination is right: its answers are whole
//! numbers from 0 to 999, so that equality decides.

/// Tags around what a model says to itself.
const REASONING: [&str; 5] = ["think", "thinking", "reason", "reasoning", "thought"];
const BOXED: &str = r"\boxed{";

/// Whether the final answer that `answer_text` gives is `expected`. What a model says to itself does not count; of
/// several lines `answer: N` the last one counts, and where there is none, the last `\boxed{N}`.
pub fn score(answer_text: &str, expected: &str) -> bool {
    let said = without_reasoning(answer_text);
    let given = said.lines().rev().find_map(stated).or_else(|| boxed(&said));
    given.is_some_and(|given| !normal(given).is_empty() && normal(given) == normal(expected))
}

/// The text outside of blocks of reasoning. One that does not end reaches to the end of the text; one that does not
/// begin was begun by the chat template.
fn without_reasoning(text: &str) -> String {
    // Of the same length, byte by byte.
    let lower = text.to_ascii_lowercase();
    let (mut said, mut at) = (String::new(), 0);
    while let Some((start, end, tag)) = next_tag(&lower, at) {
        let closer = format!("</{tag}>");
        if lower[start..end] == closer {
            said.clear();
            at = end;
            continue;
        }
        said += &text[at..start];
        match lower[end..].find(&closer) {
            Some(length) => at = end + length + closer.len(),
            None => return said,
        }
    }
    said + &text[at..]
}

/// The next tag of reasoning in lower-case `text` from `from` on: where it begins and ends, and its name.
fn next_tag(text: &str, from: usize) -> Option<(usize, usize, &'static str)> {
    let mut starts = text[from..].match_indices('<').map(|(at, _)| from + at);
    starts.find_map(|start| {
        let end = start + text[start..].find('>')? + 1;
        tag_of(&text[start + 1..end - 1]).map(|tag| (start, end, tag))
    })
}

/// The name in a tag's inside, where it is one of reasoning.
fn tag_of(inside: &str) -> Option<&'static str> {
    let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
    let is_details = name == "details"
        && ["type=\"reasoning\"", "type='reasoning'", "type=reasoning"]
            .iter()
            .any(|attribute| attributes.contains(attribute));
    let known = REASONING.into_iter().find(|tag| name.strip_prefix('/').unwrap_or(name) == *tag);
    known.or(is_details.then_some("details"))
}

/// The number of a line `answer: N`.
fn stated(line: &str) -> Option<&str> {
    let lower = line.to_ascii_lowercase();
    lower.rmatch_indices("answer").find_map(|(at, word)| {
        let rest = skip(&line[at + word.len()..]).strip_prefix(':')?;
        let rest = skip(rest);
        let rest = skip(rest.strip_prefix(BOXED).unwrap_or(rest));
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        ((1..=4).contains(&digits) && !goes_on(after)).then_some(number)
    })
}

/// Emphasis, formula marks and spaces decide nothing.
fn skip(text: &str) -> &str {
    let text = text.trim_start_matches(['*', '_', '$', ' ', '\t']);
    text.strip_prefix(r"\(").or(text.strip_prefix(r"\[")).unwrap_or(text).trim_start()
}

/// Whether digits before `after` are only a part of a number.
fn goes_on(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some('.' | ',') => rest.next().is_some_and(|next| next.is_ascii_digit()),
        Some('/' | '^') => true,
        _ => false,
    }
}

/// What is in the last box that is closed.
fn boxed(text: &str) -> Option<&str> {
    text.rmatch_indices(BOXED).find_map(|(at, opener)| {
        let inside = &text[at + opener.len()..];
        let mut depth = 1;
        let end = inside.bytes().position(|byte| {
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            depth == 0
        })?;
        Some(&inside[..end])
    })
}

/// A number without spaces, commas and dollar signs, the full stop of its sentence and leading zeros.
fn normal(answer: &str) -> String {
    let kept: String = answer.chars().filter(|c| !c.is_whitespace() && !matches!(c, ',' | '$')).collect();
    let kept = kept.trim_matches('.');
    match kept.trim_start_matches('0') {
        "" if !kept.is_empty() => "0".to_owned(),
        number => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_answers() {
        for text in [
            "Answer: 70",
            "answer:70",
            "**Final Answer:** 70",
            "**Answer**: $70$.",
            "Thus the final answer: \\boxed{70}",
            "Answer: \\(70\\)",
            "Answer: 070",
            "Answer: 70 apples",
            "Answer: 5\nNo, I was wrong.\nAnswer: 70\nThat is all.",
            "It is \\boxed{70}.",
            "First \\boxed{5}, then \\boxed{ 0 7 0 . }",
            "$\\boxed{70}$ and \\boxed{unclosed",
            "\\boxed{\\boxed{70}}",
            "\\boxed{5}\nAnswer: 70",
            "<think>Answer: 5</think>Answer: 70",
            "<think>\\boxed{5}</think> \\boxed{70} <Thinking>\\boxed{6}</THINKING>",
            "<reasoning mode=\"long\">Answer: 5</reasoning>\nAnswer: 70",
            "<details type=\"reasoning\" open>Answer: 5</details>\\boxed{70}",
            "Answer: 70\n<think>wait, Answer: 5",
            "Let me see, Answer: 5 … </think>Answer: 70",
            "Is 3 < 5? Yes. Answer: 70",
            "<details>Answer: 70</details>",
            "Äpfel ünd ÖL <thought>ß 5</thought> Answer: 70",
        ] {
            assert!(score(text, "70"), "{text}");
        }
        assert!(score("Answer: 000", "0") && score("\\boxed{1,024}", "1024") && score("\\boxed{7}", " 007 "));
    }

    #[test]
    fn wrong_answers() {
        for text in [
            "",
            "70",
            "the answer is 70",
            "Answer: 71",
            "Answer: 70000",
            "Answer: 70.5",
            "Answer: 70/3",
            "Answer: 70,000",
            "Answer: x",
            "Answer: 70\nAnswer: 5",
            "\\boxed{70} but then \\boxed{5}",
            "\\boxed{70",
            "\\boxed{}",
            "\\boxed{7.0}",
            "\\boxed{\\frac{70}{1}}",
            "<think>Answer: 70",
            "<think>Answer: 70</think>",
            "<think>Answer: 70</thinking>",
            "Answer: 70 </think>",
            "<details type=\"reasoning\">\\boxed{70}</details>",
        ] {
            assert!(!score(text, "70"), "{text}");
        }
        assert!(!score("Answer: 0", "") && !score("\\boxed{}", ""));
    }
}
