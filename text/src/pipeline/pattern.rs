//! What a Split or a Replace looks for: a text or a regex. Regexes come with models; a short one can
//! take for ever or grow without end.
//!
//! Its size is limited when it is read, counted with its repetitions written out, and a look-around
//! that looks as far as it likes may not be repeated. What is left takes, for one search, at most
//! BACKTRACKS times the length of the text; between two searches the clock is looked at.

use super::fields::Fields;
use super::meter;
use crate::error::{quote, Error, Result};
use fancy_regex::{Expr, Regex, RegexBuilder};
use std::sync::{Arc, OnceLock};
use tokenizers::pattern::Pattern as Finder;
use tokenizers::Offsets;

/// Longest text of a pattern.
const MAX_BYTES: usize = 16 << 10;
/// Most characters and classes of a regex, with repetitions written out.
const MAX_SIZE: usize = 4096; // of all regexes of a file together
const MAX_NESTING: usize = 100;
/// Bytes of each automaton that a regex becomes.
const MAX_AUTOMATON: usize = 8 << 20;
/// How often a search may take back what it has tried.
const BACKTRACKS: usize = 100_000;
/// Places that a search may have to return to, one for each character of a row of spaces. The engine's
/// own number.
const PLACES: usize = 1_000_000;

#[derive(Clone)]
pub enum Pattern {
    Text(String),
    Regex(Arc<Compiled>),
}

pub struct Compiled {
    regex: Regex,
    /// The same, but only where the search begins. Made when it is needed.
    here: OnceLock<Option<Regex>>,
}

fn build(pattern: &str) -> fancy_regex::Result<Regex> {
    RegexBuilder::new(pattern)
        .backtrack_limit(BACKTRACKS)
        .delegate_size_limit(MAX_AUTOMATON)
        .build()
}

/// How large a regex is, with repetitions written out, and whether it may look at any number of
/// characters.
struct Extent {
    size: usize,
    endless: bool,
}

fn extent(expr: &Expr, repeated: bool, depth: usize) -> std::result::Result<Extent, String> {
    if depth > MAX_NESTING {
        return Err(format!("it is nested deeper than {MAX_NESTING}"));
    }
    let inside = |child: &Expr, repeated| extent(child, repeated, depth + 1);
    let whole = |children: &[&Expr]| {
        let mut all = Extent {
            size: 1,
            endless: false,
        };
        for child in children {
            let one = inside(child, repeated)?;
            all.size = all.size.saturating_add(one.size);
            all.endless |= one.endless;
        }
        Ok(all)
    };
    match expr {
        Expr::Concat(parts) | Expr::Alt(parts) => whole(&parts.iter().collect::<Vec<_>>()),
        Expr::Group(part) | Expr::AtomicGroup(part) => inside(part, repeated),
        Expr::Conditional {
            condition,
            true_branch,
            false_branch,
        } => whole(&[condition, true_branch, false_branch]),
        Expr::Repeat { child, lo, hi, .. } => {
            let endless = *hi == usize::MAX;
            let times = if endless { *lo } else { *hi }.max(1);
            let one = inside(child, repeated || endless)?;
            Ok(Extent {
                size: one.size.saturating_mul(times),
                endless: endless || one.endless,
            })
        }
        Expr::LookAround(child, _) => {
            let one = inside(child, repeated)?;
            if repeated && one.endless {
                return Err("it repeats a look-around that has no end itself".to_string());
            }
            Ok(one)
        }
        Expr::Literal { val, .. } => Ok(Extent {
            size: val.len().max(1),
            endless: false,
        }),
        // A group may have any length.
        Expr::Backref { .. } | Expr::BackrefWithRelativeRecursionLevel { .. } => Ok(Extent {
            size: 1,
            endless: true,
        }),
        Expr::SubroutineCall(_) | Expr::UnresolvedNamedSubroutineCall { .. } => {
            Err("it calls itself".to_string())
        }
        _ => Ok(Extent {
            size: 1,
            endless: false,
        }),
    }
}

/// The size of a regex that may be built.
fn check(pattern: &str) -> std::result::Result<usize, String> {
    let tree = Expr::parse_tree(pattern).map_err(|e| e.to_string())?;
    let size = extent(&tree.expr, false, 0)?.size;
    if size > MAX_SIZE {
        return Err(format!(
            "it has {size} parts with its repetitions written out; the limit is {MAX_SIZE}"
        ));
    }
    Ok(size)
}

impl Pattern {
    pub fn regex(pattern: &str) -> Result<Pattern> {
        let wrong = |why: String| Error::format(format!("the regex {}: {why}", quote(pattern)));
        let size = check(pattern).map_err(wrong)?;
        meter::regexes(size, MAX_SIZE)?;
        Self::known(pattern)
    }

    /// One of ours, which counts for no file.
    pub fn known(pattern: &str) -> Result<Pattern> {
        let regex = build(pattern)
            .map_err(|e| Error::format(format!("the regex {}: {e}", quote(pattern))))?;
        Ok(Pattern::Regex(Arc::new(Compiled {
            regex,
            here: OnceLock::new(),
        })))
    }

    /// {"String": "..."} or {"Regex": "..."}.
    pub fn parse(part: &Fields) -> Result<Pattern> {
        let value = &part.value["pattern"];
        let (text, is_regex) = match (value["String"].as_str(), value["Regex"].as_str()) {
            (Some(text), None) => (text, false),
            (None, Some(text)) => (text, true),
            _ => return Err(part.error("pattern is neither a \"String\" nor a \"Regex\"")),
        };
        if text.len() > MAX_BYTES {
            return Err(part.error(&format!(
                "pattern has {} bytes; the limit is {MAX_BYTES}",
                text.len()
            )));
        }
        if is_regex {
            Pattern::regex(text).map_err(|e| e.within(part.place))
        } else {
            Ok(Pattern::Text(text.to_string()))
        }
    }

    /// Calls `each` with every match: not overlapping, and an empty one not right behind another.
    fn matches(&self, text: &str, mut each: impl FnMut(usize, usize)) -> Result<()> {
        match self {
            Pattern::Text(wanted) => {
                for (at, found) in text.match_indices(wanted.as_str()) {
                    each(at, at + found.len());
                }
                meter::tick(text.len())
            }
            Pattern::Regex(compiled) => {
                let (mut at, mut last) = (0, None);
                while at <= text.len() {
                    let Some((begin, end)) = compiled.find(text, at)? else {
                        break;
                    };
                    meter::tick((text.len() - at).min(256))?;
                    if begin == end {
                        at = end + text[end..].chars().next().map_or(1, char::len_utf8);
                        if last == Some(end) {
                            continue;
                        }
                    } else {
                        at = end;
                    }
                    last = Some(end);
                    each(begin, end);
                }
                Ok(())
            }
        }
    }
}

impl Compiled {
    /// The first match from byte `from` on.
    fn find(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>> {
        if let Ok(found) = self.regex.find_from_pos(text, from) {
            return Ok(found.map(|m| (m.start(), m.end())));
        }
        // Each place where the regex does not match has cost a step back. A text without any match is
        // long, not hard; so every place is tried on its own.
        let here = self.here.get_or_init(|| {
            // The group keeps alternatives together.
            build(&format!(r"\G(?:{})", self.regex.as_str())).ok()
        });
        let mut places = text[from..].char_indices().map(|(i, _)| from + i);
        while let Some(regex) = here {
            let Some(at) = places.next() else {
                return Ok(None);
            };
            meter::tick(0)?;
            match regex.find_from_pos(text, at) {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(Some((found.start(), found.end()))),
                Err(_) => break,
            }
        }
        Err(meter::gave_up(format!(
            "the regex {} takes back more than {BACKTRACKS} steps, or has more than {PLACES} places \
             to return to; these are the limits",
            quote(self.regex.as_str())
        )))
    }
}

/// A pattern in the shape that the crate asks for. `prepare` gets the bytes of a text and how many
/// matches there are, before anything is made of them.
pub struct Matches<'a, F: Fn(usize, usize) -> Result<()>> {
    pub pattern: &'a Pattern,
    pub prepare: F,
    /// Whether what lies between the matches counts as matched instead.
    pub invert: bool,
}

impl<F: Fn(usize, usize) -> Result<()>> Finder for Matches<'_, F> {
    fn find_matches(&self, text: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if text.is_empty() {
            return Ok(vec![((0, 0), self.invert)]);
        }
        let (mut pieces, mut before) = (Vec::new(), 0);
        let mut count = 0;
        self.pattern.matches(text, |begin, end| {
            count += 1;
            if before != begin {
                pieces.push(((before, begin), self.invert));
            }
            pieces.push(((begin, end), !self.invert));
            before = end;
        })?;
        if before != text.len() {
            pieces.push(((before, text.len()), self.invert));
        }
        (self.prepare)(text.len(), count)?;
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::utils::SysRegex;

    fn all(pattern: &Pattern, text: &str) -> Result<Vec<(Offsets, bool)>> {
        meter::run(text.len(), || {
            Matches {
                pattern,
                prepare: |_, _| Ok(()),
                invert: false,
            }
            .find_matches(text)
        })
    }

    #[test]
    fn finds_what_the_crate_finds() {
        let texts = [
            "",
            "a",
            "aab",
            " a  b \n",
            "é漢 1234567,89 aXa",
            "\u{3000}\u{3000}x",
            "aaaaaaaab",
        ];
        for pattern in [
            "",
            "a",
            "a*",
            r"\s+(?!\S)|\s+",
            r"\d{1,3}(?=(?:\d{3})*\b)",
            "(?i)x|A",
            "b|",
            "(?=a)",
            r"(a)\1",
            "^a|b$",
            r"\b",
            "(?<=a)b",
        ] {
            let theirs = SysRegex::new(pattern).unwrap();
            let ours = Pattern::regex(pattern).unwrap();
            for text in texts {
                assert_eq!(
                    all(&ours, text).unwrap(),
                    (&theirs).find_matches(text).unwrap(),
                    "{pattern:?} in {text:?}"
                );
            }
        }
        for wanted in ["", "a", "aa", ".", "漢"] {
            let theirs = SysRegex::new(&fancy_regex::escape(wanted)).unwrap();
            let ours = Pattern::Text(wanted.to_string());
            for text in texts {
                assert_eq!(
                    all(&ours, text).unwrap(),
                    (&theirs).find_matches(text).unwrap(),
                    "{wanted:?} in {text:?}"
                );
            }
        }
    }

    /// The engine counts each place without a match, and gives up after as many as it may take back.
    #[test]
    fn a_long_text_without_a_match_is_not_hard() {
        let pattern = Pattern::regex(r"\d(?!x)").unwrap();
        let text = "y".repeat(3 * BACKTRACKS) + "7";
        let n = text.len();
        let wanted = [((0, n - 1), false), ((n - 1, n), true)];
        assert_eq!(all(&pattern, &text).unwrap(), wanted);
        assert_eq!(
            all(&pattern, &text[..n - 1]).unwrap(),
            [((0, n - 1), false)]
        );
    }

    #[test]
    fn a_row_of_spaces_is_taken_up_to_a_limit() {
        let pattern = Pattern::regex(r"\s+(?!\S)|\s+").unwrap();
        let spaces = |n: usize| " ".repeat(n) + "x";
        let n = PLACES - 1000;
        let found = all(&pattern, &spaces(n)).unwrap();
        assert_eq!(found[0], ((0, n - 1), true));
        let error = all(&pattern, &spaces(PLACES + 1)).unwrap_err();
        assert_eq!(error.code, crate::error::Code::OutOfRange);
        assert!(error.message.contains(&PLACES.to_string()), "{error}");
    }

    #[test]
    fn regexes_without_an_end_are_refused() {
        for (pattern, why) in [
            ("a{5000}", "5000 parts"),
            ("((a{20}){20}){20}", "8000 parts"),
            ("(?:(?=.*x)a)*b", "look-around"),
            (r"(.*)(?:a(?!\1))+", "look-around"),
            ("(", "parenthesis"),
        ] {
            let error = Pattern::regex(pattern).err().expect(pattern);
            assert!(error.message.contains(why), "{pattern}: {error}");
        }
        let deep = "(".repeat(5000) + "a" + &")".repeat(5000);
        assert!(Pattern::regex(&deep).is_err());
    }
}
