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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tools::format::FORMATS;
    use crate::tools::part::{Asked, Known};

    /// One that stands in front of the answer is in front, whatever the model thought before.
    #[test]
    fn calls_are_found_behind_a_thought() {
        for format in FORMATS.iter().filter(|format| !format.is_marked) {
            let tool = Known {
                name: "f".into(),
                parameters: None,
            };
            let calls = Reader::new(&Asked {
                format,
                tools: Arc::new(vec![tool]),
                most: usize::MAX,
                is_forced: false,
            });
            let text = match format.key {
                "" => "[f(a=1)]".to_string(),
                key => format!("{{\"name\": \"f\", \"{key}\": {{\"a\": 1}}}}"),
            };
            let text = match format.name {
                "mistral" => format!("[{text}]"),
                _ => text,
            };
            let mut reading = Reading::new(Some(Thoughts::new(false)), Some(calls));
            let mut parts = reading.push(&format!("<think>so</think>\n{text}"));
            parts.extend(reading.end());
            assert_eq!(parts[0], Part::Thought("so".into()));
            let is_call = matches!(&parts[1], Part::Call { name, .. } if name == "f");
            assert!(is_call && parts.len() == 3, "{}: {parts:?}", format.name);
        }
    }
}
