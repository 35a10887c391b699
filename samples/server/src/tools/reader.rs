//! Finds calls in a text that comes piece by piece.
//!
//! ```text
//!   found    text ──> a call may begin ──> its body is whole, its end is there, it names a tool ──> a call, all at once
//!             ^              └── it is something else: text, looked at again behind its marker ──┐
//!             └──────────────────────────────────────────────────────────────────────────────────┘
//!   forced   the form of the answer lets nothing else come: the name as soon as it is there, arguments as they come
//! ```
//!
//! The parts are the same wherever the text is cut, and nothing but white space around calls and their markup is left out.

use super::forced::Forced;
use super::found::Found;
use super::part::{Asked, Part};

#[derive(Debug)]
pub enum Reader {
    Found(Found),
    Forced(Forced),
}

impl Reader {
    pub fn new(asked: &Asked) -> Reader {
        match asked.is_forced {
            true => Reader::Forced(Forced::new(asked)),
            false => Reader::Found(Found::new(asked)),
        }
    }

    pub fn push(&mut self, piece: &str) -> Vec<Part> {
        match self {
            Reader::Found(found) => found.push(piece, false),
            Reader::Forced(forced) => forced.push(piece),
        }
    }

    /// What is left when the text is over.
    pub fn end(&mut self) -> Vec<Part> {
        match self {
            Reader::Found(found) => found.push("", true),
            Reader::Forced(forced) => forced.end(),
        }
    }
}

#[cfg(test)]
mod tests;
