//! Any text strung together from parts of markers and calls, in several tokenisations.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const FORMATS: [ToolFormat; 7] = [
    ToolFormat::JsonTags,
    ToolFormat::QwenXml,
    ToolFormat::Gemma,
    ToolFormat::Llama,
    ToolFormat::Lfm2,
    ToolFormat::Mistral,
    ToolFormat::Json,
];

/// Parts of markers, calls and text, to be strung together.
fn scraps() -> impl Strategy<Value = String> {
    let scraps = [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<function=",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "<|tool_call>",
        "<tool_call|>",
        "call:f{",
        "<|\"|>",
        "<|channel>",
        "thought",
        "<channel|>",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "[f(",
        "a=1",
        ")]",
        "[TOOL_CALLS]",
        "[ARGS]",
        "f",
        "<|python_tag|>",
        "{\"name\": \"f\", \"arguments\": ",
        "{\"name\": \"f\"}",
        "{\"a\": 1}",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "a",
        " ",
        "\n",
        "é",
        "👩",
        "<",
        "|",
        "\\",
        "1",
        "name",
        ";",
        "\u{0}",
    ];
    let cut = (prop::sample::select(scraps.to_vec()), 0..8usize, any::<bool>());
    let scrap = cut.prop_map(|(scrap, at, whole)| match whole {
        true => scrap.to_owned(),
        false => scrap.chars().take(at).collect(),
    });
    prop::collection::vec(scrap, 0..24).prop_map(|scraps| scraps.concat())
}

/// What is left of a text when everything that a parser may leave out or write anew is gone.
fn letters(text: &str) -> [usize; 2] {
    ['é', '👩'].map(|letter| text.chars().filter(|c| *c == letter).count())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tokenisation_reads_the_same(
        text in scraps(),
        tools_as in prop::sample::select(FORMATS.to_vec()),
        gemma in any::<bool>(),
        in_reasoning in any::<bool>(),
        stop in prop::sample::select(vec!["", "}", "é", "\n"]),
    ) {
        let reasoning = Some(if gemma { gemma_thought() } else { think() });
        let stop = Some(stop).filter(|stop| !stop.is_empty()).map(String::from).into_iter().collect();
        let format = AnswerFormat { reasoning, in_reasoning, stop, ..format(tools_as) };
        let merged = merged();
        let found = read_bytes(&text, &format);
        prop_assert_eq!(&read(&merged, &merged.encode(&text, true).unwrap(), &format), &found);
        let control = own_control(tools_as, gemma);
        prop_assert_eq!(&read(control, &control.encode(&text, true).unwrap(), &format), &found);
        let mut all = found.reasoning.clone() + &found.content;
        for (_, arguments, complete) in &found.calls {
            all += arguments;
            prop_assert!(!complete || serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_ok());
        }
        if format.stop.is_empty() {
            prop_assert_eq!(letters(&all), letters(&text));
        }
    }

    #[test]
    fn any_ids_are_read(
        ids in prop::collection::vec(0..280u32, 0..64),
        tools_as in prop::sample::select(FORMATS.to_vec()),
    ) {
        let tokenizer = with_control();
        read(&tokenizer, &ids, &format(tools_as));
    }
}

/// Only the markers of one format as control tokens: those of others would not be shown.
fn own_control(tools_as: ToolFormat, gemma: bool) -> &'static Tokenizer {
    static ALL: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
        let choices = FORMATS.iter().flat_map(|format| [(*format, false), (*format, true)]);
        choices.map(|(format, gemma)| build(format, gemma)).collect()
    });
    let at = FORMATS.iter().position(|format| *format == tools_as).unwrap();
    &ALL[2 * at + usize::from(gemma)]
}

fn build(tools_as: ToolFormat, gemma: bool) -> Tokenizer {
    let calls: &[&str] = match tools_as {
        ToolFormat::JsonTags | ToolFormat::QwenXml => &["<tool_call>", "</tool_call>"],
        ToolFormat::Gemma => &["<|tool_call>", "<tool_call|>", "<|\"|>"],
        ToolFormat::Llama => &["<|python_tag|>"],
        ToolFormat::Lfm2 => &["<|tool_call_start|>", "<|tool_call_end|>"],
        ToolFormat::Mistral => &["[TOOL_CALLS]", "[ARGS]"],
        ToolFormat::Json => &[],
    };
    let reasoning = if gemma { ["<|channel>", "<channel|>"] } else { ["<think>", "</think>"] };
    let extra: Vec<(&str, i32)> = calls.iter().chain(&reasoning).map(|token| (*token, 3)).collect();
    Tokenizer::from_gguf(vocab("gpt2", &extra, &[])).unwrap()
}

/// The markers as ordinary tokens.
fn merged() -> Tokenizer {
    let extra = [
        ("<think>", 4),
        ("</tool_call>", 4),
        ("<tool_call>", 4),
        ("\"}", 1),
        ("unc", 1),
        ("nc", 1),
        ("na", 1),
    ];
    Tokenizer::from_gguf(vocab("gpt2", &extra, &["\" }", "n c", "u nc", "n a"])).unwrap()
}
