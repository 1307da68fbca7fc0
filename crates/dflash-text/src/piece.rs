/// A part of an answer, as soon as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the answer's text.
    Content(String),
    /// A call of a declared tool begins.
    CallStart {
        /// Which call of the answer it is, from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments; all of them together are the text of a JSON object.
    CallArguments {
        /// Which call.
        index: usize,
        /// The next characters.
        json: String,
    },
    /// A call is complete. One that the answer's end or a stop string cuts has no such piece.
    CallEnd {
        /// Which call.
        index: usize,
    },
}
