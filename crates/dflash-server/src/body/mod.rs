//! Request bodies, read strictly: a JSON object within limits, its fields by type.
//!
//! ```text
//! pub async fn create(State(app): State<App>, body: JsonBody) -> Result<Response, OpenAiError> {
//!     let object = body.object()?; // 400, 413 or 415 in the family's own shape
//!     let fields = Fields::of(&object);
//!     let temperature = fields.number("temperature", 0.0..=2.0)?; // 400 that names the field
//!     let options = fields.object("stream_options")?; // errors below it name `stream_options.…`
//! ```
//!
//! A null counts as an absent field everywhere.

mod fields;
mod json;
mod json_body;

pub use fields::Fields;
pub use json::parse;
pub use json_body::JsonBody;
