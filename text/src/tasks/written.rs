//! The text of a generation, while it is written and when it is done.
//!
//! ```text
//!   tokens ──> text   "  Paris, the capital\n\nQues"
//!                      └┬┘└───────┬─────┘└─┬─┘└─┬─┘
//!                     gone      given    may be white space at the end, may begin a stop text
//! ```

use super::places::Places;
use super::stops::{Place, Stops};
use crate::detok::Detok;
use crate::error::Result;
use crate::text::Text;
use std::sync::Arc;

/// What a caller gets of these tokens: up to the first stop text, without white space around it unless
/// that is kept; and whether there was one.
pub fn finished(
    text: &Text,
    stops: &Stops,
    keep_space: bool,
    tokens: &[i32],
) -> Result<(String, bool)> {
    let whole = text.decode(&with_text(tokens, text.vocab_size()), true)?;
    let front = if keep_space { 0 } else { blank(&whole) };
    let stop = stops.find(&mut stops.start(), &whole, 0, front);
    let given = &whole[..stop.unwrap_or(whole.len())];
    let given = if keep_space { given } else { given.trim() };
    Ok((given.to_string(), stop.is_some()))
}

/// Whether the last of these tokens stands for no text.
pub fn is_silent(text: &Text, tokens: &[i32]) -> Result<bool> {
    let last = with_text(&tokens[tokens.len().saturating_sub(1)..], text.vocab_size());
    Ok(text.decode(&last, true)?.is_empty())
}

/// Bytes of white space in front.
fn blank(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Models pad their embedding beyond the vocabulary; those tokens stand for no text.
fn with_text(tokens: &[i32], vocab_size: u32) -> Vec<i32> {
    let size = i64::from(vocab_size);
    tokens
        .iter()
        .copied()
        .filter(|token| (0..size).contains(&i64::from(*token)))
        .collect()
}

/// A text while its tokens arrive.
pub struct Written {
    detok: Detok,
    vocab_size: u32,
    text: String,
    keep_space: bool,
    /// Bytes of white space in front, unless it is kept: a stop text may begin there, what a caller gets does not.
    blank: usize,
    /// Bytes behind those that were given out.
    given: usize,
    /// In the search for stop texts.
    place: Place,
    /// A stop text has come.
    pub is_over: bool,
    /// Tokens are missing: the rest comes when all is done.
    is_broken: bool,
    /// Where its tokens begin, if that is asked for.
    places: Option<Places>,
}

impl Written {
    pub fn new(text: &Arc<Text>, stops: &Stops, keep_space: bool) -> Written {
        Written {
            vocab_size: text.vocab_size(),
            detok: Detok::new(text.clone(), true),
            text: String::new(),
            keep_space,
            blank: 0,
            given: 0,
            place: stops.start(),
            is_over: false,
            is_broken: false,
            places: None,
        }
    }

    /// The same with the places of its tokens.
    pub fn with_places(text: &Arc<Text>, stops: &Stops, keep_space: bool) -> Written {
        Written {
            places: Some(Places::new(text)),
            ..Written::new(text, stops, keep_space)
        }
    }

    /// Where a token begins, in bytes of the text that a caller gets, if that is known.
    pub fn begin(&self, token: usize) -> Option<usize> {
        let begin = self.places.as_ref()?.begin(token)?;
        Some(begin.saturating_sub(self.blank))
    }

    /// Bytes of it that were given out.
    pub fn given(&self) -> usize {
        self.given
    }

    /// Whether further tokens change nothing.
    pub fn is_closed(&self) -> bool {
        self.is_over || self.is_broken
    }

    /// Takes the next token.
    pub fn push(&mut self, token: i32, stops: &Stops) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        let known = with_text(&[token], self.vocab_size);
        let piece = self.detok.push(&known)?;
        if let Some(places) = &mut self.places {
            places.wait(known.first().copied());
        }
        self.take(&piece, stops);
        Ok(())
    }

    /// There are no more tokens: what waited for them comes now, for those who ask where tokens begin.
    pub fn finish(&mut self, stops: &Stops) -> Result<()> {
        if !self.is_closed() {
            let piece = self.detok.finish()?;
            self.take(&piece, stops);
            if let Some(places) = &mut self.places {
                places.settle("", self.text.len(), 0);
            }
        }
        Ok(())
    }

    fn take(&mut self, piece: &str, stops: &Stops) {
        if piece.is_empty() {
            return;
        }
        if !self.keep_space && self.blank == self.text.len() {
            self.blank += blank(piece);
        }
        let searched = self.text.len();
        if let Some(places) = &mut self.places {
            places.settle(piece, searched, self.detok.held());
        }
        self.text.push_str(piece);
        let stop = stops.find(&mut self.place, &self.text, searched, self.blank);
        if let Some(at) = stop {
            self.text.truncate(at);
            self.is_over = true;
            if let Some(places) = &mut self.places {
                places.cut(at);
            }
        }
    }

    /// Some tokens were lost on the way.
    pub fn lose(&mut self) {
        self.is_broken = true;
    }

    /// What can be given out now and will not be taken back; often nothing.
    pub fn piece(&mut self, stops: &Stops) -> String {
        if self.is_broken {
            return String::new();
        }
        let held = match self.is_over {
            true => 0,
            false => stops.begun(self.place),
        };
        let sure = &self.text[..self.text.len() - held];
        let sure = if self.keep_space {
            sure
        } else {
            sure.trim_end()
        };
        let given = self.blank + self.given;
        let piece = sure.get(given..).unwrap_or("").to_string();
        self.given += piece.len();
        piece
    }

    /// The rest of a text that is finished.
    pub fn rest(&self, finished: &str) -> String {
        finished.get(self.given..).unwrap_or("").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;

    #[test]
    fn tokens_beyond_the_vocabulary_have_no_text() {
        assert_eq!(with_text(&[4, 0, 5, -1, 6, 3], 5), [4, 0, 3]);
    }

    #[test]
    fn a_stop_text_may_be_one_token_that_begins_with_white_space() {
        let loaded = from_texts(
            r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, " Q": 1, "A": 2, " ": 3}},
                "decoder": {"type": "Fuse"}}"#,
            None,
        )
        .unwrap();
        let text = Arc::new(Text::new(loaded).unwrap());
        let stops = Stops::new(vec![" Q".to_string()]).unwrap();
        for (tokens, wanted) in [
            (&[1][..], ""),
            (&[3, 1], ""),
            (&[2, 1], "A"),
            (&[3, 2, 1], "A"),
        ] {
            let mut written = Written::new(&text, &stops, false);
            let mut pieces = String::new();
            for token in tokens {
                written.push(*token, &stops).unwrap();
                pieces += &written.piece(&stops);
            }
            assert!(written.is_over, "{tokens:?}");
            assert_eq!(pieces, wanted, "{tokens:?}");
            let found = finished(&text, &stops, false, tokens).unwrap();
            assert_eq!(found, (wanted.to_string(), true), "{tokens:?}");
        }
    }

    /// A vocabulary of single characters, and what comes of a text in it, piece by piece.
    fn streamed(text: &str, stops: &[&str]) -> (Vec<String>, String, bool) {
        written(text, stops, false)
    }

    fn written(text: &str, stops: &[&str], keep_space: bool) -> (Vec<String>, String, bool) {
        let mut ids: Vec<char> = " abcdefghijklmnopqrstuvwxyz\n.é".chars().collect();
        ids.dedup();
        let vocabulary: serde_json::Map<String, serde_json::Value> = ids
            .iter()
            .enumerate()
            .map(|(i, c)| (c.to_string(), i.into()))
            .collect();
        let tokenizer = serde_json::json!({
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
            "decoder": {"type": "Fuse"},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        let tokenizer = Arc::new(Text::new(loaded).unwrap());
        let texts = stops;
        let stops = Stops::new(texts.iter().map(|s| s.to_string()).collect()).unwrap();
        let tokens: Vec<i32> = text
            .chars()
            .map(|c| ids.iter().position(|i| *i == c).unwrap() as i32)
            .collect();
        let mut written = Written::new(&tokenizer, &stops, keep_space);
        let mut pieces = Vec::new();
        for token in &tokens {
            written.push(*token, &stops).unwrap();
            pieces.push(written.piece(&stops));
        }
        let (whole, stopped) = finished(&tokenizer, &stops, keep_space, &tokens).unwrap();
        assert_eq!(stopped, written.is_over);
        pieces.push(written.rest(&whole));
        assert_eq!(pieces.concat(), whole, "{text:?} {texts:?}");
        (pieces, whole, written.is_over)
    }

    #[test]
    fn pieces_add_up_to_the_text_and_are_never_taken_back() {
        let (pieces, whole, over) = streamed("  ab c. ", &[]);
        assert_eq!((whole.as_str(), over), ("ab c.", false));
        assert_eq!(pieces, ["", "", "a", "b", "", " c", ".", "", ""]);

        let (pieces, whole, over) = streamed("ab\n\ncd", &["\n\n"]);
        assert_eq!((whole.as_str(), over), ("ab", true));
        assert_eq!(pieces, ["a", "b", "", "", "", "", ""]);

        // The beginning of a stop text that is none after all.
        let (pieces, _, over) = streamed("a.b.cd", &[".bc", "x"]);
        assert_eq!(pieces, ["a", "", "", ".b", ".c", "d", ""][..7].to_vec());
        assert!(!over);

        let (_, whole, over) = streamed("abcd", &["d", "bc"]);
        assert_eq!((whole.as_str(), over), ("a", true), "the first in the text");
        let (_, whole, over) = streamed("abcd", &["abc", "b"]);
        assert_eq!(
            (whole.as_str(), over),
            ("a", true),
            "the first that is whole"
        );
        let (_, whole, over) = streamed("\n a", &["\n"]);
        assert_eq!((whole.as_str(), over), ("a", false), "not in front");
        for stop in [" a", "  a", " ab"] {
            let (_, whole, over) = streamed("  ab", &[stop]);
            assert_eq!((whole.as_str(), over), ("", true), "{stop:?} in front");
        }
        let (pieces, whole, over) = streamed(" b ac", &[" a", " "]);
        assert_eq!((whole.as_str(), over), ("b", true));
        assert_eq!(pieces, ["", "b", "", "", "", ""]);
        let (_, whole, over) = streamed(" a b", &["\n", " ab"]);
        assert_eq!((whole.as_str(), over), ("a b", false));
        let (_, whole, _) = streamed("", &["a"]);
        assert_eq!(whole, "");
        streamed("éaé.", &["é.", "aéx"]);
    }

    #[test]
    fn white_space_is_kept_where_the_recipe_says_so() {
        let (pieces, whole, over) = written(" \n ab \n", &[], true);
        assert_eq!((whole.as_str(), over), (" \n ab \n", false));
        assert_eq!(pieces, [" ", "\n", " ", "a", "b", " ", "\n", ""]);
        let (_, whole, over) = written(" a\n b", &["\n b"], true);
        assert_eq!((whole.as_str(), over), (" a", true));
        let (pieces, whole, over) = written("  \n", &["\n"], true);
        assert_eq!((whole.as_str(), over), ("  ", true), "in front, too");
        assert_eq!(pieces, [" ", " ", "", ""]);
    }

    #[test]
    fn lost_tokens_leave_the_rest_to_the_end() {
        let (stops, text) = (Stops::new(Vec::new()).unwrap(), "ab");
        let loaded = from_texts(
            r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "decoder": {"type": "Fuse"}}"#,
            None,
        )
        .unwrap();
        let mut written = Written::new(&Arc::new(Text::new(loaded).unwrap()), &stops, false);
        written.push(0, &stops).unwrap();
        assert_eq!(written.piece(&stops), "a");
        written.lose();
        written.push(1, &stops).unwrap();
        assert_eq!(written.piece(&stops), "");
        assert_eq!(written.rest(text), "b");
    }
}
