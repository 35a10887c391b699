//! Streaming decoding: tokens in, text out, never half a character.
//!
//! Byte-level vocabularies are decoded byte by byte: what is complete UTF-8 goes out, an unfinished
//! character at the end waits. Other decoders look at neighbours (a space between words, bytes that
//! join), so their text is found by decoding a short window twice, without and with the new tokens.
//! Either way the pieces of a stream add up to what decoding all tokens at once gives.

use crate::error::Result;
use crate::pieces::Kind;
use crate::pipeline::meter;
use crate::text::Text;
use std::sync::Arc;

pub struct Detok {
    text: Arc<Text>,
    skip_special: bool,
    state: State,
}

enum State {
    /// Bytes of an unfinished character.
    Bytes(Vec<u8>),
    Window(Window),
}

/// ids[from..shown] have been decoded into text that was given out; ids[shown..] have not. Decoding
/// starts at `from`, so that a token sees the ones before it. A step only appends and moves both
/// forward, so that it can be taken back; what it leaves in front of `from` the next one removes.
#[derive(Default)]
struct Window {
    ids: Vec<u32>,
    from: usize,
    shown: usize,
}

/// Where a stream was before a step. A row of bytes may be as long as the stream, and is not copied.
struct Mark {
    pending: Vec<u8>,
    ids: usize,
    shown: usize,
}

const REPLACEMENT: char = '\u{fffd}';

impl Detok {
    pub fn new(text: Arc<Text>, skip_special: bool) -> Self {
        let state = match text.pieces().kind() {
            Kind::ByteLevel => State::Bytes(Vec::new()),
            _ => State::Window(Window::default()),
        };
        Detok {
            text,
            skip_special,
            state,
        }
    }

    /// A step of the stream, which is made once `take` says that its text is taken.
    pub fn advance(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<String>,
        take: impl FnOnce(String) -> Result<bool>,
    ) -> Result<()> {
        let before = self.mark();
        let taken = step(self).and_then(take);
        if !matches!(taken, Ok(true)) {
            self.go_back(before);
        }
        taken.map(|_| ())
    }

    fn mark(&mut self) -> Mark {
        let (mut pending, mut ids, mut shown) = (Vec::new(), 0, 0);
        match &mut self.state {
            State::Bytes(bytes) => pending.clone_from(bytes),
            State::Window(window) => {
                window.settle();
                (ids, shown) = (window.ids.len(), window.shown);
            }
        }
        Mark {
            pending,
            ids,
            shown,
        }
    }

    fn go_back(&mut self, before: Mark) {
        match &mut self.state {
            State::Bytes(pending) => *pending = before.pending,
            State::Window(window) => {
                window.ids.truncate(before.ids);
                (window.from, window.shown) = (0, before.shown);
            }
        }
    }

    /// Takes tokens; the text that has become complete. An error leaves the stream broken.
    pub fn push(&mut self, tokens: &[i32]) -> Result<String> {
        if let State::Window(window) = &mut self.state {
            window.settle();
        }
        let mut piece = String::new();
        let ids = self.text.check(tokens)?;
        let bytes = self.text.spelt(&ids)?;
        meter::room(bytes.saturating_mul(3))?;
        for id in ids {
            if self.skip_special && self.text.pieces().is_special(id) {
                continue;
            }
            match &mut self.state {
                State::Bytes(pending) => {
                    pending.extend(self.text.pieces().bytes(self.text.tokenizer(), id));
                    take_complete(pending, &mut piece);
                }
                // A hole in the vocabulary: a row of them would make the window ever longer.
                State::Window(_) if self.text.tokenizer().id_to_token(id).is_none() => {}
                State::Window(window) => {
                    if let Some(text) = window.push(&self.text, id)? {
                        piece.push_str(&text);
                    }
                }
            }
        }
        Ok(piece)
    }

    /// Bytes of an unfinished character.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Bytes(bytes) => bytes.len(),
            // Their text comes with that of their end.
            State::Window(_) => 0,
        }
    }

    /// Ends the stream: an unfinished character becomes U+FFFD.
    pub fn finish(&mut self) -> Result<String> {
        Ok(match &mut self.state {
            State::Bytes(pending) => String::from_utf8_lossy(&std::mem::take(pending)).into_owned(),
            State::Window(window) => window.rest(&self.text)?,
        })
    }
}

/// Moves everything but an unfinished character from `pending` to `ready`; bytes that can never
/// become a character are U+FFFD, in the same number as when all bytes are decoded at once.
fn take_complete(pending: &mut Vec<u8>, ready: &mut String) {
    loop {
        match std::str::from_utf8(pending) {
            Ok(text) => {
                ready.push_str(text);
                pending.clear();
                return;
            }
            Err(error) => {
                let valid = error.valid_up_to();
                ready.push_str(&String::from_utf8_lossy(&pending[..valid]));
                match error.error_len() {
                    None => {
                        pending.drain(..valid);
                        return;
                    }
                    Some(bad) => {
                        ready.push(REPLACEMENT);
                        pending.drain(..valid + bad);
                    }
                }
            }
        }
    }
}

impl Window {
    /// Longest run of tokens that is held back in the hope that they become characters.
    const MAX_HELD: usize = 64;

    fn push(&mut self, text: &Text, id: u32) -> Result<Option<String>> {
        self.ids.push(id);
        // What a row of bytes is, its end decides.
        if text.pieces().is_byte(text.tokenizer(), id) {
            return Ok(None);
        }
        let all = text.decode_ids(&self.ids[self.from..], false)?;
        // A replacement character at the end may be the front half of a character.
        let unfinished = all.ends_with(REPLACEMENT) && self.ids.len() - self.shown < Self::MAX_HELD;
        if unfinished {
            return Ok(None);
        }
        let piece = self.beyond_shown(text, &all)?;
        // Tokens without a text: a long row of them would make every step longer than the one before,
        // and is no context either.
        if piece.is_empty() {
            if self.ids.len() - self.shown >= Self::MAX_HELD {
                self.ids.truncate(self.shown);
            }
            return Ok(None);
        }
        // Keep the tokens just shown as the context of the next ones.
        (self.from, self.shown) = (self.shown, self.ids.len());
        Ok(Some(piece))
    }

    /// The end of the stream: nothing is a context of the next one.
    fn rest(&mut self, text: &Text) -> Result<String> {
        let all = text.decode_ids(&self.ids[self.from..], false)?;
        let piece = self.beyond_shown(text, &all)?;
        (self.from, self.shown) = (self.ids.len(), self.ids.len());
        Ok(piece)
    }

    fn settle(&mut self) {
        self.ids.drain(..self.from);
        (self.from, self.shown) = (0, self.shown - self.from);
    }

    fn beyond_shown(&self, text: &Text, all: &str) -> Result<String> {
        let shown = text.decode_ids(&self.ids[self.from..self.shown], false)?;
        // Decoders do not take back what they gave for a prefix; should one do so, the common part
        // is what was shown.
        let common = all
            .char_indices()
            .zip(shown.chars())
            .find(|((_, a), b)| a != b)
            .map_or(shown.len().min(all.len()), |((at, _), _)| at);
        Ok(all[common..].to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;

    fn stream(chunks: &[&[u8]]) -> (String, usize) {
        let (mut pending, mut ready) = (Vec::new(), String::new());
        for chunk in chunks {
            pending.extend_from_slice(chunk);
            take_complete(&mut pending, &mut ready);
        }
        (ready, pending.len())
    }

    #[test]
    fn an_unfinished_character_waits() {
        let euro = "€".as_bytes();
        assert_eq!(stream(&[&euro[..1]]), (String::new(), 1));
        assert_eq!(stream(&[&euro[..2]]), (String::new(), 2));
        assert_eq!(stream(&[&euro[..1], &euro[1..]]), ("€".to_string(), 0));
    }

    #[test]
    fn any_cutting_of_any_bytes_equals_lossy_decoding() {
        let mut random = crate::random::random(1);
        let parts: [&[u8]; 8] = [
            b"a",
            "é".as_bytes(),
            "漢".as_bytes(),
            "😀".as_bytes(),
            b"\x80",
            b"\xff",
            b"\xe6\xbc",
            b"\xf0\x9f",
        ];
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random(12))
                .flat_map(|_| parts[random(8) as usize].to_vec())
                .collect();
            let (mut pending, mut ready) = (Vec::new(), String::new());
            let mut at = 0;
            while at < bytes.len() {
                let n = (1 + random(3) as usize).min(bytes.len() - at);
                pending.extend_from_slice(&bytes[at..at + n]);
                take_complete(&mut pending, &mut ready);
                at += n;
            }
            ready.push_str(&String::from_utf8_lossy(&pending));
            assert_eq!(ready, String::from_utf8_lossy(&bytes), "{bytes:?}");
        }
    }

    /// Whether it is a character, only its end tells; so a step must cost no more at the end of a long row.
    #[test]
    fn a_row_of_bytes_stays_where_it_is() {
        let tokenizer = serde_json::json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "<0xF0>": 1, "<0x9F>": 2, "<0x98>": 3, "<0x80>": 4}, "merges": []},
            "decoder": {"type": "ByteFallback"},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        let mut detok = Detok::new(Arc::new(Text::new(loaded).unwrap()), true);
        fn row(detok: &mut Detok) -> &mut Vec<u32> {
            let State::Window(window) = &mut detok.state else {
                panic!("it is no vocabulary of bytes");
            };
            &mut window.ids
        }
        row(&mut detok).reserve(1000);
        let begin = row(&mut detok).as_ptr();
        let mut text = String::new();
        for step in 0..400 {
            // Asked for, refused, taken.
            for taken in [Ok(false), Err(crate::error::Error::range("full")), Ok(true)] {
                let push = |detok: &mut Detok| detok.push(&[1 + step % 4]);
                let _ = detok.advance(push, |piece| {
                    assert_eq!(piece, "");
                    taken
                });
            }
            assert_eq!(row(&mut detok).as_ptr(), begin);
            assert_eq!(row(&mut detok).len(), 1 + step as usize);
        }
        for taken in [false, true] {
            let end = |piece| {
                text = piece;
                Ok(taken)
            };
            detok.advance(|detok| detok.push(&[0, 0]), end).unwrap();
        }
        assert_eq!(text, "😀".repeat(100) + "aa");
        // What was shown goes away with the next step, but for what its tokens may look at.
        assert_eq!(detok.push(&[1]).unwrap(), "");
        assert_eq!(*row(&mut detok), [0, 1]);
        assert_eq!(detok.finish().unwrap(), "\u{fffd}");
        assert_eq!(detok.push(&[]).unwrap(), "");
        assert!(row(&mut detok).is_empty());
    }

    #[test]
    fn tokens_without_a_text_leave_little_in_the_window() {
        let tokenizer = serde_json::json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "x": 1}, "merges": []},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "x"}, "content": ""}, {"type": "Fuse"}]},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        let mut detok = Detok::new(Arc::new(Text::new(loaded).unwrap()), true);
        let mut text = String::new();
        for token in [[0].as_slice(), &[1; 1000], &[0, 1, 0]].concat() {
            text += &detok.push(&[token]).unwrap();
            let State::Window(window) = &detok.state else {
                panic!("it is no vocabulary of bytes");
            };
            assert!(window.ids.len() <= 2 * Window::MAX_HELD);
        }
        assert_eq!(text + &detok.finish().unwrap(), "aaa");
    }

    #[test]
    fn a_row_of_tokens_without_a_text_is_no_context() {
        // It takes the space in front of the first token away, whichever that is.
        let tokenizer = serde_json::json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "x": 1, "\u{2581}a": 2}, "merges": []},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "x"}, "content": ""},
                {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        let mut detok = Detok::new(Arc::new(Text::new(loaded).unwrap()), true);
        let tokens = [[0].as_slice(), &[1; 3 * Window::MAX_HELD], &[2]].concat();
        let mut text = String::new();
        for token in tokens {
            text += &detok.push(&[token]).unwrap();
        }
        assert_eq!(text + &detok.finish().unwrap(), "a a");
    }

    #[test]
    fn holes_in_the_vocabulary_leave_nothing_in_the_window() {
        let tokenizer = serde_json::json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "\u{2581}b": 1, "c": 99}, "merges": []},
            "decoder": {"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always"},
        });
        let loaded = from_texts(&tokenizer.to_string(), None).unwrap();
        let text = Arc::new(Text::new(loaded).unwrap());
        let mut detok = Detok::new(text.clone(), true);
        let tokens = [7, 7, 7, 1, 7, 7, 7, 0, 7, 1];
        let mut pieces = String::new();
        for token in tokens {
            pieces += &detok.push(&[token]).unwrap();
            let State::Window(window) = &detok.state else {
                panic!("it is no vocabulary of bytes");
            };
            assert!(window.ids.len() <= 2, "{:?}", window.ids);
        }
        assert_eq!(pieces, "ba b");
        assert_eq!(pieces, text.decode(&tokens, true).unwrap());
    }
}
