//! Calls that the form of an answer lets come, and nothing else.

use super::format::Parts;
use super::part::{Asked, Part, Said};
use super::scan::{Scan, Step};

/// Calls and nothing else, in the very form in which they are written.
#[derive(Debug)]
pub struct Forced {
    asked: Asked,
    parts: Parts,
    held: String,
    at: At,
    calls: usize,
    said: Said,
}

#[derive(Debug)]
enum At {
    /// In front of a call, or behind the last one.
    Head,
    Arguments(Scan),
    Behind,
    /// What comes is no part of a call.
    Over,
}

/// What the text that is held begins with.
enum Begins<T> {
    With(T, usize),
    Maybe,
    Otherwise,
}

fn begins<T>(held: &str, texts: impl Iterator<Item = (T, String)>) -> Begins<T> {
    let mut maybe = false;
    for (which, text) in texts {
        if held.starts_with(&text) {
            return Begins::With(which, text.len());
        }
        maybe |= text.starts_with(held);
    }
    match maybe {
        true => Begins::Maybe,
        false => Begins::Otherwise,
    }
}

impl Forced {
    pub fn new(asked: &Asked) -> Forced {
        Forced {
            asked: asked.clone(),
            parts: asked.format.parts(),
            held: String::new(),
            at: At::Head,
            calls: 0,
            said: Said::default(),
        }
    }

    pub fn push(&mut self, piece: &str) -> Vec<Part> {
        self.held += piece;
        while self.step() {}
        std::mem::take(&mut self.said.parts)
    }

    /// Whether there is more to be looked at.
    fn step(&mut self) -> bool {
        match &mut self.at {
            At::Head => {
                let parts = &self.parts;
                let before = match self.calls {
                    0 => &parts.first,
                    _ => parts.between,
                };
                let heads = self.asked.tools.iter().map(|tool| {
                    let head = self.asked.format.head(&tool.name);
                    (Some(&tool.name), format!("{before}{}{head}", parts.open))
                });
                let last = (self.calls > 0 && !parts.last.is_empty()).then(|| parts.last.clone());
                let last = last.map(|last| (None, last));
                match begins(&self.held, heads.chain(last)) {
                    Begins::With(name, bytes) => {
                        if let Some(name) = name {
                            self.said.call(self.calls, name);
                        }
                        self.at = match name {
                            Some(_) => At::Arguments(Scan::default()),
                            None => At::Over,
                        };
                        self.held.drain(..bytes);
                        true
                    }
                    Begins::Maybe => false,
                    Begins::Otherwise => {
                        self.at = At::Over;
                        true
                    }
                }
            }
            At::Arguments(scan) => {
                let mut step = Step::More;
                let end = self.held.bytes().position(|byte| {
                    step = scan.push(byte);
                    step != Step::More
                });
                let bytes = match (end, step) {
                    (Some(end), Step::End) => end + 1,
                    // The form lets none come; it is told as it is.
                    _ => self.held.len(),
                };
                self.said.arguments(self.calls, &self.held[..bytes]);
                self.held.drain(..bytes);
                match step {
                    Step::More => return false,
                    Step::End => self.at = At::Behind,
                    Step::Wrong => self.at = At::Over,
                }
                true
            }
            At::Behind => {
                let close = format!("}}{}", self.parts.close);
                match begins(&self.held, [((), close)].into_iter()) {
                    Begins::With((), bytes) => {
                        self.held.drain(..bytes);
                        self.calls += 1;
                        self.at = At::Head;
                        true
                    }
                    Begins::Maybe => false,
                    Begins::Otherwise => {
                        self.at = At::Over;
                        true
                    }
                }
            }
            At::Over => {
                let told = self.held.trim_end().len();
                self.said.text(&self.held[..told]);
                self.held.drain(..told);
                false
            }
        }
    }

    pub fn end(&mut self) -> Vec<Part> {
        // The end of a call that is whole tells nothing.
        if !matches!(self.at, At::Behind) {
            self.said.text(self.held.trim_end());
        }
        self.held.clear();
        std::mem::take(&mut self.said.parts)
    }
}
