//! Where the tokens of a text begin in it.
//!
//! ```text
//!   tokens    <E2> <82> <AC>  "b"  | "c"
//!   pieces    |    \u{20ac}    b    | c       a row of bytes waits for its end, which says what it is
//!   begins    0    0    0     3      4       tokens of one character begin where it does
//! ```

use crate::text::Text;
use std::sync::Arc;

pub struct Places {
    text: Arc<Text>,
    begins: Vec<usize>,
    /// What the tokens are written with whose text has not come.
    waiting: Vec<Vec<u8>>,
    /// The first of these is the rest of a token that has its place.
    is_begun: bool,
}

impl Places {
    pub fn new(text: &Arc<Text>) -> Places {
        Places {
            text: text.clone(),
            begins: Vec::new(),
            waiting: Vec::new(),
            is_begun: false,
        }
    }

    /// The next token; None: one that has no text.
    pub fn wait(&mut self, token: Option<i32>) {
        let id = token.and_then(|token| u32::try_from(token).ok());
        let written = |id: &u32| !self.text.pieces().is_special(*id);
        let bytes = id.filter(written).map(|id| {
            let pieces = self.text.pieces();
            pieces.bytes(self.text.tokenizer(), id)
        });
        self.waiting.push(bytes.unwrap_or_default());
    }

    /// The text of those that wait has come, behind so many bytes; but for the last bytes, which are held.
    pub fn settle(&mut self, piece: &str, before: usize, held: usize) {
        let (mut held, mut later) = (held, Vec::new());
        let mut rest = None;
        while held > 0 {
            match self.waiting.pop() {
                Some(last) if last.len() <= held => {
                    held -= last.len();
                    later.push(last);
                }
                Some(mut last) => {
                    rest = Some(last.split_off(last.len() - held));
                    self.waiting.push(last);
                    held = 0;
                }
                None => break,
            }
        }
        let placed = begins(&self.waiting, piece);
        let is_new = usize::from(self.is_begun);
        self.begins
            .extend(placed.iter().skip(is_new).map(|at| before + at));
        self.is_begun = rest.is_some() || (self.is_begun && self.waiting.is_empty());
        self.waiting.clear();
        self.waiting
            .extend(rest.into_iter().chain(later.into_iter().rev()));
    }

    /// What begins there, or behind it, is no part of the text; nor is what waits.
    pub fn cut(&mut self, end: usize) {
        self.begins.retain(|begin| *begin < end);
        self.waiting.clear();
    }

    pub fn begin(&self, token: usize) -> Option<usize> {
        self.begins.get(token).copied()
    }
}

/// Where tokens that are written with these bytes begin in their text.
fn begins(tokens: &[Vec<u8>], text: &str) -> Vec<usize> {
    let (decoded, places) = decoded(&tokens.concat());
    let mut begins = vec![0; tokens.len()];
    if decoded == text {
        let mut at = 0;
        for (begin, bytes) in begins.iter_mut().zip(tokens) {
            *begin = places.get(at).copied().unwrap_or(text.len());
            at += bytes.len();
        }
        return begins;
    }
    // A decoder of its own kind. What stands at the end is mostly as it is written.
    let (mut end, mut left) = (text.len(), tokens.len());
    while let Some(last) = tokens[..left].last() {
        let begin = end.wrapping_sub(last.len());
        if !text.as_bytes()[..end].ends_with(last) || !text.is_char_boundary(begin) {
            break;
        }
        (end, left) = (begin, left - 1);
        begins[left] = end;
    }
    // One character for each, as of bytes that are none, or nobody knows.
    let characters = text[..end].char_indices();
    if characters.clone().count() == left {
        for (begin, (at, _)) in begins.iter_mut().zip(characters) {
            *begin = at;
        }
    }
    begins
}

/// The text of bytes, and of each the place of its character; bytes that are no characters become U+FFFD.
fn decoded(bytes: &[u8]) -> (String, Vec<usize>) {
    let (mut text, mut places) = (String::new(), Vec::with_capacity(bytes.len()));
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            places.extend(std::iter::repeat_n(text.len(), character.len_utf8()));
            text.push(character);
        }
        if !chunk.invalid().is_empty() {
            places.extend(std::iter::repeat_n(text.len(), chunk.invalid().len()));
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    (text, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[&[u8]], text: &str) -> Vec<usize> {
        let tokens: Vec<Vec<u8>> = tokens.iter().map(|bytes| bytes.to_vec()).collect();
        begins(&tokens, text)
    }

    #[test]
    fn tokens_of_one_character_begin_where_it_does() {
        let (euro, two) = ("\u{20ac}", "\u{e9}a");
        let parts: Vec<&[u8]> = euro.as_bytes().chunks(1).chain([&b"bc"[..]]).collect();
        assert_eq!(of(&parts, "\u{20ac}bc"), [0, 0, 0, 3]);
        assert_eq!(
            of(&[&two.as_bytes()[..1], &two.as_bytes()[1..]], two),
            [0, 0]
        );
        assert_eq!(of(&[b"", b"a", b"", b"b", b""], "ab"), [0, 0, 1, 1, 2]);
        assert_eq!(of(&[], ""), [0usize; 0]);
    }

    #[test]
    fn bytes_that_are_no_characters_stand_for_themselves() {
        assert_eq!(
            of(&[b"\xe2", b"\x82", b"b"], "\u{fffd}\u{fffd}b"),
            [0, 3, 6]
        );
        // One for both, as other decoders have it.
        assert_eq!(of(&[b"\xe2", b"\x82", b"b"], "\u{fffd}b"), [0, 0, 3]);
        // The end of a character is no token by itself.
        assert_eq!(of(&[b"", b"\xb0"], "\u{17b0}"), [0, 0]);
        assert_eq!(of(&[b"\xe2\x82"], "\u{fffd}"), [0]);
        // A space that the decoder has taken away.
        assert_eq!(of(&[b" a"], "a"), [0]);
        assert_eq!(of(&[b"", b" a", b"b"], "ab"), [0, 0, 1]);
    }

    /// Bytes in any tokens, of which the text comes as far as it is sure.
    #[test]
    fn places_are_those_of_the_whole_text() {
        let mut random = crate::random::random(5);
        let parts: [&[u8]; 6] = [
            b"a",
            "\u{e9}".as_bytes(),
            "\u{17b0}".as_bytes(),
            b"\x80",
            b"\xe1\x9e",
            b"\xf0\x9f",
        ];
        let loaded = crate::load::from_texts(
            r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}}"#,
            None,
        );
        let text = Arc::new(Text::new(loaded.unwrap()).unwrap());
        for _ in 0..3000 {
            let parts = (0..random(9)).map(|_| parts[random(6) as usize]);
            let bytes: Vec<u8> = parts.collect::<Vec<_>>().concat();
            let (whole, of_bytes) = decoded(&bytes);
            let (mut places, mut wanted) = (Places::new(&text), Vec::new());
            let (mut at, mut told, mut pending) = (0, 0, 0);
            while at < bytes.len() {
                let end = (at + random(4) as usize).min(bytes.len());
                wanted.push(of_bytes[at]);
                places.waiting.push(bytes[at..end].to_vec());
                (pending, at) = (pending + end - at, end);
                // All but what may go on to be a character.
                let begun = &bytes[end - pending..end];
                let last = begun.utf8_chunks().last();
                let is_open =
                    |tail: &[u8]| std::str::from_utf8(tail).is_err_and(|e| e.error_len().is_none());
                let tail = last.map_or(&b""[..], |chunk| chunk.invalid());
                let held = if is_open(tail) { tail.len() } else { 0 };
                if pending > held {
                    let (piece, _) = decoded(&begun[..pending - held]);
                    places.settle(&piece, told, held);
                    told += piece.len();
                    pending = held;
                }
            }
            places.settle(&whole[told..], told, 0);
            assert_eq!(places.begins, wanted, "{bytes:?}");
        }
    }
}
