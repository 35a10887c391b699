//! Calls of tools: what a request asks for, how they come into an answer, and how they are found in it.
//!
//! ```text
//!   asked     tools, tool_choice, parallel_tool_calls of a request
//!   form      the form of an answer that has to be a call
//!   format    how models write calls
//!   reader    what an answer has of text and calls: found among text, forced by its form; scan: where JSON ends
//! ```

mod asked;
mod forced;
mod form;
pub mod format;
mod found;
mod reader;
mod scan;

pub use asked::Calls;
pub use reader::{Part, Reader};
