//! The texts before which an answer ends, looked for in a text that grows. One automaton (that of Aho
//! and Corasick) knows all of them, so a byte costs the same however many there are.
//!
//! ```text
//!   stop texts "\n\nQ:", "</s>":    ... the capital\n\nQ
//!                                                  └─┬─┘ where the automaton is: this may become one
//! ```

use crate::error::{Error, Result};
use crate::pipeline::meter;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::Anchored;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// Memory for each byte of the texts while the automaton is made of them.
const ROOM: usize = 256;
/// And for each text that is whole behind it.
const MATCH: usize = 40;

pub struct Stops {
    texts: Vec<String>,
    automaton: NFA,
    start: StateID,
    /// Bytes that bring the automaton to a state, where they are the beginning of a longer text.
    begun: HashMap<StateID, usize>,
}

/// Where a text has brought the automaton.
#[derive(Clone, Copy)]
pub struct Place(StateID);

impl Stops {
    /// An empty one, that of a recipe without a stop text, ends nothing, and each counts once.
    pub fn new(mut texts: Vec<String>) -> Result<Stops> {
        let mut seen = HashSet::new();
        texts.retain(|text| !text.is_empty() && seen.insert(text.clone()));
        let bytes: usize = texts.iter().map(String::len).sum();
        // Those that are whole in a state differ in their lengths.
        let lengths: HashSet<usize> = texts.iter().map(String::len).collect();
        let each = ROOM.saturating_add(MATCH.saturating_mul(lengths.len()));
        meter::room(bytes.saturating_mul(each))?;
        let refused = |why: &dyn Display| {
            let count = texts.len();
            Error::range(format!(
                "option stop has {count} texts of {bytes} bytes: {why}"
            ))
        };
        let automaton = NFA::new(&texts).map_err(|e| refused(&e))?;
        let start = automaton
            .start_state(Anchored::No)
            .map_err(|e| refused(&e))?;
        let mut begun = HashMap::new();
        for text in &texts {
            let mut state = start;
            for (before, byte) in text.bytes().enumerate() {
                if before > 0 {
                    begun.insert(state, before);
                }
                state = automaton.next_state(Anchored::No, state, byte);
            }
        }
        Ok(Stops {
            texts,
            automaton,
            start,
            begun,
        })
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// In front of every text.
    pub fn start(&self) -> Place {
        Place(self.start)
    }

    /// Goes on with what stands behind the first `from` bytes, which brought the automaton to this
    /// place. Where the stop text begins that is whole first: which one it is must not depend on how
    /// much was generated after it. The first `blank` bytes are white space in front, which does not
    /// end a text.
    pub fn find(&self, place: &mut Place, text: &str, from: usize, blank: usize) -> Option<usize> {
        for (at, byte) in text.as_bytes().iter().enumerate().skip(from) {
            place.0 = self.automaton.next_state(Anchored::No, place.0, *byte);
            // What ends behind white space in front is not only white space.
            if at >= blank && self.automaton.is_match(place.0) {
                return Some(at + 1 - self.longest(place.0));
            }
        }
        None
    }

    /// Bytes of the longest stop text that is whole here.
    fn longest(&self, state: StateID) -> usize {
        (0..self.automaton.match_len(state))
            .map(|i| {
                let text = self.automaton.match_pattern(state, i);
                self.automaton.pattern_len(text)
            })
            .max()
            .unwrap_or(0)
    }

    /// Bytes in front of this place that may be the beginning of a stop text.
    pub fn begun(&self, place: Place) -> usize {
        self.begun.get(&place.0).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(texts: &[&str]) -> Stops {
        Stops::new(texts.iter().map(|text| text.to_string()).collect()).unwrap()
    }

    /// Where the one begins that is whole first, and what may have begun at the end, by the definition.
    fn looked_for(text: &str, texts: &[&str], blank: usize) -> (Option<usize>, usize) {
        let (mut found, mut begun) = (None, 0);
        for stop in texts.iter().filter(|stop| !stop.is_empty()) {
            let is_whole = |end: &usize| text.as_bytes()[..*end].ends_with(stop.as_bytes());
            let end = (blank + 1..=text.len()).find(is_whole);
            let first = end.map(|end| (end, end - stop.len()));
            found = [found, first].into_iter().flatten().min();
            let is_begun = |n: &usize| text.as_bytes().ends_with(&stop.as_bytes()[..*n]);
            begun = begun.max((1..stop.len()).rev().find(is_begun).unwrap_or(0));
        }
        (found.map(|(_, at)| at), begun)
    }

    #[test]
    fn texts_are_found_as_if_each_was_looked_for() {
        let mut random = crate::random::random(7);
        let mut word = |most: u64| -> String {
            let letters = ["a", "b", " ", "é", "ê"];
            (0..random(most))
                .map(|_| letters[random(5) as usize])
                .collect()
        };
        for _ in 0..4000 {
            let texts: Vec<String> = (0..4).map(|_| word(5)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let text = word(20);
            let blank = text.len() - text.trim_start().len();
            let stops = stops(&texts);
            let (mut place, mut at) = (stops.start(), 0);
            for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                // White space in front is known as far as the text is.
                let (wanted, begun) = looked_for(&text[..end], &texts, blank.min(end));
                let found = stops.find(&mut place, &text[..end], at, blank.min(end));
                assert_eq!(found, wanted, "{:?} {texts:?}", &text[..end]);
                if found.is_some() {
                    break;
                }
                // Of white space in front nothing is given out anyway.
                if end > blank {
                    assert_eq!(stops.begun(place), begun, "{:?} {texts:?}", &text[..end]);
                }
                at = end;
            }
        }
    }

    #[test]
    fn of_texts_that_are_whole_together_the_longest_counts() {
        let stops = stops(&["c", "abc", "bc", "abcd", ""]);
        assert_eq!(stops.texts().len(), 4);
        let mut place = stops.start();
        assert_eq!(stops.find(&mut place, "xab", 0, 0), None);
        assert_eq!(stops.begun(place), 2);
        assert_eq!(stops.find(&mut place, "xabcd", 3, 0), Some(1));
    }

    /// Each state would know all of them.
    #[test]
    fn a_text_that_is_given_again_counts_once() {
        let long = "a".repeat(8192);
        let mut texts = vec!["a".to_string(); 8192];
        texts.push(long.clone());
        let stops = Stops::new(texts).unwrap();
        assert_eq!(stops.texts(), ["a", &long]);
        let whole = stops.find(&mut stops.start(), "ba", 0, 0);
        assert_eq!(whole, Some(1));
    }

    /// Each is looked for at every byte, or one automaton is.
    #[test]
    fn a_hundred_thousand_texts_are_looked_for_at_once() {
        let stops = Stops::new((0..100_000).map(|i| format!("<{i:06}>")).collect()).unwrap();
        let text = "<09999".repeat(20_000) + "<042000>";
        let mut place = stops.start();
        assert_eq!(stops.find(&mut place, &text, 0, 0), Some(text.len() - 8));
    }
}
