//! `{% generation %}`, a tag of transformers that Jinja does not know.

/// `{% generation %}` marks the assistant's tokens for training; a prompt needs only what is inside.
pub(crate) fn without_generation_tags(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let Some(close) = rest[open..].find("%}").map(|offset| open + offset) else { break };
        let tag = &rest[open + 2..close];
        let name = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        out += &rest[..open + 2];
        out += &match name {
            "generation" => tag.replace(name, "if true"),
            "endgeneration" => tag.replace(name, "endif"),
            _ => tag.to_owned(),
        };
        rest = &rest[close..];
    }
    out + rest
}
