//! First words of self-made prompts. The target goes on from here in its own voice; the words only see to it that it
//! speaks of many things.

/// Sentences to begin with; `{}` becomes one of the words.
struct Starts {
    category: &'static str,
    /// Out of how many prompts in a round this category gets so many.
    share: u64,
    sentences: &'static [&'static str],
    words: &'static [&'static str],
}

const STARTS: &[Starts] = &[
    Starts {
        category: "code",
        share: 7,
        sentences: &[
            "Write a {} function that",
            "Write a {} function `",
            "Write a {} program that",
            "Write a {} class",
            "Write a {} script that",
            "Write {} code to",
            "Write {} unit tests for",
            "Implement a {} function to",
            "Explain this {} code:",
            "In {}, how do I",
            "How can I use {} to",
            "Create a {} class for",
            "Show how to sort",
            "Refactor this {} function so that it",
            "Fix the bug in this {} code:",
            "Write a SQL query that",
            "Give a complete {} example of",
            "Write a method in {} which checks whether",
            "Design a data structure in {} that",
        ],
        words: &[
            "Python",
            "Python",
            "Python",
            "Python",
            "JavaScript",
            "TypeScript",
            "Java",
            "C",
            "C++",
            "Rust",
            "Go",
            "C#",
            "Ruby",
            "Bash",
            "SQL",
            "PHP",
            "Kotlin",
            "Swift",
        ],
    },
    Starts {
        category: "maths",
        share: 6,
        sentences: &[
            "A {} sells",
            "A {} has",
            "A {} buys",
            "Two {}s share",
            "If a {} earns",
            "If a {} travels",
            "Solve the equation",
            "Solve for x:",
            "Solve the system of equations",
            "Factor the polynomial",
            "Find the derivative of",
            "Find the area of",
            "Find the sum of",
            "Find the probability that",
            "Find the value of",
            "Calculate the",
            "Simplify the expression",
            "How many ways",
            "How long does it take",
            "What is the average of",
            "What is the perimeter of",
            "What percentage of",
            "Prove that",
            "The ratio of",
            "A {} walks at",
            "Explain step by step how to",
            "List the first",
            "In a class of",
        ],
        words: &[
            "baker", "farmer", "student", "teacher", "shop", "train", "car", "cyclist", "factory", "worker",
            "girl", "boy", "company", "gardener", "library", "painter", "runner", "bus", "family", "school",
        ],
    },
    Starts {
        category: "chat",
        share: 7,
        sentences: &[
            "Explain {} to",
            "Explain why",
            "What is the difference between",
            "What are the benefits of {}",
            "What is",
            "Why do",
            "Why is {}",
            "How does {}",
            "How can I",
            "How do people",
            "Give me ten tips for",
            "Give me advice on {}",
            "I want to learn",
            "I have a problem with",
            "I am planning",
            "Can you help me with {}?",
            "Write a friendly e-mail to",
            "Write a letter to",
            "Write a short story about",
            "Write a poem about {}",
            "Write an essay about {}",
            "Tell me about {}",
            "Describe {} in",
            "Compare {} with",
            "Make a plan for",
            "Make a list of",
            "Who was",
            "Tell a story about a",
            "Suggest a recipe for",
            "What should I know about {}",
        ],
        words: &[
            "the weather",
            "gardening",
            "history",
            "music",
            "health",
            "sleep",
            "running",
            "money",
            "work",
            "the ocean",
            "animals",
            "cooking",
            "travel",
            "space",
            "friendship",
            "reading",
            "electricity",
            "school",
            "art",
            "sports",
            "language",
            "computers",
            "the human body",
            "a job interview",
            "the environment",
            "family",
        ],
    },
    Starts {
        category: "text",
        share: 4,
        sentences: &[
            "Summarise the following text in one paragraph.\n\n",
            "Summarize this article about {}:\n\n",
            "Translate the following sentences into {}:",
            "Rewrite this paragraph in a {} tone:\n\n",
            "Correct the mistakes in this text about {}:\n\n",
            "List the most important facts of this text:\n\n",
            "Continue this text about {}:\n\n",
            "Give a title to this text about {}:\n\n",
            "Answer the question with the help of the text.\n\nText:",
            "Turn these notes about {} into a report:\n\n",
        ],
        words: &[
            "Spanish",
            "French",
            "German",
            "simple",
            "formal",
            "a town",
            "bees",
            "a journey",
            "a company",
            "a river",
            "the climate",
            "a museum",
            "an invention",
            "trains",
        ],
    },
];

/// Category and first words of prompt `number`.
pub(super) fn starter(number: u64) -> (&'static str, String) {
    let round: u64 = STARTS.iter().map(|starts| starts.share).sum();
    let mut place = number % round;
    let turn = number / round;
    for starts in STARTS {
        if place < starts.share {
            return (starts.category, starts.sentence(turn * starts.share + place));
        }
        place -= starts.share;
    }
    unreachable!("a round is the sum of all shares")
}

impl Starts {
    /// Every sentence with every word, before any comes again.
    fn sentence(&self, index: u64) -> String {
        let sentences = self.sentences.len() as u64;
        let sentence = self.sentences[(index % sentences) as usize];
        let word = self.words[((index / sentences + index % sentences) % self.words.len() as u64) as usize];
        sentence.replace("{}", word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::starter;

    #[test]
    fn starters_vary_and_keep_the_shares() {
        let all: Vec<_> = (0..2400).map(starter).collect();
        let code = all.iter().filter(|(category, _)| *category == "code").count();
        assert_eq!(code, 700);
        assert!(all.iter().map(|(_, text)| text).collect::<HashSet<_>>().len() > 500);
        assert!(all.iter().all(|(_, text)| !text.contains("{}")));
    }
}
