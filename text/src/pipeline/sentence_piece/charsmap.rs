//! The characters that a SentencePiece model replaces before it cuts a text: `precompiled_charsmap`.
//!
//! ```text
//!   u32 bytes of the trie | the trie, u32 units | replacements, each with a zero behind
//!
//!   trie   a double array over bytes: from a node the byte c leads to unit (node ^ c), when that unit
//!          has c as its label; (unit ^ its offset) is the next node
//!   unit   bit 31: it holds the place of a replacement, in its other bits
//!          bits 0-7 label, bit 8: a key ends here, bits 9-31 offset
//! ```
//!
//! Of the keys that a text begins with the longest counts. The crate's own reader takes the shortest.

use crate::error::{Error, Result};

/// Largest map; those of real models have some 300 KB.
const MAX_BYTES: usize = 4 << 20;
/// Longest key in bytes. Every place of a text may be compared with one.
const MAX_KEY: usize = 64;
/// Longest replacement in bytes.
const MAX_REPLACEMENT: usize = 1024;

pub struct CharsMap {
    units: Vec<u32>,
    replacements: String,
}

fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

fn ends_key(unit: u32) -> bool {
    unit & 1 << 8 != 0
}

impl CharsMap {
    pub fn parse(bytes: &[u8]) -> Result<CharsMap> {
        let wrong = |why: String| Error::format(format!("precompiled_charsmap {why}"));
        if bytes.len() > MAX_BYTES {
            let has = bytes.len();
            return Err(wrong(format!("has {has} bytes; the limit is {MAX_BYTES}")));
        }
        let trie = bytes
            .first_chunk()
            .map(|head| u32::from_le_bytes(*head) as usize);
        let rest = bytes.get(4..).unwrap_or_default();
        let Some(trie) = trie.filter(|n| *n != 0 && n % 4 == 0 && *n <= rest.len()) else {
            return Err(wrong(format!(
                "of {} bytes says that its trie has {} of them",
                bytes.len(),
                trie.unwrap_or(0)
            )));
        };
        let (trie, replacements) = rest.split_at(trie);
        let units = trie.chunks_exact(4);
        let map = CharsMap {
            units: units
                .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]))
                .collect(),
            replacements: String::from_utf8(replacements.to_vec())
                .map_err(|_| wrong("has replacements that are not UTF-8".to_string()))?,
        };
        map.check().map_err(wrong)?;
        Ok(map)
    }

    /// Looks at every unit that a key leads to, once: each key that ends there has a replacement within
    /// the limit, and none is too long. Keys share their ends, so that one unit may be reached in several
    /// ways; one that leads back to itself would have no end.
    fn check(&self) -> std::result::Result<(), String> {
        const OPEN: usize = usize::MAX;
        // Bytes of the longest way on from a unit, when that is known.
        let mut longest = vec![None; self.units.len()];
        longest[0] = Some(OPEN);
        // Units on the way, each with the byte to look at next and the longest way on so far.
        let mut way = vec![(0, 1u16, 0)];
        while let Some((at, byte, below)) = way.last_mut() {
            if *byte > u16::from(u8::MAX) {
                let (at, below) = (*at, *below);
                longest[at] = Some(below);
                way.pop();
                if let Some((_, _, before)) = way.last_mut() {
                    *before = (*before).max(below + 1);
                } else if below > MAX_KEY {
                    return Err(format!("has a key of more than {MAX_KEY} bytes, the limit"));
                }
                continue;
            }
            let next = *at ^ offset(self.units[*at]) ^ usize::from(*byte);
            let label = u32::from(*byte);
            *byte += 1;
            let Some(unit) = self
                .units
                .get(next)
                .filter(|unit| self::label(**unit) == label)
            else {
                continue;
            };
            if ends_key(*unit) && self.ending(next ^ offset(*unit)).is_none() {
                return Err(format!(
                    "has a key without a replacement, at unit {next} of its trie"
                ));
            }
            match longest[next] {
                Some(OPEN) => {
                    return Err(format!(
                        "has keys without end: unit {next} leads back to itself"
                    ))
                }
                Some(known) => *below = (*below).max(known + 1),
                None if way.len() > MAX_KEY => {
                    return Err(format!("has a key of more than {MAX_KEY} bytes, the limit"));
                }
                None => {
                    longest[next] = Some(OPEN);
                    way.push((next, 1, 0));
                }
            }
        }
        Ok(())
    }

    /// What replaces a key that ends at a node.
    fn ending(&self, node: usize) -> Option<&str> {
        self.replacement(self.units.get(node)? & !(1 << 31))
    }

    /// The replacement at a place, up to its zero.
    fn replacement(&self, place: u32) -> Option<&str> {
        let rest = self.replacements.get(place as usize..)?;
        let mut bytes = rest.bytes().take(MAX_REPLACEMENT + 1);
        bytes.position(|byte| byte == 0).map(|end| &rest[..end])
    }

    /// The longest key that a text begins with, its length and what replaces it.
    pub fn first<'a>(&'a self, text: &str) -> Option<(usize, &'a str)> {
        let mut found = None;
        let mut node = offset(self.units[0]);
        for (i, byte) in text.bytes().enumerate() {
            let at = node ^ usize::from(byte);
            let Some(unit) = self.units.get(at).filter(|u| label(**u) == u32::from(byte)) else {
                break;
            };
            node = at ^ offset(*unit);
            // Half a character is none.
            if ends_key(*unit) && text.is_char_boundary(i + 1) {
                found = Some((i + 1, node));
            }
        }
        let (length, node) = found?;
        Some((length, self.ending(node)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of one-byte and two-byte keys, put together by hand: "a" -> "xy", "ab" -> "", and more
    /// units where a test wants them.
    fn bytes(change: impl Fn(&mut Vec<u32>, &mut Vec<u8>)) -> Vec<u8> {
        let mut units = vec![0u32; 1024];
        let to = |from: usize, next: usize, ends: bool, label: u8| {
            // Offsets below 2^21 are written plainly.
            ((from ^ next) as u32) << 10 | u32::from(ends) << 8 | u32::from(label)
        };
        units[0] = to(0, 256, false, 0);
        units[256 ^ 97] = to(256 ^ 97, 512, true, 97);
        units[512] = 1 << 31;
        units[512 ^ 98] = to(512 ^ 98, 768, true, 98);
        units[768] = 1 << 31 | 3;
        let mut replacements = b"xy\0\0".to_vec();
        change(&mut units, &mut replacements);
        let mut out = (units.len() as u32 * 4).to_le_bytes().to_vec();
        out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        out.extend(replacements);
        out
    }

    #[test]
    fn the_longest_key_counts() {
        let map = CharsMap::parse(&bytes(|_, _| {})).unwrap();
        assert_eq!(map.first("ab"), Some((2, "")));
        assert_eq!(map.first("ac"), Some((1, "xy")));
        assert_eq!(map.first("a"), Some((1, "xy")));
        assert_eq!(map.first("ba"), None);
        assert_eq!(map.first(""), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |bytes: Vec<u8>| CharsMap::parse(&bytes).err().unwrap().message;
        let good = bytes(|_, _| {});
        assert!(refused(good[..3].to_vec()).contains("of 3 bytes says"));
        assert!(refused(good[..2000].to_vec()).contains("says that its trie has 4096"));
        assert!(refused([&3u32.to_le_bytes()[..], &good].concat()).contains("trie has 3 of them"));
        assert!(refused(vec![0; MAX_BYTES + 1]).contains("the limit is 4194304"));
        // A way back to the first node.
        let cycle = bytes(|units, _| units[512 ^ 98] = ((512 ^ 98 ^ 256) << 10) as u32 | 98);
        assert!(refused(cycle).contains("keys without end"));
        let lost = bytes(|units, _| units[768] = 1 << 31 | 9);
        assert!(refused(lost).contains("without a replacement, at unit 610"));
        for length in [2, 3 * MAX_REPLACEMENT] {
            let endless = bytes(|_, text| *text = vec![b'x'; length]);
            assert!(refused(endless).contains("without a replacement"));
        }
        let odd = bytes(|_, text| text[0] = 0xff);
        assert!(refused(odd).contains("replacements that are not UTF-8"));
        // One node behind the other, each with the way to the next.
        let long = bytes(|units, _| {
            units.resize(300 * 256, 0);
            for i in 1..299usize {
                let from = (i * 256) ^ 97;
                units[from] = ((from ^ ((i + 1) * 256)) << 10) as u32 | 97;
            }
        });
        assert!(refused(long).contains("a key of more than 64 bytes"));
    }

    #[test]
    fn keys_share_their_ends() {
        // "c" leads where "a" leads, and "cb" where "ab".
        let shared =
            bytes(|units, _| units[256 ^ 99] = ((256 ^ 99 ^ 512) << 10) as u32 | 1 << 8 | 99);
        let map = CharsMap::parse(&shared).unwrap();
        assert_eq!(map.first("cb"), Some((2, "")));
        assert_eq!(map.first("c"), Some((1, "xy")));
    }

    #[test]
    fn half_a_character_is_no_key() {
        let half = bytes(|units, _| {
            units[256 ^ 0xc3] = ((256 ^ 0xc3 ^ 512) << 10) as u32 | 1 << 8 | 0xc3;
        });
        assert_eq!(CharsMap::parse(&half).unwrap().first("\u{e9}"), None);
    }
}
