use super::Prompt;
use super::lines;

/// A kind of built-in prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Small functions in several languages.
    Code,
    /// Word problems and algebra.
    Maths,
    /// Questions, advice, explanations.
    Chat,
    /// A text to be summarised.
    Summary,
    /// A text to be translated.
    Translation,
    /// A text, code or data to be given back with one change.
    Copy,
    /// A request to be answered with a call of a described tool.
    Tools,
    /// A text of some thousand tokens and a question about it.
    Long,
}

impl Category {
    /// Every category, in the order of suites and reports.
    pub const ALL: [Self; 8] = [
        Self::Code,
        Self::Maths,
        Self::Chat,
        Self::Summary,
        Self::Translation,
        Self::Copy,
        Self::Tools,
        Self::Long,
    ];

    /// Its name, and that of the suite with its prompts alone.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Maths => "maths",
            Self::Chat => "chat",
            Self::Summary => "summary",
            Self::Translation => "translation",
            Self::Copy => "copy",
            Self::Tools => "tools",
            Self::Long => "long",
        }
    }

    /// Its prompts. The files are part of the binary; a test reads each of them.
    pub(super) fn prompts(self) -> Vec<Prompt> {
        lines::read(self.lines(), self.name(), self.name()).unwrap_or_default()
    }

    fn lines(self) -> &'static str {
        match self {
            Self::Code => include_str!("../../suites/code.jsonl"),
            Self::Maths => include_str!("../../suites/maths.jsonl"),
            Self::Chat => include_str!("../../suites/chat.jsonl"),
            Self::Summary => include_str!("../../suites/summary.jsonl"),
            Self::Translation => include_str!("../../suites/translation.jsonl"),
            Self::Copy => include_str!("../../suites/copy.jsonl"),
            Self::Tools => include_str!("../../suites/tools.jsonl"),
            Self::Long => include_str!("../../suites/long.jsonl"),
        }
    }
}

/// The first prompt of every category.
pub(super) fn first_of_each() -> Vec<Prompt> {
    Category::ALL.iter().filter_map(|category| category.prompts().into_iter().next()).collect()
}

/// Every prompt: the first of every category, then every second one, and so on, so that a part of them is a part of
/// every category.
pub(super) fn round_robin() -> Vec<Prompt> {
    let mut rest = Category::ALL.map(|category| category.prompts().into_iter());
    let mut prompts = Vec::new();
    loop {
        let before = prompts.len();
        prompts.extend(rest.iter_mut().filter_map(Iterator::next));
        if prompts.len() == before {
            return prompts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_at_least_eight_prompts_of_its_own() {
        for category in Category::ALL {
            let prompts = lines::read(category.lines(), category.name(), "").unwrap();
            assert!(prompts.len() >= 8, "{category:?}");
            for (number, prompt) in prompts.iter().enumerate() {
                assert_eq!(prompt.id, format!("{}-{}", category.name(), number + 1));
                assert_eq!(prompt.category, category.name());
                assert_eq!(prompt.text.trim(), prompt.text, "{}", prompt.id);
            }
        }
    }

    #[test]
    fn no_text_is_there_twice() {
        let mut texts: Vec<String> = round_robin().into_iter().map(|prompt| prompt.text).collect();
        let count = texts.len();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), count);
    }

    #[test]
    fn lengths_are_those_of_their_kind() {
        let lengths =
            |category: Category| category.prompts().into_iter().map(|prompt| prompt.text.chars().count());
        assert!(lengths(Category::Summary).all(|length| (900..=2000).contains(&length)));
        // A token is about four characters.
        assert!(lengths(Category::Long).all(|length| (6_000..=12_000).contains(&length)));
    }
}
