//! Chat templates: messages in, the text of the prompt out, as transformers renders it.

mod budget;
mod clock;
mod environment;
mod json;
mod number;
mod render;
mod request;
mod segments;

pub use render::Templates;
pub use request::Request;
