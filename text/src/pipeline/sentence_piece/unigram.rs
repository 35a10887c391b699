//! Cuts a text so that the sum of the scores of its pieces is the highest.
//!
//! ```text
//!   ▁ l o w e r       at each place: the best way to it, its score, and the piece that it ends with
//!   |-----|           "▁lo"   pieces that begin at a place are found in one walk down a trie;
//!         |-----|     "wer"   where none is one character long, the character is unknown
//! ```
//!
//! A place is compared with at most as many pieces as the longest has bytes. Scores are added in f32,
//! as SentencePiece adds them: in f64 other sums would be equal.

use super::vocabulary::Vocabulary;
use crate::error::Result;
use crate::pipeline::meter;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;
/// What an unknown character is below the lowest score.
const UNKNOWN_BELOW: f32 = 10.0;
/// Places between two looks at the clock.
const OFTEN: usize = 256;
/// Memory for each byte of the pieces: a node, and its turn while the trie is built.
const ROOM_NODE: usize = 96;

/// A node of the trie; its children stand one behind the other, by their bytes.
#[derive(Clone, Copy)]
struct Node {
    first_child: u32,
    children: u16,
    byte: u8,
    /// The piece that ends here.
    id: u32,
}

pub struct Trie {
    nodes: Vec<Node>,
    unknown_score: f32,
}

/// The best way to a place.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    begin: u32,
    id: u32,
}

impl Trie {
    pub fn new(vocabulary: &Vocabulary) -> Result<Trie> {
        let mut pieces: Vec<(&[u8], u32)> = vocabulary
            .normal()
            .map(|id| (vocabulary.text(id).as_bytes(), id))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        let bytes: usize = pieces.iter().map(|(text, _)| text.len()).sum();
        meter::room(bytes.saturating_mul(ROOM_NODE))?;
        pieces.sort_unstable();
        let empty = Node {
            first_child: 0,
            children: 0,
            byte: 0,
            id: NONE,
        };
        let mut nodes = vec![empty];
        // Nodes without children yet, and the pieces that lead through them.
        let mut open = VecDeque::from([(0, &pieces[..], 0)]);
        while let Some((node, mut through, depth)) = open.pop_front() {
            if let Some((text, id)) = through.first().filter(|(text, _)| text.len() == depth) {
                debug_assert_eq!(text.len(), depth);
                nodes[node].id = *id;
                through = &through[1..];
            }
            nodes[node].first_child = nodes.len() as u32;
            while let Some((text, _)) = through.first() {
                let byte = text[depth];
                let (same, others) =
                    through.split_at(through.partition_point(|(text, _)| text[depth] == byte));
                nodes[node].children += 1;
                open.push_back((nodes.len(), same, depth + 1));
                nodes.push(Node { byte, ..empty });
                through = others;
            }
        }
        let lowest = vocabulary
            .normal()
            .map(|id| vocabulary.score(id))
            .reduce(f32::min);
        Ok(Trie {
            nodes,
            unknown_score: lowest.unwrap_or(0.0) - UNKNOWN_BELOW,
        })
    }

    fn child(&self, node: &Node, byte: u8) -> Option<&Node> {
        let first = node.first_child as usize;
        let children = &self.nodes[first..first + usize::from(node.children)];
        let at = children
            .binary_search_by_key(&byte, |child| child.byte)
            .ok()?;
        Some(&children[at])
    }
}

/// Calls `each` with the begin, the end and the id of every piece; none where the vocabulary lacks a
/// character.
pub fn cut(
    vocabulary: &Vocabulary,
    trie: &Trie,
    text: &str,
    each: &mut dyn FnMut(usize, usize, Option<u32>),
) -> Result<()> {
    let nowhere = Best {
        score: 0.0,
        begin: NONE,
        id: NONE,
    };
    let mut best = vec![nowhere; text.len() + 1];
    for (i, (begin, c)) in text.char_indices().enumerate() {
        if i % OFTEN == 0 {
            meter::tick(OFTEN * 16)?;
        }
        let so_far = best[begin].score;
        let mut reach = |end: usize, score: f32, id: u32| {
            let score = score + so_far;
            let there = &mut best[end];
            if there.begin == NONE || score > there.score {
                *there = Best {
                    score,
                    begin: begin as u32,
                    id,
                };
            }
        };
        let single = begin + c.len_utf8();
        let mut is_known = false;
        let mut node = &trie.nodes[0];
        for (at, byte) in text.as_bytes().iter().enumerate().skip(begin) {
            match trie.child(node, *byte) {
                Some(child) => node = child,
                None => break,
            }
            if node.id != NONE {
                reach(at + 1, vocabulary.score(node.id), node.id);
                is_known |= at + 1 == single;
            }
        }
        if !is_known {
            reach(single, trie.unknown_score, NONE);
        }
    }
    let mut pieces = Vec::new();
    let mut end = text.len();
    while end > 0 {
        let piece = best[end];
        pieces.push((piece.begin as usize, end, piece.id));
        end = piece.begin as usize;
    }
    for (begin, end, id) in pieces.into_iter().rev() {
        each(begin, end, (id != NONE).then_some(id));
    }
    Ok(())
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
        let trie = Trie::new(&vocabulary).unwrap();
        let mut found = Vec::new();
        cut(&vocabulary, &trie, text, &mut |begin, end, id| {
            let mark = if id.is_none() { "?" } else { "" };
            found.push(format!("{mark}{}", &text[begin..end]));
        })
        .unwrap();
        found
    }

    use Kind::{Control, Normal, Unused};

    #[test]
    fn the_highest_sum_wins_and_the_first_of_equals() {
        let list = [
            ("a", -1.0, Normal),
            ("ab", -3.0, Normal),
            ("b", -1.0, Normal),
            ("bc", -1.5, Normal),
        ];
        assert_eq!(pieces(&list, "ab"), ["a", "b"]);
        assert_eq!(pieces(&list, "abc"), ["a", "bc"]);
        let equal = [
            ("a", -1.0, Normal),
            ("ab", -2.0, Normal),
            ("b", -1.0, Normal),
        ];
        assert_eq!(pieces(&equal, "ab"), ["ab"]);
    }

    #[test]
    fn a_character_without_a_piece_is_unknown() {
        let list = [("a", -1.0, Normal), ("\u{e9}t", -2.0, Normal)];
        assert_eq!(
            pieces(&list, "a\u{e9}ta\u{e9}"),
            ["a", "\u{e9}t", "a", "?\u{e9}"]
        );
        // 10 below the lowest: dear, but not at any price.
        let list = [
            ("a", -1.0, Normal),
            ("ab", -11.5, Normal),
            ("b", -30.0, Unused),
            ("x", -0.5, Normal),
        ];
        assert_eq!(pieces(&list, "ab"), ["ab"]);
        assert!(pieces(&list, "").is_empty());
    }

    #[test]
    fn only_normal_pieces_come_of_text() {
        let list = [
            ("a", -1.0, Normal),
            ("ab", 0.0, Control),
            ("b", -1.0, Normal),
            ("bb", 0.0, Unused),
        ];
        assert_eq!(pieces(&list, "abb"), ["a", "b", "b"]);
    }
}
