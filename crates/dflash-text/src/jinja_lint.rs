//! Finds what a template uses and the environment lacks, so that it is known at load and not at a request.
//!
//! Filters, tests, methods and functions are looked up by name only when they run. A template may not run one
//! for months: only when a conversation holds a tool call, say.

use std::collections::HashSet;

use minijinja::{Environment, ErrorKind};

use crate::TextError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    Sign(char),
    Literal,
}

/// Methods that change what they are called on. The reference refuses them, but only when they run, and there are
/// templates that hold one in a branch that never does.
const MUTATING: [&str; 11] = [
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
];

/// Checks every name that `source` calls; `undeclared` are the variables the template expects from outside.
pub(crate) fn check(
    env: &Environment<'_>,
    source: &str,
    undeclared: &HashSet<String>,
) -> Result<(), TextError> {
    let parts: Vec<_> = expressions(source).into_iter().map(|(at, code)| (at, tokens(code))).collect();
    // A macro may call itself, or one that comes later.
    let macros: HashSet<&str> = parts.iter().filter_map(|(_, tokens)| macro_name(tokens)).collect();
    for (at, tokens) in &parts {
        let line = 1 + source[..*at].matches('\n').count();
        for (kind, name) in uses(tokens) {
            let known = match kind {
                "filter" => !fails(env, &format!("''|{name}"), ErrorKind::UnknownFilter),
                "test" => !fails(env, &format!("'' is {name}"), ErrorKind::UnknownTest),
                "method" => knows_method(env, name),
                _ if macros.contains(name) => true,
                _ => !undeclared.contains(name) || env.globals().any(|(global, _)| global == name),
            };
            if !known {
                return Err(TextError::TemplateUnsupported { kind, name: name.to_owned(), line });
            }
        }
    }
    Ok(())
}

fn knows_method(env: &Environment<'_>, name: &str) -> bool {
    // `loop` objects are only there inside a loop.
    let runs_only = matches!(name, "cycle" | "changed") || MUTATING.contains(&name);
    runs_only
        || ["''", "[]", "{}"]
            .iter()
            .any(|on| !fails(env, &format!("{on}.{name}()"), ErrorKind::UnknownMethod))
}

fn fails(env: &Environment<'_>, expression: &str, with: ErrorKind) -> bool {
    let result = env.compile_expression(expression).and_then(|compiled| compiled.eval(()));
    result.is_err_and(|error| error.kind() == with)
}

/// The insides of `{{ }}` and `{% %}`, with their places; comments and raw blocks are not code.
pub(crate) fn expressions(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = source[at..].find('{').map(|offset| at + offset) {
        let inside = open + 2;
        let close = match source.as_bytes().get(open + 1) {
            Some(b'#') => source[inside..].find("#}").map(|offset| inside + offset),
            Some(b'{') => end_of_code(source, inside, "}}"),
            Some(b'%') => end_of_code(source, inside, "%}"),
            _ => {
                at = open + 1;
                continue;
            }
        };
        let Some(close) = close else { break };
        let code = &source[inside..close];
        at = close + 2;
        match bare(code) {
            "raw" if source[open..].starts_with("{%") => at = end_of_raw(source, at),
            _ if source[open..].starts_with("{#") => {}
            _ => found.push((open, code)),
        }
    }
    found
}

fn end_of_code(source: &str, from: usize, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut brackets = 0;
    for (offset, c) in source[from..].char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if brackets == 0 && source[from + offset..].starts_with(close) => {
                return Some(from + offset);
            }
            None if matches!(c, '(' | '[' | '{') => brackets += 1,
            None if matches!(c, ')' | ']' | '}') => brackets -= 1,
            None => {}
        }
    }
    None
}

fn end_of_raw(source: &str, from: usize) -> usize {
    let tags = source[from..].match_indices("{%").map(|(offset, _)| from + offset);
    let ends = |open: &usize| {
        let code = &source[open + 2..];
        code.find("%}").is_some_and(|close| bare(&code[..close]) == "endraw")
    };
    tags.into_iter().find(ends).unwrap_or(source.len())
}

/// A tag's inside without the signs that say what happens to the blanks around it.
fn bare(code: &str) -> &str {
    code.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+')
}

pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(c) = rest.chars().next() {
        let (token, len) = match c {
            '\'' | '"' => (Token::Literal, literal_len(rest, c)),
            c if c.is_alphanumeric() || c == '_' => {
                let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let number = c.is_ascii_digit();
                (if number { Token::Literal } else { Token::Word(&rest[..len]) }, len)
            }
            c => (Token::Sign(c), c.len_utf8()),
        };
        tokens.push(token);
        rest = rest[len..].trim_start();
    }
    tokens
}

fn macro_name<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let words = tokens.iter().filter(|token| !matches!(token, Token::Sign('-' | '+')));
    match words.take(2).collect::<Vec<_>>()[..] {
        [Token::Word("macro"), Token::Word(name)] => Some(name),
        _ => None,
    }
}

fn literal_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `(kind, name)` of everything that is looked up by name when it runs.
fn uses<'a>(tokens: &[Token<'a>]) -> Vec<(&'static str, &'a str)> {
    let at = |index: Option<usize>| index.and_then(|index| tokens.get(index)).copied();
    let use_of = |(index, token): (usize, &Token<'a>)| {
        let Token::Word(name) = *token else { return None };
        let (before, called) = (at(index.checked_sub(1)), at(Some(index + 1)) == Some(Token::Sign('(')));
        let negated =
            before == Some(Token::Word("not")) && at(index.checked_sub(2)) == Some(Token::Word("is"));
        match before {
            Some(Token::Sign('|')) => Some(("filter", name)),
            Some(Token::Sign('.')) => called.then_some(("method", name)),
            _ if negated => Some(("test", name)),
            Some(Token::Word("is")) => (name != "not").then_some(("test", name)),
            _ => called.then_some(("function", name)),
        }
    };
    tokens.iter().enumerate().filter_map(use_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jinja::environment;

    fn verdict(source: &str) -> Result<(), String> {
        let env = environment();
        let template = env.template_from_str(source).map_err(|e| e.to_string())?;
        check(&env, source, &template.undeclared_variables(false)).map_err(|e| e.to_string())
    }

    #[test]
    fn unknown_names_are_found_with_their_line() {
        for (source, said) in [
            ("{{ x\n| nonsense }}", "unknown filter \"nonsense\" (line 1)"),
            ("a\n{% if x is nonsense %}{% endif %}", "unknown test \"nonsense\" (line 2)"),
            ("{% if x is not nonsense %}{% endif %}", "unknown test \"nonsense\""),
            ("{{ raw }}{{ {'a': {}}.a | nonsense }}", "unknown filter \"nonsense\""),
            ("{{ x.zfill_it('}}') }}", "unknown method \"zfill_it\""),
            ("\n\n{{ strptime('x') }}", "unknown function \"strptime\" (line 3)"),
        ] {
            let error = verdict(source).unwrap_err();
            assert!(error.contains(said), "{source}: {error}");
        }
    }

    #[test]
    fn known_names_and_text_pass() {
        for source in [
            "{# x | nonsense #}{ x | nonsense }{% raw %}{{ x | nonsense }}{% endraw %}",
            "{% raw %} endraw {{ ' {% endraw %}{# #}{#}{{ x | nonsense }}#}",
            "{{ 'a|nonsense' ~ \"is nonsense\" }}",
            "{%- macro m(x) %}{{ m(x) }}{{ n(x) }}{% endmacro %}{% macro n(x) %}{% endmacro %}",
            "{% if never %}{% set _ = list.append(1) %}{% endif %}",
            "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1) }}{{ range(3) | list }}{{ namespace(a=1).a }}",
            "{% for x in y %}{{ loop.cycle('a', 'b') }}{{ x.strip('\\n').split('a') | last }}{% endfor %}",
            "{% if x is not none and (y is defined) and not (z is string) %}{{ raise_exception('no') }}{% endif %}",
            "{{ x | tojson(indent=2) | trim | default('', true) | selectattr('a', 'equalto', 1) | list }}",
        ] {
            assert_eq!(verdict(source), Ok(()), "{source}");
        }
    }
}
