//! A call with a tag for each argument, as Qwen 3.5 and Qwen3-Coder write it.
//!
//! ```text
//!   <function=find>
//!   <parameter=text>      a value is a text, with an end of line before and behind it that is none of its own;
//!   north                 the schema of the argument tells what it stands for (typed.rs)
//!   </parameter>
//!   </function>
//! ```

use super::call::Call;
use super::part::Asked;
use super::scan::Step;
use super::typed;

pub const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// Finds the end of a call, byte by byte.
#[derive(Debug)]
pub struct Scan {
    at: At,
    /// Bytes of the tag that were there, or whether a name has any.
    matched: usize,
    bytes: usize,
    /// Up to the end of the last value.
    values: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Tag(&'static str),
    /// Where another argument may come, or the end.
    Between,
    Name {
        of_function: bool,
    },
    Value,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            at: At::Tag(FUNCTION),
            matched: 0,
            bytes: 0,
            values: 0,
        }
    }
}

impl Scan {
    /// Nothing may come after [`Step::End`] or [`Step::Wrong`].
    pub fn push(&mut self, byte: u8) -> Step {
        self.bytes += 1;
        let is_first = self.matched == 0;
        match self.at {
            At::Tag(_) | At::Between if is_first && byte.is_ascii_whitespace() => {}
            At::Tag(tag) if tag.as_bytes()[self.matched] == byte => {
                self.matched += 1;
                if self.matched == tag.len() {
                    if tag == FUNCTION_END {
                        return Step::End;
                    }
                    let of_function = tag == FUNCTION;
                    (self.at, self.matched) = (At::Name { of_function }, 0);
                }
            }
            At::Between => {
                self.at = match (is_first, byte) {
                    (true, b'<') => At::Between,
                    (false, b'p') => At::Tag(PARAMETER),
                    (false, b'/') => At::Tag(FUNCTION_END),
                    _ => return Step::Wrong,
                };
                self.matched += 1;
            }
            At::Name { of_function } if byte == b'>' && !is_first => {
                let next = match of_function {
                    true => At::Between,
                    false => At::Value,
                };
                (self.at, self.matched) = (next, 0);
            }
            At::Name { .. } if !b"<>\n".contains(&byte) => self.matched = 1,
            At::Value => {
                let end = PARAMETER_END.as_bytes();
                self.matched = match byte {
                    _ if byte == end[self.matched] => self.matched + 1,
                    b'<' => 1,
                    _ => 0,
                };
                if self.matched == end.len() {
                    (self.at, self.matched, self.values) = (At::Between, 0, self.bytes);
                }
            }
            At::Tag(_) | At::Name { .. } => return Step::Wrong,
        }
        Step::More
    }

    /// Bytes up to the end of the last value, which may have whatever looks like a call.
    pub fn settled(&self) -> usize {
        match self.at {
            At::Value => self.bytes,
            _ => self.values,
        }
    }
}

/// A call that [`Scan`] has found the end of; none when it is not one of a function that is known.
pub fn call(body: &str, asked: &Asked) -> Option<Call> {
    let (name, mut rest) = named(body, FUNCTION)?;
    let tool = asked.tools.iter().find(|tool| tool.name == name)?;
    let properties = typed::properties(tool.parameters.as_deref());
    let mut arguments: Vec<(&str, String)> = Vec::new();
    while let Some((name, value)) = named(rest, PARAMETER) {
        let (value, behind) = value.split_once(PARAMETER_END)?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        arguments.push((name, typed::value(value, properties.get(name))));
        rest = behind;
    }
    Call::of(name, &arguments)
}

/// The name in a tag, and what stands behind it.
fn named<'t>(text: &'t str, tag: &str) -> Option<(&'t str, &'t str)> {
    text.trim_start().strip_prefix(tag)?.split_once('>')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> (usize, Step, usize) {
        let mut scan = Scan::default();
        for (at, byte) in text.bytes().enumerate() {
            match scan.push(byte) {
                Step::More => {}
                step => return (at + 1, step, scan.settled()),
            }
        }
        (text.len(), Step::More, scan.settled())
    }

    #[test]
    fn it_ends_behind_the_function() {
        for call in [
            "<function=f></function>",
            "<function=f>\n</function>",
            "\n<function=f.g-1> <parameter=a b>\n</parameter>\n\n<parameter=é><</</parameter</parameter></function>",
            "<function=f><parameter=a></function></parameter></function>",
        ] {
            let (end, step, _) = scan(&format!("{call} rest"));
            assert_eq!((end, step), (call.len(), Step::End), "{call}");
            for cut in 0..call.len() {
                if let Some(begun) = call.get(..cut) {
                    assert_eq!(scan(begun).1, Step::More, "{begun}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_shows_at_once_and_values_are_settled() {
        for (text, at, settled) in [
            ("x", 1, 0),
            ("<tool_call>", 2, 0),
            ("<function>", 10, 0),
            ("<function=>", 11, 0),
            ("<function=f\n>", 12, 0),
            ("<function=f<", 12, 0),
            ("<function=f>x", 13, 0),
            ("<function=f><x", 14, 0),
            ("<function=f>< ", 14, 0),
            ("<function=f><parameter=>", 24, 0),
            ("<function=f></x", 15, 0),
            ("<function=f><parameter=a>1</parameter>2", 39, 38),
        ] {
            assert_eq!(scan(text), (at, Step::Wrong, settled), "{text}");
        }
        let open = "<function=f><parameter=a>1</parameter><parameter=b>2";
        assert_eq!(scan(open), (open.len(), Step::More, open.len()));
    }
}
