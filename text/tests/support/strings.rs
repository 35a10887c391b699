//! The texts that tokenizers are compared on: the same ones that tools/golden/text_strings.py makes.

use sha2::{Digest, Sha256};

pub const COUNT: usize = 10_000;
pub const BLOCK: usize = 100;

const RANGES: [(u32, u32); 25] = [
    (0x0000, 0x001f),
    (0x0020, 0x007e),
    (0x007f, 0x00ff),
    (0x0100, 0x024f),
    (0x0300, 0x036f),
    (0x0370, 0x03ff),
    (0x0400, 0x052f),
    (0x0590, 0x06ff),
    (0x0900, 0x0d7f),
    (0x0e00, 0x0fff),
    (0x1100, 0x11ff),
    (0x1d00, 0x1fff),
    (0x2000, 0x206f),
    (0x2070, 0x2bff),
    (0x3000, 0x30ff),
    (0x3400, 0x9fff),
    (0xac00, 0xd7a3),
    (0xe000, 0xf8ff),
    (0xf900, 0xffff),
    (0x10000, 0x12fff),
    (0x1d400, 0x1d7ff),
    (0x1f000, 0x1faff),
    (0x20000, 0x2fa1f),
    (0xe0000, 0xe01ef),
    (0x10ff00, 0x10ffff),
];
const DENSE: &[u8] = b" \t\n\r.,;:'\"!?()[]{}<>|/\\_-+=*&^%$#@~`0123456789aAzZ";

/// 64-bit words (splitmix64) that depend on a name only.
pub struct Stream(u64);

impl Stream {
    pub fn new(name: &str) -> Self {
        let hash = Sha256::digest(name.as_bytes());
        Stream(u64::from_le_bytes(hash[..8].try_into().unwrap()))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

pub struct Group {
    name: String,
    pieces: Vec<String>,
}

pub fn groups() -> Vec<Group> {
    super::read("tests/golden/text/pieces.jsonl")
        .lines()
        .map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            let pieces = entry["pieces"].as_array().unwrap();
            Group {
                name: entry["name"].as_str().unwrap().to_string(),
                pieces: pieces
                    .iter()
                    .map(|p| p.as_str().unwrap().to_string())
                    .collect(),
            }
        })
        .collect()
}

fn scalar(stream: &mut Stream) -> char {
    let (first, last) = *stream.pick(&RANGES);
    let code = first + stream.below((last - first + 1) as usize) as u32;
    char::from_u32(code).unwrap()
}

fn mixture(stream: &mut Stream, groups: &[&Group], count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let group = *stream.pick(groups);
        let piece: &String = stream.pick(&group.pieces);
        text.push_str(piece);
        if stream.below(2) == 1 {
            text.push(' ');
        }
    }
    text
}

fn text(index: usize, groups: &[Group]) -> String {
    let all: Vec<&Group> = groups.iter().collect();
    let named = |name: &str| groups.iter().find(|g| g.name == name).unwrap();
    let mut stream = Stream::new(&format!("text {index}"));
    let stream = &mut stream;
    if index % 1000 == 999 {
        let part = mixture(stream, &all, 40);
        let size = if index == COUNT - 1 {
            200_000
        } else {
            4_000 * (index / 1000 + 1)
        };
        return part.repeat(size / part.len() + 1);
    }
    match index % 10 {
        4 => (0..stream.below(40)).map(|_| scalar(stream)).collect(),
        5 => (0..stream.below(80))
            .map(|_| *stream.pick(DENSE) as char)
            .collect(),
        6 => {
            let other = *stream.pick(&all);
            let count = stream.below(12);
            mixture(stream, &[named("special"), other], count)
        }
        7 => {
            let group = *stream.pick(&all);
            let piece = stream.pick(&group.pieces);
            piece.repeat(stream.below(100))
        }
        8 => {
            let (words, marks) = (named("words"), named("marks"));
            let mut text = String::new();
            for _ in 0..stream.below(16) {
                let word: &String = stream.pick(&words.pieces);
                text.push_str(word);
                let mark = stream.pick(&marks.pieces);
                text.push_str(&mark.repeat(stream.below(4)));
            }
            text
        }
        _ => {
            let count = stream.below(25);
            mixture(stream, &all, count)
        }
    }
}

pub fn texts() -> Vec<String> {
    let groups = groups();
    (0..COUNT).map(|index| text(index, &groups)).collect()
}
