//! What is looked for in an answer, and its parts.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::format::Format;

/// What is looked for in an answer.
#[derive(Debug, Clone)]
pub struct Asked {
    pub format: &'static Format,
    /// Functions that may be called.
    pub tools: Arc<Vec<Known>>,
    /// Calls that are told; others are dropped, as if they had not been written.
    pub most: usize,
    /// Whether the form of the answer is that of calls.
    pub is_forced: bool,
}

impl Asked {
    pub fn knows(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }
}

/// A function.
#[derive(Debug, Clone)]
pub struct Known {
    pub name: String,
    /// The schema of its arguments.
    pub parameters: Option<Box<RawValue>>,
}

/// A part of an answer, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What the model thinks before it answers.
    Thought(String),
    Text(String),
    /// A call begins; its arguments follow.
    Call {
        number: usize,
        name: String,
    },
    Arguments {
        number: usize,
        text: String,
    },
}

/// What is told as text, without white space around it: each part between calls in a line of its own.
#[derive(Debug, Default)]
pub struct Said {
    pub parts: Vec<Part>,
    /// Whether there was text, and whether there was since the last call.
    any: bool,
    pub here: bool,
}

impl Said {
    pub fn text(&mut self, text: &str) {
        let text = match self.here {
            true => text,
            false => text.trim_start(),
        };
        if text.is_empty() {
            return;
        }
        let line = match self.any && !self.here {
            true => "\n",
            false => "",
        };
        self.parts.push(Part::Text(format!("{line}{text}")));
        (self.any, self.here) = (true, true);
    }

    pub fn call(&mut self, number: usize, name: &str) {
        let name = name.to_string();
        self.parts.push(Part::Call { number, name });
        self.here = false;
    }

    pub fn arguments(&mut self, number: usize, text: &str) {
        if !text.is_empty() {
            let text = text.to_string();
            self.parts.push(Part::Arguments { number, text });
        }
    }
}
