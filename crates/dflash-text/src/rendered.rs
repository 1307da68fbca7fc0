use std::fmt;

/// A run of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A control token that the template wrote.
    Control(String),
    /// Anything else, whoever wrote it; a control token spelled in here is text.
    Text(String),
}

impl Segment {
    /// The characters of the segment.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Control(text) | Self::Text(text) => text,
        }
    }
}

/// A rendered conversation that knows which of its control tokens are meant.
///
/// Its segments, concatenated (as `Display` does), are byte for byte what a plain renderer gives. Text of the
/// template and of messages is not kept apart, because a tokenizer must see the words across that border.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    segments: Vec<Segment>,
}

impl Rendered {
    /// The runs of the prompt, in order; neighbouring text is one run, and none is empty.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl FromIterator<Segment> for Rendered {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        let mut all: Vec<Segment> = Vec::new();
        for segment in segments {
            match (all.last_mut(), segment) {
                (_, Segment::Text(text)) if text.is_empty() => {}
                (Some(Segment::Text(last)), Segment::Text(text)) => last.push_str(&text),
                (_, segment) => all.push(segment),
            }
        }
        Self { segments: all }
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| f.write_str(segment.as_str()))
    }
}
