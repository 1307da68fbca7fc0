//! JSON, one character at a time.

/// Levels of lists and objects, as many as common readers take.
const DEEPEST: usize = 120;

/// What a character is within the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Between other parts.
    Blank,
    /// A bracket that opens a list or an object; the depth counts it already.
    Open,
    /// A bracket that closes; the depth no longer counts it.
    Close,
    /// A comma or a colon.
    Punctuation,
    /// Within a key, its quotes included.
    Key,
    /// The quote at the end of a key.
    KeyEnd,
    /// Within a string, a number or a word.
    Scalar,
    /// The quote at the end of a string.
    StringEnd,
}

/// The text is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

/// Checks one JSON value as it is written. Control characters within strings, which the standard wants escaped,
/// are let through: models write them.
#[derive(Debug, Clone)]
pub(crate) struct JsonScanner {
    /// Whether each open bracket is that of an object.
    open: Vec<bool>,
    expect: Expect,
    scalar: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    FirstItem,
    Key,
    FirstKey,
    Colon,
    Next,
}

#[derive(Debug, Clone, Copy)]
enum Scalar {
    None,
    String { key: bool, escape: Escape },
    Word(&'static str),
    Number(Number),
}

#[derive(Debug, Clone, Copy)]
enum Escape {
    None,
    Sign,
    Hex(u8),
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl JsonScanner {
    pub fn new() -> Self {
        Self { open: Vec::new(), expect: Expect::Value, scalar: Scalar::None }
    }

    /// Open brackets.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether the value is whole; a number at the top never is.
    pub fn done(&self) -> bool {
        self.open.is_empty() && self.expect == Expect::Next && matches!(self.scalar, Scalar::None)
    }

    pub fn push(&mut self, c: char) -> Result<Part, Broken> {
        match self.scalar {
            Scalar::None => self.structure(c),
            Scalar::String { key, escape } => self.string(c, key, escape),
            Scalar::Word(rest) => self.word(c, rest),
            Scalar::Number(number) => match number.next(c) {
                Some(number) => self.scalar(Scalar::Number(number)),
                None if number.may_end() => {
                    self.scalar = Scalar::None;
                    self.structure(c)
                }
                None => Err(Broken),
            },
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<Part, Broken> {
        self.scalar = scalar;
        Ok(Part::Scalar)
    }

    fn string(&mut self, c: char, key: bool, escape: Escape) -> Result<Part, Broken> {
        let escape = match (escape, c) {
            (Escape::None, '"') => {
                self.scalar = Scalar::None;
                return Ok(if key { Part::KeyEnd } else { Part::StringEnd });
            }
            (Escape::None, '\\') => Escape::Sign,
            (Escape::None, _) => Escape::None,
            (Escape::Sign, 'u') => Escape::Hex(4),
            (Escape::Sign, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => Escape::None,
            (Escape::Hex(1), c) if c.is_ascii_hexdigit() => Escape::None,
            (Escape::Hex(left), c) if c.is_ascii_hexdigit() => Escape::Hex(left - 1),
            _ => return Err(Broken),
        };
        self.scalar = Scalar::String { key, escape };
        Ok(if key { Part::Key } else { Part::Scalar })
    }

    fn word(&mut self, c: char, rest: &'static str) -> Result<Part, Broken> {
        let rest = rest.strip_prefix(c).ok_or(Broken)?;
        self.scalar(if rest.is_empty() { Scalar::None } else { Scalar::Word(rest) })
    }

    fn structure(&mut self, c: char) -> Result<Part, Broken> {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            return Ok(Part::Blank);
        }
        match (self.expect, c) {
            (Expect::Value | Expect::FirstItem, '{') => self.opens(true),
            (Expect::Value | Expect::FirstItem, '[') => self.opens(false),
            (Expect::FirstItem, ']') | (Expect::FirstKey, '}') => self.closes(),
            (Expect::Value | Expect::FirstItem, c) => {
                self.expect = Expect::Next;
                self.scalar(first_of_scalar(c)?)
            }
            (Expect::Key | Expect::FirstKey, '"') => {
                self.expect = Expect::Colon;
                self.scalar = Scalar::String { key: true, escape: Escape::None };
                Ok(Part::Key)
            }
            (Expect::Colon, ':') => self.punctuation(Expect::Value),
            (Expect::Next, ',') => match self.open.last() {
                Some(true) => self.punctuation(Expect::Key),
                Some(false) => self.punctuation(Expect::Value),
                None => Err(Broken),
            },
            (Expect::Next, '}') if self.open.last() == Some(&true) => self.closes(),
            (Expect::Next, ']') if self.open.last() == Some(&false) => self.closes(),
            _ => Err(Broken),
        }
    }

    fn opens(&mut self, object: bool) -> Result<Part, Broken> {
        if self.open.len() == DEEPEST {
            return Err(Broken);
        }
        self.open.push(object);
        self.expect = if object { Expect::FirstKey } else { Expect::FirstItem };
        Ok(Part::Open)
    }

    fn closes(&mut self) -> Result<Part, Broken> {
        self.open.pop();
        self.expect = Expect::Next;
        Ok(Part::Close)
    }

    fn punctuation(&mut self, expect: Expect) -> Result<Part, Broken> {
        self.expect = expect;
        Ok(Part::Punctuation)
    }
}

fn first_of_scalar(c: char) -> Result<Scalar, Broken> {
    match c {
        '"' => Ok(Scalar::String { key: false, escape: Escape::None }),
        't' => Ok(Scalar::Word("rue")),
        'f' => Ok(Scalar::Word("alse")),
        'n' => Ok(Scalar::Word("ull")),
        '-' => Ok(Scalar::Number(Number::Minus)),
        '0' => Ok(Scalar::Number(Number::Zero)),
        '1'..='9' => Ok(Scalar::Number(Number::Integer)),
        _ => Err(Broken),
    }
}

impl Number {
    fn next(self, c: char) -> Option<Self> {
        match (self, c) {
            (Self::Minus, '0') => Some(Self::Zero),
            (Self::Minus, '1'..='9') | (Self::Integer, '0'..='9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, '.') => Some(Self::Point),
            (Self::Point | Self::Fraction, '0'..='9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, 'e' | 'E') => Some(Self::Exponent),
            (Self::Exponent, '+' | '-') => Some(Self::ExponentSign),
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, '0'..='9') => {
                Some(Self::ExponentDigits)
            }
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Whether `text` is one whole list or object.
    fn accepts(text: &str) -> bool {
        let mut scanner = JsonScanner::new();
        text.chars().all(|c| scanner.push(c).is_ok()) && scanner.done()
    }

    #[test]
    fn parts_of_an_object() {
        let mut scanner = JsonScanner::new();
        let parts: Vec<Part> = r#"{"a": 1}"#.chars().map(|c| scanner.push(c).unwrap()).collect();
        use Part::*;
        assert_eq!(parts, [Open, Key, Key, KeyEnd, Punctuation, Blank, Scalar, Close]);
        assert!(scanner.done() && scanner.push('x').is_err());
        assert!(accepts("[\"a\nb\"]"), "control characters pass");
        assert!(!accepts(&("[".repeat(1000) + &"]".repeat(1000))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_a_library_reads(text in r#"[\[{]([\[\]{},: 0-9.eE+\-]|"a"|"\\u00e9"|"\\x"|true|null|fals|"b":){0,12}"#) {
            let expected = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert_eq!(accepts(text.trim_end()), expected, "{}", text);
        }
    }
}
