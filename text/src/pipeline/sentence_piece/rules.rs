//! What SentencePiece does to a text before it cuts it.

use super::charsmap::CharsMap;
use crate::error::Result;
use crate::pipeline::meter;
use tokenizers::NormalizedString;

/// Stands for a space.
const MARK: char = '\u{2581}';
/// Memory for each byte of a text before and after: characters with what they replace, and their
/// origins.
const ROOM: usize = 64;

pub struct Rules {
    pub charsmap: Option<CharsMap>,
    /// Rows of spaces become one, and none is left at the ends.
    pub one_space: bool,
    /// A space in front of a text that is not empty.
    pub space_in_front: bool,
}

/// The new text: each character with the number of old ones that it stands for, none for one that
/// was put in.
#[derive(Default)]
struct Written {
    characters: Vec<(char, u32)>,
    /// Old characters in front that nothing stands for.
    skipped: u32,
}

impl Rules {
    /// The first piece of a text: what replaces it, and its length.
    fn first<'a>(&'a self, text: &'a str) -> (&'a str, usize) {
        if let Some((length, new)) = self.charsmap.as_ref().and_then(|map| map.first(text)) {
            return (new, length);
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (&text[..length], length)
    }

    /// Calls `each` with every piece of the new text and the number of old characters it stands for.
    fn walk(
        &self,
        text: &str,
        continues: bool,
        each: &mut dyn FnMut(&str, u32) -> Result<()>,
    ) -> Result<()> {
        let mut rest = text;
        let mut front = 0;
        while self.one_space && !rest.is_empty() {
            let (new, length) = self.first(rest);
            if new != " " {
                break;
            }
            front += rest[..length].chars().count() as u32;
            rest = &rest[length..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        if continues {
            // Rows of spaces become one here, too, and none is put in.
            each(if front > 0 { " " } else { "" }, front)?;
        } else {
            each("", front)?;
            if self.space_in_front {
                each(" ", 0)?;
            }
        }
        let mut behind_space = self.one_space;
        while !rest.is_empty() {
            let (new, length) = self.first(rest);
            let new = match behind_space {
                true => new.trim_start_matches(' '),
                false => new,
            };
            each(new, rest[..length].chars().count() as u32)?;
            if !new.is_empty() {
                behind_space = self.one_space && new.ends_with(' ');
            }
            rest = &rest[length..];
        }
        Ok(())
    }

    /// `continues`: the text goes on another one.
    pub fn run(&self, text: &mut NormalizedString, continues: bool) -> Result<()> {
        let before = text.get();
        let (mut bytes, mut characters) = (0usize, 0usize);
        self.walk(before, continues, &mut |piece, _| {
            for c in piece.chars() {
                bytes += if c == ' ' {
                    MARK.len_utf8()
                } else {
                    c.len_utf8()
                };
                characters += 1;
            }
            meter::length(bytes)
        })?;
        meter::room(bytes.saturating_add(before.len()).saturating_mul(ROOM))?;
        let mut written = Written::default();
        written.characters.reserve_exact(characters);
        self.walk(before, continues, &mut |piece, replaced| {
            written.add(piece, replaced);
            Ok(())
        })?;
        if self.one_space {
            written.strip_end();
        }
        if written.characters.is_empty() {
            text.clear();
        } else {
            text.transform(written.changes(), written.skipped as usize);
        }
        Ok(())
    }
}

impl Written {
    fn add(&mut self, piece: &str, replaced: u32) {
        let mut replaced = replaced;
        if piece.is_empty() {
            *self.last() += replaced;
        }
        for c in piece.chars() {
            let c = if c == ' ' { MARK } else { c };
            self.characters.push((c, replaced));
            replaced = 0;
        }
    }

    /// Where old characters go that nothing new stands for.
    fn last(&mut self) -> &mut u32 {
        match self.characters.last_mut() {
            Some((_, replaced)) => replaced,
            None => &mut self.skipped,
        }
    }

    fn strip_end(&mut self) {
        while let Some((MARK, replaced)) = self.characters.last().copied() {
            self.characters.pop();
            *self.last() += replaced;
        }
    }

    /// As the crate wants them: 1 for a character that was put in, minus the number of those that go
    /// beside the replaced one for the others.
    fn changes(&self) -> impl Iterator<Item = (char, isize)> + '_ {
        self.characters
            .iter()
            .map(|(c, replaced)| (*c, 1 - *replaced as isize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(one_space: bool, space_in_front: bool, text: &str) -> String {
        written_behind(false, one_space, space_in_front, text)
    }

    fn written_behind(
        continues: bool,
        one_space: bool,
        space_in_front: bool,
        text: &str,
    ) -> String {
        let rules = Rules {
            charsmap: None,
            one_space,
            space_in_front,
        };
        let mut text = NormalizedString::from(text);
        rules.run(&mut text, continues).unwrap();
        text.get().to_string()
    }

    #[test]
    fn spaces() {
        assert_eq!(
            written(false, true, " a  b "),
            "\u{2581}\u{2581}a\u{2581}\u{2581}b\u{2581}"
        );
        assert_eq!(written(false, false, " a"), "\u{2581}a");
        assert_eq!(written(true, true, "  a  b  "), "\u{2581}a\u{2581}b");
        assert_eq!(written(true, false, "  a  b  "), "a\u{2581}b");
        for text in ["", " ", "   "] {
            assert_eq!(written(true, true, text), "", "{text:?}");
        }
        assert_eq!(written(false, true, ""), "");
        // A mark of its own at the end goes too, one in front does not.
        assert_eq!(written(true, false, "\u{2581}a\u{2581}"), "\u{2581}a");
        assert_eq!(written(true, true, "\u{2581}"), "");
    }

    /// What is written of two texts, one behind the other, is written of both together.
    #[test]
    fn a_text_that_goes_on_another() {
        for one_space in [false, true] {
            for space_in_front in [false, true] {
                for (first, second) in [("a", "b"), ("a", " b"), ("a", "  b  c")] {
                    let [whole, begun] = [&[first, second].concat(), first]
                        .map(|text| written(one_space, space_in_front, text));
                    let rest = written_behind(true, one_space, space_in_front, second);
                    assert_eq!(
                        begun + &rest,
                        whole,
                        "{one_space} {space_in_front} {second:?}"
                    );
                }
            }
        }
    }
}
