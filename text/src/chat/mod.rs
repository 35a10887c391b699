//! Chat templates: messages in, the text of the prompt out, as transformers renders it.

mod arguments;
mod bound;
mod budget;
mod builtins;
mod case;
mod clock;
mod continued;
mod cycles;
mod environment;
mod escapes;
mod filters;
mod format;
mod json;
mod kinds;
mod markup;
mod meter;
mod methods;
mod number;
mod objects;
mod operators;
mod render;
mod request;
mod rewrite;
mod show;
mod slices;
#[cfg(not(feature = "fuzzing"))]
mod stack;
#[cfg(feature = "fuzzing")]
#[path = "stack_of_caller.rs"]
mod stack;
mod strings;

pub use render::Templates;
pub use request::Request;
