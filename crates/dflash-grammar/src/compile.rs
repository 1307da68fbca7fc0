use std::thread;

use dflash_text::{TextError, Tokenizer};
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::{ParserFactory, TokenParser, regex_to_lark};
use serde_json::json;

use crate::lark::{Lark, Text, literal};
use crate::schema::{MOST_PATTERN, bound, checked};
use crate::tools::Tool;
use crate::{Constraint, GrammarError, Reasoning, calls};

/// Bytes of a grammar's text, and brackets open in it at once.
const MOST_LARK: usize = 64 * 1024;
const MOST_OPEN: usize = 64;
/// Characters of what the library says of a fault.
const MOST_WORDS: usize = 300;
/// The library goes down every reference and along every list by recursion.
const STACK: usize = 64 << 20;

/// What one grammar may take: a second to compile, some 20 ms and 100 MB to follow.
pub(crate) fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// The parser of `constraint`.
pub(crate) fn compile(
    factory: &ParserFactory,
    tokenizer: &Tokenizer,
    constraint: &Constraint,
    reasoning: Option<&Reasoning>,
) -> Result<TokenParser, GrammarError> {
    let mut lark = Lark::new(tokenizer);
    let answer = answer(&mut lark, constraint)?;
    let start = match reasoning {
        Some(reasoning) => after_reasoning(&mut lark, reasoning, &answer).map_err(unspeakable)?,
        None => answer,
    };
    let grammar = TopLevelGrammar::from_lark(lark.finish(&start));
    let parser = deep(|| factory.create_parser(grammar))?;
    parser.map_err(|error| refused(constraint, &error.to_string()))
}

/// The expression of the answer itself.
fn answer(lark: &mut Lark<'_>, constraint: &Constraint) -> Result<String, GrammarError> {
    match constraint {
        Constraint::JsonObject => Ok(format!("%json {}", checked(&json!({"type": "object"}))?)),
        Constraint::JsonSchema(schema) => Ok(format!("%json {}", checked(schema)?)),
        Constraint::ToolCalls { format, tools, choice, parallel } => {
            calls::answer(lark, *format, &Tool::read_all(tools)?, choice, *parallel)
        }
        Constraint::AnyOf(constraints) => {
            let rules: Vec<String> = constraints
                .iter()
                .map(|constraint| answer(lark, constraint).map(|expression| lark.rule(&expression)))
                .collect::<Result<_, _>>()?;
            Ok(lark.rule(&rules.join(" | ")))
        }
        Constraint::Choice(texts) => {
            bound("a choice's size in bytes", texts.iter().map(String::len).sum(), MOST_LARK)?;
            let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
            Ok(lark.rule(&texts.join(" | ")))
        }
        Constraint::Regex(pattern) => {
            bound("a regular expression's size in bytes", pattern.len(), MOST_PATTERN)?;
            Ok(lark.terminal(&format!("/{}/", regex_to_lark(pattern, ""))))
        }
        Constraint::Lark(text) => {
            check_lark(text)?;
            Ok(format!("%lark {{\n{text}\n}}"))
        }
    }
}

/// `answer` after a block of reasoning, which the model may open where the prompt has not.
fn after_reasoning(lark: &mut Lark<'_>, reasoning: &Reasoning, answer: &str) -> Result<String, TextError> {
    let (open, close) = (lark.marker(&reasoning.markers.open)?, lark.marker(&reasoning.markers.close)?);
    let thought = lark.text_until(&Text::any(), &close);
    let gap = lark.terminal("/[ \\n]{1,4}/");
    let answer = lark.rule(answer);
    Ok(match reasoning.begun {
        true => format!("{thought} {gap}? {answer}"),
        false => format!("({} {thought} {gap}?)? {answer}", open.expression()),
    })
}

fn unspeakable(error: TextError) -> GrammarError {
    GrammarError::Vocabulary { reason: error.to_string() }
}

/// Runs `work` where there is stack enough.
fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, GrammarError> {
    let no_thread = |reason: String| GrammarError::Grammar { kind: "constraint", reason };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("dflash-grammar".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).map_err(|error| no_thread(error.to_string()))?;
        thread.join().map_err(|_| no_thread("the grammar library panicked".into()))
    })
}

fn check_lark(text: &str) -> Result<(), GrammarError> {
    bound("a grammar's size in bytes", text.len(), MOST_LARK)?;
    if text.contains("%json") {
        let reason = "it has %json; ask for a JSON schema instead".into();
        return Err(GrammarError::Grammar { kind: "grammar", reason });
    }
    let mut open = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => continue,
        }
        bound("a grammar's nesting", open, MOST_OPEN)?;
    }
    Ok(())
}

/// The library's words, without where in its own code, its state and the grammar made here it was.
pub(crate) fn refused(constraint: &Constraint, words: &str) -> GrammarError {
    const OF_SCHEMA: &str = "failed to compile JSON schema: ";
    let words = words.split_once(OF_SCHEMA).map_or(words, |(_, words)| words);
    let lines = words.lines().map(str::trim).take_while(|line| !line.starts_with('<') && !is_excerpt(line));
    let reason: String = lines.collect::<Vec<_>>().join(" ").chars().take(MOST_WORDS).collect();
    match constraint {
        Constraint::JsonObject | Constraint::JsonSchema(_) => GrammarError::Schema { reason },
        Constraint::ToolCalls { .. } => GrammarError::Tools { reason },
        Constraint::AnyOf(_) => GrammarError::Grammar { kind: "constraint", reason },
        Constraint::Choice(_) => GrammarError::Grammar { kind: "choice", reason },
        Constraint::Regex(_) => GrammarError::Grammar { kind: "regular expression", reason },
        Constraint::Lark(_) => GrammarError::Grammar { kind: "grammar", reason },
    }
}

/// Whether the library shows the grammar here: `12 | start: …`.
fn is_excerpt(line: &str) -> bool {
    line.split_once(" |")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
