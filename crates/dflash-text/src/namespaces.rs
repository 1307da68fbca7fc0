//! Every assignment to a namespace goes through a filter that says what a namespace may hold.

use crate::TextError;
use crate::jinja_lint::{Token, expressions, tokens};
use crate::limits::KEEP;

/// `{% set ns.a = x %}` becomes `{% set ns.a = (x) | keep %}`.
pub(crate) fn guarded(source: &str) -> Result<String, TextError> {
    let mut out = String::new();
    let mut done = 0;
    for (at, code) in expressions(source).into_iter().filter(|(at, code)| sets_attribute(source, *at, code)) {
        let line = 1 + source[..at].matches('\n').count();
        // A block's text is harmless; a filter on it may give anything.
        match code.split_once('=') {
            Some((target, _)) if target.contains(',') => return Err(refused(line)),
            None if code.contains('|') => return Err(refused(line)),
            None => {}
            Some((target, value)) => {
                let value = value.trim_end();
                let (value, sign) = match value.strip_suffix(['-', '+']) {
                    Some(shorter) => (shorter, &value[shorter.len()..]),
                    None => (value, ""),
                };
                out += &format!("{}{{%{target}= ({value}) | {KEEP} {sign}", &source[done..at]);
                done = at + 2 + code.len();
            }
        }
    }
    Ok(out + &source[done..])
}

fn sets_attribute(source: &str, at: usize, code: &str) -> bool {
    let tokens = tokens(code);
    let words = tokens.iter().skip_while(|token| matches!(token, Token::Sign('-' | '+')));
    let mut target = words.take_while(|token| !matches!(token, Token::Sign('=' | '|')));
    source[at..].starts_with("{%")
        && target.next() == Some(&Token::Word("set"))
        && target.any(|token| *token == Token::Sign('.'))
}

fn refused(line: usize) -> TextError {
    let reason = "an attribute can only be set alone and not through a filter".into();
    TextError::TemplateSyntax { line, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_value_is_the_value_itself() {
        let source = "{% set ns = namespace(n=[]) %}{% set ns.u = nothing %}{% set ns.n = ns.n + [1] -%} {{ ns.u is defined }}\
            {%- set ns.t = 1, 'a' %}{% set ns.d = {'k': '=}}'} %}{% set ns.i = ns.d.items() | list %}{{ ns.n }}{{ ns.t[1] }}{{ ns.d.k }}{{ ns.i[0][0] }}\
            {%- set ns.c = 1 if false %}{{ ns.c is defined }}{% set ns.e = ns.n == [1] %}{{ ns.e }}{% set ns.x = '\u{e9}' ~ 1 | string %}{{ ns.x }}";
        let env = crate::jinja::environment();
        let plain = env.render_str(source, ()).unwrap();
        assert_eq!(env.render_str(&guarded(source).unwrap(), ()).unwrap(), plain);
    }

    #[test]
    fn only_attributes_are_guarded() {
        let source = "{%- set ns.a = 1 if x -%}{% set b = n.a %}{% set n.c %}x{% endset %}{{ ns.a }}";
        let expected = "{%- set ns.a = ( 1 if x ) | dflash_keep -%}{% set b = n.a %}{% set n.c %}x{% endset %}{{ ns.a }}";
        assert_eq!(guarded(source).unwrap(), expected);
        for source in
            ["{% set n.a, n.b = n, n %}", "{% set n.a | default(n) %}{% endset %}", "{% set (n.a, b) = n %}"]
        {
            assert!(guarded(source).is_err(), "{source}");
        }
    }
}
