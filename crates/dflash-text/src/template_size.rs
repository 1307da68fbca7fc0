//! Limits on a template's text, so that compiling it ends. They lie far beyond what real templates have.

use crate::TextError;
use crate::jinja_lint::{Token, expressions, tokens};

/// Bytes of one template.
const LONGEST: usize = 256 << 10;
/// Operators, filters and other signs within one tag: the compiler goes one level deeper for each.
const SIGNS_IN_TAG: usize = 1000;
/// `elif` in the whole template: each is one level deeper, too.
const BRANCHES: usize = 500;
/// Brackets opened in the whole template, which bounds how deeply it can nest a value.
const BRACKETS: usize = 5000;
const WORD_OPERATORS: [&str; 7] = ["and", "or", "not", "is", "in", "if", "else"];

/// Refuses a template that is out of all proportion.
pub(crate) fn check(source: &str) -> Result<(), TextError> {
    if source.len() > LONGEST {
        return Err(too_large(0, format!("it has more than {LONGEST} bytes")));
    }
    let (mut branches, mut brackets) = (0, 0);
    for (at, code) in expressions(source) {
        let tokens = tokens(code);
        let count = |wanted: fn(&Token) -> bool| tokens.iter().filter(|&token| wanted(token)).count();
        branches += count(|token| matches!(token, Token::Word("elif")));
        brackets += count(|token| matches!(token, Token::Sign('(' | '[' | '{')));
        let line = || 1 + source[..at].matches('\n').count();
        if count(deepens) > SIGNS_IN_TAG {
            return Err(too_large(line(), format!("more than {SIGNS_IN_TAG} operators in one tag")));
        }
        if branches > BRANCHES || brackets > BRACKETS {
            let reason = format!("more than {BRANCHES} elif or {BRACKETS} brackets");
            return Err(too_large(line(), reason));
        }
    }
    Ok(())
}

fn deepens(token: &Token) -> bool {
    match token {
        Token::Sign(sign) => !matches!(sign, ',' | ':'),
        Token::Word(word) => WORD_OPERATORS.contains(word),
        Token::Literal => false,
    }
}

fn too_large(line: usize, reason: String) -> TextError {
    TextError::TemplateSyntax { line, reason: format!("too large: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_without_end_are_refused() {
        let chain = |head: &str, link: &str| format!("{{{{ {head}{} }}}}", link.repeat(50_000));
        for source in [
            chain("1", "+1"),
            chain("1", "~1"),
            chain("x", "|trim"),
            chain("x", ".a"),
            chain("x", "[0]"),
            chain("1", "**1"),
            chain("x", " if x"),
            chain("{'a': {}}", "+1"),
            format!("{{{{ 1{} }}}}", " and 1".repeat(40_000)),
            format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
            format!("{{{{ {}1 }}}}", "-".repeat(50_000)),
            format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(20_000)),
            "{% set x = [x] %}".repeat(6_000),
            "x".repeat(300_000),
        ] {
            let error = check(&source).unwrap_err();
            assert!(error.to_string().contains("too large"), "{error}");
        }
    }
}
