//! JSON that comes byte by byte: where the object or the list that it begins with ends, or that it is none.
//!
//! Numbers and words are not looked into; who wants the value reads it when it is whole. What is wrong shows at the byte
//! that makes it so, so that a text with many beginnings of calls is read in time that grows as its length does.

/// Brackets within brackets: as deep as readers of JSON go.
const DEPTH: usize = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A part of the value, or white space in front of it.
    More,
    /// Its last byte.
    End,
    /// It is no JSON, or too deep.
    Wrong,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    Colon,
    CommaOrEnd,
}

#[derive(Debug, Default)]
pub struct Scan {
    /// The brackets that are open.
    open: Vec<u8>,
    next: Next,
    in_text: bool,
    is_escaped: bool,
    in_word: bool,
}

impl Scan {
    /// Nothing may come after [`Step::End`] or [`Step::Wrong`].
    pub fn push(&mut self, byte: u8) -> Step {
        if self.in_text {
            match byte {
                0..=0x1f => return Step::Wrong,
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return Step::More;
        }
        let is_word = byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        self.in_word &= is_word;
        if self.in_word {
            return Step::More;
        }
        let takes_value = matches!(self.next, Next::Value | Next::ValueOrEnd);
        let is_inside = !self.open.is_empty();
        match (byte, self.next) {
            (b' ' | b'\n' | b'\r' | b'\t', _) => {}
            (b'{' | b'[', _) if takes_value && self.open.len() < DEPTH => {
                self.open.push(byte);
                self.next = match byte {
                    b'{' => Next::NameOrEnd,
                    _ => Next::ValueOrEnd,
                };
            }
            (b'"', _) if takes_value && is_inside => {
                (self.in_text, self.next) = (true, Next::CommaOrEnd);
            }
            (b'"', Next::Name | Next::NameOrEnd) => {
                (self.in_text, self.next) = (true, Next::Colon);
            }
            (b':', Next::Colon) => self.next = Next::Value,
            (b',', Next::CommaOrEnd) => {
                self.next = match self.open.last() {
                    Some(b'{') => Next::Name,
                    _ => Next::Value,
                };
            }
            (b'}', Next::NameOrEnd | Next::CommaOrEnd) => return self.close(b'{'),
            (b']', Next::ValueOrEnd | Next::CommaOrEnd) => return self.close(b'['),
            _ if is_word && takes_value && is_inside => {
                (self.in_word, self.next) = (true, Next::CommaOrEnd);
            }
            _ => return Step::Wrong,
        }
        Step::More
    }

    fn close(&mut self, bracket: u8) -> Step {
        if self.open.pop() != Some(bracket) {
            return Step::Wrong;
        }
        self.next = Next::CommaOrEnd;
        match self.open.is_empty() {
            true => Step::End,
            false => Step::More,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes there are up to the end, or up to what is wrong.
    fn scan(text: &str) -> (usize, Step) {
        let mut scan = Scan::default();
        for (at, byte) in text.bytes().enumerate() {
            match scan.push(byte) {
                Step::More => {}
                step => return (at + 1, step),
            }
        }
        (text.len(), Step::More)
    }

    #[test]
    fn it_ends_where_its_first_bracket_closes() {
        for value in [
            "{}",
            "[]",
            r#"{"a": {"b": [1, -2.5e+3, true, null, "x"]}, "c": []}"#,
            r#"{"}": "\"}\\", "é": "}]\u007d"}"#,
            "[[{}], {}, [ ] ]",
        ] {
            assert_eq!(scan(value), (value.len(), Step::End), "{value}");
            let padded = format!(" \n\t{value} }} rest");
            assert_eq!(scan(&padded), (value.len() + 3, Step::End), "{value}");
            for end in 1..value.len() {
                if value.is_char_boundary(end) {
                    assert_eq!(scan(&value[..end]), (end, Step::More), "{value}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_shows_at_once() {
        for (text, at) in [
            ("x", 1),
            ("\"a\"", 1),
            ("1", 1),
            ("{a", 2),
            ("{1", 2),
            ("{,", 2),
            ("{\"a\"}", 5),
            ("{\"a\",", 5),
            ("{\"a\": }", 7),
            ("{\"a\": 1,}", 9),
            ("{\"a\": 1 2", 9),
            ("{\"a\": \"b\" \"", 11),
            ("{\"a\": 1]", 8),
            ("[1}", 3),
            ("[1,]", 4),
            ("[1:", 3),
            ("{\"a\n", 4),
            ("[é", 2),
            ("[\\", 2),
        ] {
            assert_eq!(scan(text), (at, Step::Wrong), "{text}");
        }
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(scan(&deep(DEPTH)), (2 * DEPTH, Step::End));
        assert_eq!(scan(&deep(DEPTH + 1)), (DEPTH + 1, Step::Wrong));
    }

    /// One that the library of JSON takes is taken, and has the same end.
    #[test]
    fn it_agrees_with_a_reader_of_json() {
        let mut state = 7u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % n
        };
        let (mut whole, parts) = (
            0,
            ["{", "}", "[", "]", ",", ":", "\"a\"", "1", " ", "\"\\\"\""],
        );
        for _ in 0..200_000 {
            let mut text = ["{", "["][draw(2) as usize].to_string();
            for _ in 0..draw(8) {
                text += parts[draw(parts.len() as u64) as usize];
            }
            let mut values =
                serde_json::Deserializer::from_str(&text).into_iter::<serde::de::IgnoredAny>();
            if let Some(Ok(_)) = values.next() {
                assert_eq!(scan(&text), (values.byte_offset(), Step::End), "{text}");
                whole += 1;
            }
        }
        assert!(whole > 1000, "{whole}");
    }
}
