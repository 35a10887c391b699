//! Calls of tools, as a request asks for them.
//!
//! ```text
//!   functions   `tools`, as far as they may be called
//!   asked       `tool_choice` and `parallel_tool_calls`: what is looked for in an answer, and what form it has to have
//!   form        that form
//! ```

mod asked;
mod form;
mod functions;

pub use asked::Calls;
