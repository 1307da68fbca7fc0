//! Literals of Python, as some models write the arguments of calls.

use crate::tool_set::quoted;

/// Levels of lists and dictionaries.
const DEEPEST: usize = 100;

/// The JSON of one literal; `None` when `text` is none.
pub(crate) fn json_of(text: &str) -> Option<String> {
    let mut reader = LiteralReader::new(text);
    let json = reader.value(0)?;
    reader.blanks();
    reader.rest().is_empty().then_some(json)
}

/// Reads literals from the front of a text.
#[derive(Debug, Clone)]
pub(crate) struct LiteralReader<'a> {
    text: &'a str,
}

impl<'a> LiteralReader<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text }
    }

    pub fn rest(&self) -> &'a str {
        self.text
    }

    pub fn blanks(&mut self) {
        self.text = self.text.trim_start();
    }

    /// Takes `sign`, with what blanks are before it.
    pub fn eat(&mut self, sign: char) -> bool {
        let rest = self.text.trim_start().strip_prefix(sign);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Takes a name: letters, digits and underlines.
    pub fn name(&mut self) -> Option<&'a str> {
        self.blanks();
        let end = self.text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.text.len());
        let (name, rest) = self.text.split_at(end);
        self.text = rest;
        (!name.is_empty()).then_some(name)
    }

    /// Takes one value and gives its JSON.
    pub fn value(&mut self, depth: usize) -> Option<String> {
        self.blanks();
        match self.text.chars().next()? {
            _ if depth == DEEPEST => None,
            quote @ ('"' | '\'') => self.string(quote).map(|text| quoted(&text)),
            '[' => self.list('[', ']', depth),
            '(' => self.list('(', ')', depth),
            '{' => self.dictionary(depth),
            _ => self.scalar(),
        }
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<String> {
        let mut items = Vec::new();
        self.eat(open);
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(',') && !self.text.trim_start().starts_with(close) {
                return None;
            }
        }
        Some(format!("[{}]", items.join(", ")))
    }

    fn dictionary(&mut self, depth: usize) -> Option<String> {
        let mut items = Vec::new();
        self.eat('{');
        while !self.eat('}') {
            let key = self.value(depth + 1)?;
            let key = if key.starts_with('"') { key } else { quoted(&key) };
            if !self.eat(':') {
                return None;
            }
            items.push(format!("{key}: {}", self.value(depth + 1)?));
            if !self.eat(',') && !self.text.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(format!("{{{}}}", items.join(", ")))
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.text[1..].chars();
        loop {
            match chars.next()? {
                c if c == quote => break,
                '\\' => escaped(&mut chars, &mut out)?,
                c => out.push(c),
            }
        }
        self.text = chars.as_str();
        Some(out)
    }

    fn scalar(&mut self) -> Option<String> {
        let end = self.text.find(|c: char| c.is_whitespace() || ",)]}:".contains(c));
        let (word, rest) = self.text.split_at(end.unwrap_or(self.text.len()));
        self.text = rest;
        match word {
            "True" | "true" => Some("true".to_owned()),
            "False" | "false" => Some("false".to_owned()),
            "None" | "null" => Some("null".to_owned()),
            _ => {
                let number = word.replace('_', "");
                serde_json::from_str::<serde_json::Number>(&number).ok().map(|_| number)
            }
        }
    }
}

fn escaped(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    let plain = match chars.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        'u' => return unicode(chars, out),
        'x' => hex(chars, 2)?,
        c @ ('\\' | '\'' | '"') => c,
        '\n' => return Some(()),
        c => {
            out.push('\\');
            c
        }
    };
    out.push(plain);
    Some(())
}

/// Four digits, or two times four for a character beyond the first plane.
fn unicode(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    let unit = |chars: &mut std::str::Chars<'_>| {
        let (digits, rest) = chars.as_str().split_at_checked(4)?;
        *chars = rest.chars();
        u16::from_str_radix(digits, 16).ok()
    };
    let mut units = vec![unit(chars)?];
    if (0xD800..0xDC00).contains(&units[0]) && chars.as_str().starts_with("\\u") {
        *chars = chars.as_str()[2..].chars();
        units.push(unit(chars)?);
    }
    *out += &String::from_utf16_lossy(&units);
    Some(())
}

fn hex(chars: &mut std::str::Chars<'_>, len: usize) -> Option<char> {
    let (digits, rest) = chars.as_str().split_at_checked(len)?;
    *chars = rest.chars();
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn literals_become_json() {
        let json = |text: &str| json_of(text).unwrap_or_else(|| "?".into());
        assert_eq!(
            json("{'a': 1, \"b\": [True, None, -2.5], 3: ('x',)}"),
            r#"{"a": 1, "b": [true, null, -2.5], "3": ["x"]}"#
        );
        assert_eq!(json(r"'it\'s \n \u00e9 \ud83d\ude00 \d'"), "\"it's \\n é 😀 \\\\d\"");
        assert_eq!(json(" 1_000 "), "1000");
        for broken in ["", "[1", "{'a' 1}", "f()", "1 2", "'a", "[1 2]", "0x1", "\\", "'\\u12'", "'\\xé'"] {
            assert_eq!(json(broken), "?", "{broken}");
        }
        assert_eq!(json(&"[".repeat(10_000)), "?");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_json_is_json(text in r#"[\[\]{}(),:'"\\xu0-9aé None]{0,16}"#) {
            if let Some(json) = json_of(&text) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{text} {json}");
            }
        }
    }
}
