//! Thoughts of a model, which stand in front of its answer.
//!
//! ```text
//!   prompt ... <think>      of templates that open one
//!   <think>                 else by the model itself, before anything but white space
//!   thought
//!   </think>                without it all of the text is a thought
//!
//!   answer
//! ```
//!
//! White space around either is none of its own. The parts are the same wherever the text is cut.

use prefix::{Token, Tokenizer};

const BEGIN: &str = "<think>";
const END: &str = "</think>";
/// Tokens that a marker and white space behind it have at the most, however they are cut.
const TAIL: usize = 32;

/// Whether a prompt ends in a thought that the model goes on with.
pub fn are_open(tokenizer: &Tokenizer, prompt: &[Token]) -> bool {
    let tail = prompt.len().saturating_sub(TAIL);
    match tokenizer.decode(&prompt[tail..], false) {
        Ok(text) => text.trim_end().ends_with(BEGIN),
        Err(_) => false,
    }
}

/// Parts thoughts from the answer in a text that comes piece by piece.
#[derive(Debug)]
pub struct Thoughts {
    at: At,
    /// What was not told yet.
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Front {
        is_open: bool,
    },
    /// `is_fresh`: nothing of it was told.
    Inside {
        is_fresh: bool,
    },
    Behind,
    Answer,
}

/// What a piece brings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parted {
    pub thought: String,
    pub answer: String,
}

impl Thoughts {
    pub fn new(is_open: bool) -> Thoughts {
        Thoughts {
            at: At::Front { is_open },
            held: String::new(),
        }
    }

    pub fn push(&mut self, piece: &str, is_end: bool) -> Parted {
        self.held += piece;
        let mut parted = Parted::default();
        while self.step(is_end, &mut parted) {}
        parted
    }

    /// Whether there is more to be looked at.
    fn step(&mut self, is_end: bool, parted: &mut Parted) -> bool {
        match self.at {
            At::Front { is_open } => {
                let text = self.held.trim_start();
                let (begins, may_begin) = (text.starts_with(BEGIN), BEGIN.starts_with(text));
                if begins {
                    self.held
                        .drain(..self.held.len() - text.len() + BEGIN.len());
                } else if may_begin && !is_end {
                    return false;
                }
                self.at = match begins || is_open {
                    true => At::Inside { is_fresh: true },
                    false => At::Answer,
                };
                true
            }
            At::Inside { is_fresh } => {
                let end = self.held.find(END);
                let told = match end {
                    Some(end) => end,
                    None if is_end => self.held.len(),
                    None => {
                        // The end of the text may be the beginning of the marker.
                        let begun = (1..END.len()).filter(|n| self.held.ends_with(&END[..*n]));
                        self.held.len() - begun.max().unwrap_or(0)
                    }
                };
                let thought = self.held[..told].trim_end();
                let (told, thought) = match is_fresh {
                    true => (thought.len(), thought.trim_start()),
                    false => (thought.len(), thought),
                };
                parted.thought += thought;
                self.at = At::Inside {
                    is_fresh: is_fresh && thought.is_empty(),
                };
                match end {
                    Some(end) => {
                        self.held.drain(..end + END.len());
                        self.at = At::Behind;
                        true
                    }
                    None => {
                        self.held.drain(..told);
                        false
                    }
                }
            }
            At::Behind => {
                let text = self.held.trim_start();
                self.held.drain(..self.held.len() - text.len());
                if !self.held.is_empty() {
                    self.at = At::Answer;
                }
                !self.held.is_empty()
            }
            At::Answer => {
                parted.answer += &std::mem::take(&mut self.held);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(is_open: bool, pieces: &[&str]) -> (String, String) {
        let mut thoughts = Thoughts::new(is_open);
        let mut whole = (String::new(), String::new());
        let ends = pieces.iter().map(|piece| (*piece, false));
        for (piece, is_end) in ends.chain([("", true)]) {
            let parted = thoughts.push(piece, is_end);
            // Of an answer that has begun nothing is a thought.
            assert!(whole.1.is_empty() || parted.thought.is_empty());
            whole.0 += &parted.thought;
            whole.1 += &parted.answer;
        }
        whole
    }

    fn check(is_open: bool, text: &str, thought: &str, answer: &str) {
        let expected = (thought.to_string(), answer.to_string());
        assert_eq!(of(is_open, &[text]), expected, "{text}");
        let single: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(of(is_open, &single), expected, "{text}");
        for (cut, _) in text.char_indices() {
            let pieces = [&text[..cut], &text[cut..]];
            assert_eq!(of(is_open, &pieces), expected, "{text} at {cut}");
        }
    }

    #[test]
    fn what_stands_between_markers_in_front_is_a_thought() {
        let thought = "a < b </thin\u{e9}\n\n<think>, c";
        for (text, thought, answer) in [
            (
                format!("<think>\n{thought}\n</think>\n\nSo: \n"),
                thought,
                "So: \n",
            ),
            (
                format!(" \n<think>{thought}</think>It </think> is"),
                thought,
                "It </think> is",
            ),
            ("<think>\n\n</think>\n\nNo.".into(), "", "No."),
            // One that is cut, and an answer of nothing.
            (format!("<think>{thought} \n"), thought, ""),
            ("<think>a \n</thi".into(), "a \n</thi", ""),
            ("<think>a</think> \n".into(), "a", ""),
            ("<think>".into(), "", ""),
        ] {
            check(false, &text, thought, answer);
            check(true, &text, thought, answer);
        }
    }

    #[test]
    fn what_does_not_begin_with_one_is_an_answer() {
        for text in [
            "",
            " ",
            "No.",
            "\n So",
            "<",
            "<thin",
            " <thinking>",
            "a <think>b</think> c",
            "</think> d",
        ] {
            check(false, text, "", text);
        }
    }

    #[test]
    fn a_prompt_may_have_opened_one() {
        check(true, "\na\n</think>\n\nb", "a", "b");
        check(true, "a", "a", "");
        check(true, "</think>b", "", "b");
        check(true, " <thi ", "<thi", "");
    }
}
