use std::fs;

/// Short ones of several kinds.
pub fn built_in() -> Vec<String> {
    [
        "Write a Python function that says whether a number is prime.",
        "Tell a story about a dragon who learns to cook.",
        "List the months of the year, one a line.",
        "Explain what a queue is to a child.",
        "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
        "Write a letter to a friend about a walk in the rain.",
        "What is 17 times 23? Think step by step.",
        "Translate into French: good morning, how are you?",
        "Write a JSON object with the name, age and city of a person.",
        "Give three reasons to read books.",
    ]
    .map(str::to_owned)
    .into()
}

/// One a line.
pub fn of_file(path: &str) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let prompts: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if prompts.is_empty() { Err(format!("{path} has no prompt")) } else { Ok(prompts) }
}
