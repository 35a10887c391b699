//! Calls of tools: how models write them, and how they are found in an answer.
//!
//! ```text
//!   format    the ways in which models write calls
//!   style     which of them a model has
//!   part      what an answer has: text and calls
//!   reader    finds them: found, among text; forced, where nothing else may come
//!   body      what stands between markers: call (in JSON), tags (whose values are typed), python
//!   scan      where JSON ends
//! ```

mod body;
mod call;
mod forced;
pub mod format;
mod found;
pub mod part;
mod python;
pub mod reader;
mod scan;
pub mod style;
mod tags;
mod typed;
