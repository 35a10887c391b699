//! What is read out of the text of an answer as it comes: a thought in front of it, then calls of tools.

use super::thoughts::Thoughts;
use crate::tools::part::Part;
use crate::tools::reader::Reader;

#[derive(Debug)]
pub struct Reading {
    thoughts: Option<Thoughts>,
    calls: Option<Reader>,
}

impl Reading {
    pub fn new(thoughts: Option<Thoughts>, calls: Option<Reader>) -> Reading {
        Reading { thoughts, calls }
    }

    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.read(text, false)
    }

    /// What is left when the text is over.
    pub fn end(&mut self) -> Vec<Part> {
        let mut parts = self.read("", true);
        parts.extend(self.calls.iter_mut().flat_map(Reader::end));
        parts
    }

    fn read(&mut self, text: &str, is_end: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        let answer = match &mut self.thoughts {
            Some(thoughts) => {
                let parted = thoughts.push(text, is_end);
                if !parted.thought.is_empty() {
                    parts.push(Part::Thought(parted.thought));
                }
                parted.answer
            }
            None => text.to_string(),
        };
        match &mut self.calls {
            _ if answer.is_empty() => {}
            Some(calls) => parts.extend(calls.push(&answer)),
            None => parts.push(Part::Text(answer)),
        }
        parts
    }
}
