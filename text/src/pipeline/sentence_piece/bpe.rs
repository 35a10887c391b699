//! Cuts a text by joining neighbours, the pair with the highest score first, from the left.
//!
//! ```text
//!   symbols   ▁  l  o  w     each knows its neighbours; a joined one has taken in the right
//!   pairs     "lo" -1.5  "ow" -2.0  "▁l" -7.0     a heap; pairs of symbols that have changed since
//!                                                 are found out by their length, and dropped
//! ```
//!
//! A text of n characters has n - 1 pairs, and each of at most n - 1 joins makes two more: time is
//! n log n.

use super::vocabulary::Vocabulary;
use crate::error::Result;
use crate::pipeline::meter;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// No symbol.
const NONE: u32 = u32::MAX;
/// Pairs between two looks at the clock.
const OFTEN: usize = 1024;

/// A part of the text; empty when its left neighbour has taken it in. Texts are below 4 GB: see
/// `meter::GROWTH` and the longest text of a call.
#[derive(Clone, Copy)]
struct Symbol {
    begin: u32,
    end: u32,
    left: u32,
    right: u32,
}

struct Pair {
    score: f32,
    left: u32,
    right: u32,
    /// Bytes of both when the pair was found.
    size: u32,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let scores = self.score.total_cmp(&other.score);
        scores.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

struct Cutter<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
    /// Where the unused pieces that were met are joined: bytes of the left part.
    joints: HashMap<u32, usize>,
}

/// Calls `each` with the begin, the end and the id of every piece; none where the vocabulary lacks a
/// character.
pub fn cut(
    vocabulary: &Vocabulary,
    text: &str,
    each: &mut dyn FnMut(usize, usize, Option<u32>),
) -> Result<()> {
    let mut cutter = Cutter {
        vocabulary,
        text,
        symbols: characters(text),
        pairs: BinaryHeap::new(),
        joints: HashMap::new(),
    };
    for right in 1..cutter.symbols.len() as u32 {
        if (right as usize).is_multiple_of(OFTEN) {
            meter::tick(OFTEN * 4)?;
        }
        cutter.find(right - 1, right);
    }
    cutter.join()?;
    let Cutter {
        symbols, joints, ..
    } = cutter;
    for symbol in symbols.iter().filter(|symbol| symbol.begin < symbol.end) {
        let (begin, end) = (symbol.begin as usize, symbol.end as usize);
        give(vocabulary, text, begin, end, &joints, each);
    }
    Ok(())
}

fn characters(text: &str) -> Vec<Symbol> {
    let count = text.chars().count() as u32;
    let symbols = text
        .char_indices()
        .zip(0u32..)
        .map(|((begin, c), i)| Symbol {
            begin: begin as u32,
            end: (begin + c.len_utf8()) as u32,
            left: i.checked_sub(1).unwrap_or(NONE),
            right: if i + 1 < count { i + 1 } else { NONE },
        });
    symbols.collect()
}

impl Cutter<'_> {
    /// Notes the pair when it is a piece.
    fn find(&mut self, left: u32, right: u32) {
        if left == NONE || right == NONE {
            return;
        }
        let (begin, middle) = {
            let symbol = self.symbols[left as usize];
            (symbol.begin as usize, symbol.end as usize)
        };
        let end = self.symbols[right as usize].end as usize;
        let Some(id) = self.vocabulary.piece(&self.text[begin..end]) else {
            return;
        };
        if self.vocabulary.is_unused(id) {
            self.joints.insert(id, middle - begin);
        }
        self.pairs.push(Pair {
            score: self.vocabulary.score(id),
            left,
            right,
            size: (end - begin) as u32,
        });
    }

    fn join(&mut self) -> Result<()> {
        let mut done = 0;
        while let Some(pair) = self.pairs.pop() {
            done += 1;
            if done % OFTEN == 0 {
                meter::tick(OFTEN * 4)?;
            }
            let (left, right) = (
                self.symbols[pair.left as usize],
                self.symbols[pair.right as usize],
            );
            let changed = left.begin == left.end
                || right.begin == right.end
                || right.end - left.begin != pair.size;
            if changed {
                continue;
            }
            self.symbols[pair.left as usize] = Symbol {
                end: right.end,
                right: right.right,
                ..left
            };
            self.symbols[pair.right as usize].end = right.begin;
            if right.right != NONE {
                self.symbols[right.right as usize].left = pair.left;
            }
            self.find(left.left, pair.left);
            self.find(pair.left, right.right);
        }
        Ok(())
    }
}

/// Gives out a piece, or the parts of an unused one, which may be unused themselves: as many as it has
/// characters, one inside the other.
fn give(
    vocabulary: &Vocabulary,
    text: &str,
    begin: usize,
    end: usize,
    joints: &HashMap<u32, usize>,
    each: &mut dyn FnMut(usize, usize, Option<u32>),
) {
    let mut open = vec![(begin, end)];
    while let Some((begin, end)) = open.pop() {
        let id = vocabulary.piece(&text[begin..end]);
        let joint = id
            .filter(|id| vocabulary.is_unused(*id))
            .and_then(|id| joints.get(&id));
        match joint {
            Some(left) => open.extend([(begin + left, end), (begin, begin + left)]),
            None => each(begin, end, id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::Kind;
    use super::*;

    fn pieces(list: &[(&str, f32, Kind)], text: &str) -> Vec<String> {
        let texts = list.iter().map(|entry| entry.0.to_string()).collect();
        let scores: Vec<f32> = list.iter().map(|entry| entry.1).collect();
        let kinds = list.iter().map(|entry| entry.2).collect();
        let vocabulary = Vocabulary::new(texts, kinds, &scores, Some(0)).unwrap();
        let mut found = Vec::new();
        cut(&vocabulary, text, &mut |begin, end, id| {
            let mark = if id.is_none() { "?" } else { "" };
            found.push(format!("{mark}{}", &text[begin..end]));
        })
        .unwrap();
        found
    }

    use Kind::{Control, Normal, Unused};

    #[test]
    fn the_highest_score_goes_first_then_the_leftmost() {
        let list = [
            ("a", 0.0, Normal),
            ("aa", -1.0, Normal),
            ("aaa", -1.0, Normal),
        ];
        assert_eq!(pieces(&list, "aaaaa"), ["aaa", "aa"]);
        let list = [
            ("a", 0.0, Normal),
            ("ab", -2.0, Normal),
            ("bc", -1.0, Normal),
        ];
        assert_eq!(pieces(&list, "abc"), ["a", "bc"]);
        let list = [
            ("a", 0.0, Normal),
            ("ab", 0.0, Normal),
            ("bc", -0.0, Normal),
        ];
        assert_eq!(pieces(&list, "abc"), ["ab", "?c"]);
        let list = [
            ("a", 0.0, Normal),
            ("ab", 0.5, Normal),
            ("bc", -0.5, Normal),
        ];
        assert_eq!(pieces(&list, "abc"), ["ab", "?c"]);
    }

    #[test]
    fn an_unused_piece_is_given_out_in_parts() {
        let list = [
            ("a", 0.0, Normal),
            ("b", 0.0, Normal),
            ("c", 0.0, Normal),
            ("bc", -1.0, Unused),
            ("abc", -2.0, Unused),
            ("abcc", -3.0, Normal),
        ];
        assert_eq!(pieces(&list, "abc"), ["a", "b", "c"]);
        assert_eq!(pieces(&list, "abcc"), ["abcc"]);
        assert_eq!(pieces(&[("x", 0.0, Unused)], "x"), ["x"]);
    }

    #[test]
    fn a_small_stack_holds_the_parts_of_an_unused_piece() {
        let row = "a".to_string() + &"b".repeat(999);
        let unused = (2..=row.len()).map(|n| (&row[..n], 0.0, Unused));
        let list: Vec<_> = unused
            .chain([("a", 0.0, Normal), ("b", 0.0, Normal)])
            .collect();
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let found = std::thread::scope(|scope| {
            let thread = small.spawn_scoped(scope, || pieces(&list, &row).len());
            thread.unwrap().join().unwrap()
        });
        assert_eq!(found, row.len());
    }

    #[test]
    fn control_tokens_do_not_come_of_text() {
        let list = [("a", 0.0, Normal), ("ab", 9.0, Control), ("b", 0.0, Normal)];
        assert_eq!(pieces(&list, "ab"), ["a", "b"]);
        assert!(pieces(&list, "").is_empty());
    }
}
