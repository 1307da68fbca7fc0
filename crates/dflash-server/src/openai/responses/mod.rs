//! `POST /v1/responses`

mod input;
mod output;
mod response;
