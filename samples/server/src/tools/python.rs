//! Calls as Python writes them: `[find(text="north", many=3), stop()]`, or one a line.
//!
//! Arguments have names, and values are literals: strings, numbers, `True`, `False`, `None`, lists, tuples and dicts of
//! strings. Words of JSON are taken, too.

use serde_json::json;

use super::call::Call;
use super::part::Asked;
use super::scan::Step;

/// Brackets within brackets, as in JSON.
const DEPTH: usize = 127;

/// Finds the end of a list of calls, or of one call, byte by byte.
#[derive(Debug)]
pub struct Scan {
    is_list: bool,
    at: At,
    open: Vec<u8>,
    string: Option<Quotes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    List,
    Name { is_begun: bool },
    Arguments,
    Between,
}

/// Where a string is that has begun.
#[derive(Debug, Default)]
struct Quotes {
    quote: u8,
    /// Of those that it begins or may end with.
    count: usize,
    is_begun: bool,
    is_triple: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Whether the string goes on, is over with this byte, or was over before it; none where it is wrong.
    fn push(&mut self, byte: u8) -> Option<Goes> {
        if !self.is_begun && byte == self.quote {
            self.count += 1;
            (self.is_begun, self.is_triple) = (self.count == 3, self.count == 3);
            if self.is_begun {
                self.count = 0;
            }
            return Some(Goes::On);
        }
        if !self.is_begun {
            if self.count == 2 {
                return Some(Goes::Before);
            }
            (self.is_begun, self.count) = (true, 0);
        }
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => (self.is_escaped, self.count) = (true, 0),
            _ if byte == self.quote => {
                self.count += 1;
                if !self.is_triple || self.count == 3 {
                    return Some(Goes::Over);
                }
            }
            b'\n' if !self.is_triple => return None,
            _ => self.count = 0,
        }
        Some(Goes::On)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Over,
    Before,
}

impl Scan {
    pub fn new(is_list: bool) -> Scan {
        Scan {
            is_list,
            at: match is_list {
                true => At::List,
                false => At::Name { is_begun: false },
            },
            open: Vec::new(),
            string: None,
        }
    }

    /// Nothing may come after [`Step::End`] or [`Step::Wrong`].
    pub fn push(&mut self, byte: u8) -> Step {
        if let Some(string) = &mut self.string {
            match string.push(byte) {
                Some(Goes::On) => return Step::More,
                Some(Goes::Over) => {
                    self.string = None;
                    return Step::More;
                }
                Some(Goes::Before) => self.string = None,
                None => return Step::Wrong,
            }
        }
        let is_space = byte.is_ascii_whitespace();
        match self.at {
            At::List => match byte {
                b'[' => self.at = At::Name { is_begun: false },
                _ if is_space => {}
                _ => return Step::Wrong,
            },
            At::Name { is_begun } => match byte {
                b'(' if is_begun => {
                    self.open.push(byte);
                    self.at = At::Arguments;
                }
                _ if is_of_name(byte) => self.at = At::Name { is_begun: true },
                _ if is_space && !is_begun => {}
                _ => return Step::Wrong,
            },
            At::Arguments => return self.argument(byte),
            At::Between => match byte {
                b',' => self.at = At::Name { is_begun: false },
                b']' => return Step::End,
                _ if is_space => {}
                _ => return Step::Wrong,
            },
        }
        Step::More
    }

    fn argument(&mut self, byte: u8) -> Step {
        match byte {
            b'"' | b'\'' => {
                self.string = Some(Quotes {
                    quote: byte,
                    count: 1,
                    ..Quotes::default()
                });
            }
            b'(' | b'[' | b'{' if self.open.len() < DEPTH => self.open.push(byte),
            b')' | b']' | b'}' => {
                let opened = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                if self.open.pop() != Some(opened) {
                    return Step::Wrong;
                }
                if self.open.is_empty() {
                    self.at = At::Between;
                    if !self.is_list {
                        return Step::End;
                    }
                }
            }
            _ if is_of_name(byte) || b"=,:+".contains(&byte) || byte.is_ascii_whitespace() => {}
            _ => return Step::Wrong,
        }
        Step::More
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The calls that [`Scan`] has found the end of; none when one of them is not a call of a function that is known.
pub fn calls(body: &str, asked: &Asked) -> Option<Vec<Call>> {
    let mut reader = Reader(body);
    if !asked.format.is_list {
        let call = reader.call(asked)?;
        return reader.is_over().then(|| vec![call]);
    }
    let mut calls = Vec::new();
    reader.take("[")?;
    loop {
        calls.push(reader.call(asked)?);
        if reader.take(",").is_none() {
            break;
        }
    }
    reader.take("]")?;
    reader.is_over().then_some(calls)
}

/// A literal as JSON.
pub fn literal(text: &str) -> Option<String> {
    let mut reader = Reader(text);
    let value = reader.value(0)?;
    reader.is_over().then_some(value)
}

struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    fn take(&mut self, what: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(what)?;
        Some(())
    }

    fn is_over(&self) -> bool {
        self.0.trim_start().is_empty()
    }

    fn word(&mut self) -> Option<&'t str> {
        let text = self.0.trim_start();
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || "_-.+".contains(c));
        let end = text.find(is_other).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn call(&mut self, asked: &Asked) -> Option<Call> {
        let name = self.word().filter(|name| asked.knows(name))?;
        self.take("(")?;
        let mut arguments: Vec<(&str, String)> = Vec::new();
        while self.take(")").is_none() {
            let argument = self.word()?;
            self.take("=")?;
            arguments.push((argument, self.value(1)?));
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Call::of(name, &arguments)
    }

    fn value(&mut self, depth: usize) -> Option<String> {
        let text = self.0.trim_start();
        match text.chars().next()? {
            '"' | '\'' => self.string().map(|text| json!(text).to_string()),
            '[' => self.list("[", "]", depth),
            '(' => self.list("(", ")", depth),
            '{' => self.dict(depth),
            _ => match self.word()? {
                "True" | "true" => Some("true".into()),
                "False" | "false" => Some("false".into()),
                "None" | "null" => Some("null".into()),
                word => number(word),
            },
        }
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Option<String> {
        self.take(open)?;
        let mut values = Vec::new();
        while self.take(close).is_none() {
            if depth == DEPTH {
                return None;
            }
            values.push(self.value(depth + 1)?);
            if self.take(",").is_none() {
                self.take(close)?;
                break;
            }
        }
        Some(format!("[{}]", values.join(", ")))
    }

    fn dict(&mut self, depth: usize) -> Option<String> {
        self.take("{")?;
        let mut fields = Vec::new();
        while self.take("}").is_none() {
            if depth == DEPTH {
                return None;
            }
            let name = json!(self.string()?);
            self.take(":")?;
            fields.push(format!("{name}: {}", self.value(depth + 1)?));
            if self.take(",").is_none() {
                self.take("}")?;
                break;
            }
        }
        Some(format!("{{{}}}", fields.join(", ")))
    }

    fn string(&mut self) -> Option<String> {
        let text = self.0.trim_start();
        let quote = text
            .chars()
            .next()
            .filter(|quote| matches!(quote, '"' | '\''))?;
        let triple = quote.to_string().repeat(3);
        let end = match text.starts_with(&triple) {
            true => triple,
            false => quote.to_string(),
        };
        let mut rest = &text[end.len()..];
        let mut said = String::new();
        loop {
            if let Some(behind) = rest.strip_prefix(&*end) {
                self.0 = behind;
                return Some(said);
            }
            let mut chars = rest.chars();
            match chars.next()? {
                '\\' => {
                    let (c, behind) = escaped(chars.as_str())?;
                    said.extend(c);
                    rest = behind;
                    continue;
                }
                c => said.push(c),
            }
            rest = chars.as_str();
        }
    }
}

/// What stands for the text behind a backslash, and what follows; an end of line stands for nothing.
fn escaped(text: &str) -> Option<(Vec<char>, &str)> {
    let mut chars = text.chars();
    let c = chars.next()?;
    let rest = chars.as_str();
    let code = |digits: usize| {
        let code = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
        Some((code, &rest[digits..]))
    };
    let said = match c {
        '\n' => return Some((Vec::new(), rest)),
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'a' => '\u{7}',
        'v' => '\u{b}',
        '0' => '\0',
        '\\' | '\'' | '"' | '/' => c,
        'x' => {
            let (code, rest) = code(2)?;
            return Some((vec![char::from_u32(code)?], rest));
        }
        'U' => {
            let (code, rest) = code(8)?;
            return Some((vec![char::from_u32(code)?], rest));
        }
        'u' => {
            let (high, rest) = code(4)?;
            if let Some(c) = char::from_u32(high) {
                return Some((vec![c], rest));
            }
            // Two halves, as JSON has them.
            let low = rest.strip_prefix("\\u")?;
            let code = u16::from_str_radix(low.get(..4)?, 16).ok()?;
            let mut both = char::decode_utf16([high as u16, code]);
            return Some((vec![both.next()?.ok()?], &low[4..]));
        }
        // As Python does.
        other => return Some((vec!['\\', other], rest)),
    };
    Some((vec![said], rest))
}

/// A number of JSON, which needs a digit on both sides of its point.
fn number(word: &str) -> Option<String> {
    let is_number = |text: &str| serde_json::from_str::<serde_json::Number>(text).is_ok();
    let plain = word.strip_prefix('+').unwrap_or(word);
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain),
    };
    let digits = match (digits.strip_prefix('.'), digits.strip_suffix('.')) {
        (Some(_), _) => format!("0{digits}"),
        (_, Some(_)) => format!("{digits}0"),
        _ => digits.to_string(),
    };
    let number = format!("{sign}{digits}");
    is_number(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(is_list: bool, text: &str) -> (usize, Step) {
        let mut scan = Scan::new(is_list);
        for (at, byte) in text.bytes().enumerate() {
            match scan.push(byte) {
                Step::More => {}
                step => return (at + 1, step),
            }
        }
        (text.len(), Step::More)
    }

    #[test]
    fn it_ends_where_the_calls_do() {
        for (is_list, calls) in [
            (false, "f()"),
            (false, "\n f.g-1(a=')', b=[(1,), {'}': \"]\"}])"),
            (false, "f(a='')"),
            (false, "f(a=''''\"'' )''')"),
            (true, "[f(), g(a=[]) , h(b=1)\n]"),
        ] {
            let text = format!("{calls} rest]");
            assert_eq!(scan(is_list, &text), (calls.len(), Step::End), "{calls}");
            for cut in 0..calls.len() {
                assert_eq!(scan(is_list, &calls[..cut]).1, Step::More, "{calls} {cut}");
            }
        }
    }

    #[test]
    fn what_is_wrong_shows_at_once() {
        for (is_list, text, at) in [
            (false, "(", 1),
            (false, "[", 1),
            (false, "f g", 2),
            (false, "f(a=1}", 6),
            (false, "f(a=[1)", 7),
            (false, "f(a=x;", 6),
            (false, "f(a='b\n", 7),
            (true, "f", 1),
            (true, "[(", 2),
            (true, "[f()f", 5),
            (true, "[f(),]", 6),
        ] {
            assert_eq!(scan(is_list, text), (at, Step::Wrong), "{text}");
        }
    }
}
