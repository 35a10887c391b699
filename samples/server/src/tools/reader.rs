//! Finds calls in a text that comes piece by piece.
//!
//! ```text
//!   found    text ──> a call may begin ──> its JSON is whole, its end is there, it names a tool ──> a call, all at once
//!             ^              └── it is something else: text, looked at again behind its marker ──┐
//!             └──────────────────────────────────────────────────────────────────────────────────┘
//!   forced   the form of the answer lets nothing else come: the name as soon as it is there, arguments as they come
//! ```
//!
//! The parts are the same wherever the text is cut, and nothing but white space around calls and their markup is left out.

use super::forced::Forced;
use super::found::Found;
use super::part::{Asked, Part};

#[derive(Debug)]
pub enum Reader {
    Found(Found),
    Forced(Forced),
}

impl Reader {
    pub fn new(asked: &Asked) -> Reader {
        match asked.is_forced {
            true => Reader::Forced(Forced::new(asked)),
            false => Reader::Found(Found::new(asked)),
        }
    }

    pub fn push(&mut self, piece: &str) -> Vec<Part> {
        match self {
            Reader::Found(found) => found.push(piece, false),
            Reader::Forced(forced) => forced.push(piece),
        }
    }

    /// What is left when the text is over.
    pub fn end(&mut self) -> Vec<Part> {
        match self {
            Reader::Found(found) => found.push("", true),
            Reader::Forced(forced) => forced.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::format::{Format, FORMATS};
    use super::*;

    fn asked(format: &'static Format) -> Asked {
        Asked {
            format,
            names: Arc::new(["find", "find.all", "stop"].map(str::to_string).to_vec()),
            most: usize::MAX,
            is_forced: false,
        }
    }

    fn format(name: &str) -> &'static Format {
        let mut formats = FORMATS.iter();
        formats.find(|format| format.name == name).unwrap()
    }

    /// The text and the calls of parts, with arguments in one.
    fn gathered(parts: impl IntoIterator<Item = Part>) -> (String, Vec<(String, String)>) {
        let (mut all, mut calls) = (String::new(), Vec::<(String, String)>::new());
        for part in parts {
            match part {
                Part::Text(text) => all += &text,
                Part::Call { number, name } => {
                    assert_eq!(number, calls.len());
                    calls.push((name, String::new()));
                }
                Part::Arguments { number, text } => {
                    assert!(number + 1 == calls.len() && !text.is_empty());
                    calls[number].1 += &text;
                }
            }
        }
        (all, calls)
    }

    /// What is found in a text as a whole, which is found wherever it is cut.
    fn read(asked: &Asked, text: &str) -> (String, Vec<(String, String)>) {
        let of = |pieces: &[&str]| {
            let mut reader = Reader::new(asked);
            let mut parts = Vec::new();
            for piece in pieces {
                parts.extend(reader.push(piece));
            }
            parts.extend(reader.end());
            gathered(parts)
        };
        let whole = of(&[text]);
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let single: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(of(&single), whole, "{text}");
        for (number, cut) in cuts.iter().enumerate() {
            assert_eq!(
                of(&[&text[..*cut], &text[*cut..]]),
                whole,
                "{text} at {cut}"
            );
            let second = cuts[(number + 7).min(cuts.len() - 1)];
            let pieces = [&text[..*cut], &text[*cut..second], &text[second..]];
            assert_eq!(of(&pieces), whole, "{text} at {cut} and {second}");
        }
        whole
    }

    fn check(asked: &Asked, text: &str, content: &str, calls: &[(&str, &str)]) {
        let calls = calls.iter();
        let calls = calls.map(|(name, arguments)| (name.to_string(), arguments.to_string()));
        let expected = (content.to_string(), calls.collect());
        assert_eq!(read(asked, text), expected, "{text}");
    }

    const OBJECT: &str = "{\"q\": \"a \\\"}</tool_call>\\n\u{e9}\", \"n\": [1, {\"x\": null}]}";

    #[test]
    fn calls_are_found_behind_their_markers() {
        let hermes = asked(format("hermes"));
        let call = |name: &str, object: &str| {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {object}}}\n</tool_call>")
        };
        let (find, stop) = (call("find", OBJECT), call("stop", "{}"));
        let both = [("find", OBJECT), ("stop", "{}")];
        check(&hermes, &find, "", &both[..1]);
        check(&hermes, &format!("{find}\n{stop}"), "", &both);
        check(&hermes, &format!("{find}{stop}"), "", &both);
        check(
            &hermes,
            &format!("I look.\n\n{find}\n"),
            "I look.",
            &both[..1],
        );
        let texts = format!("First\u{e9} \n{find} then \n\n {stop}\n at last");
        check(&hermes, &texts, "First\u{e9}\nthen\nat last", &both);
        let thought = format!("<think>\na <b\n</think>\n\n{stop}");
        check(&hermes, &thought, "<think>\na <b\n</think>", &both[1..]);
        for (text, arguments) in [
            ("{\"name\": \"stop\"}", "{}"),
            (
                "{\"parameters\": {\"a\": 1}, \"name\": \"stop\"}",
                "{\"a\": 1}",
            ),
            (
                "{\"name\":\"stop\",\"arguments\":\"{\\\"a\\\": 1}\"}",
                "{\"a\": 1}",
            ),
            (
                "{\"type\": \"function\", \"id\": 7, \"name\": \"stop\", \"arguments\": {}}",
                "{}",
            ),
        ] {
            let text = format!("<tool_call>{text}</tool_call>");
            check(&hermes, &text, "", &[("stop", arguments)]);
        }
        let list = "<tool_call>[{\"name\": \"stop\"}, {\"name\": \"find\"}]</tool_call>";
        check(&hermes, list, "", &[("stop", "{}"), ("find", "{}")]);
        // What ends the answer in place of the end of the call, or within it.
        let open = find.strip_suffix("\n</tool_call>").unwrap();
        check(&hermes, open, "", &both[..1]);
        check(&hermes, &format!("{open}\n</tool_"), "", &both[..1]);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        let hermes = asked(format("hermes"));
        for text in [
            "",
            "No call.",
            "a < b, <tool",
            "<tool_call>",
            "<tool_call>\n",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"cut",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {}",
            "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
            "<tool_call>\n{\"name\": 5, \"arguments\": {}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": [1]}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": \"x\"}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {}, \"parameters\": {}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"name\": \"find\"}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"why\": \"\"}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": nul}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": \"\n\"}}\n</tool_call>",
            "<tool_call>\n{{\"name\": \"find\"}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"find\"} and more\n</tool_call>",
            "<tool_call>\n[]\n</tool_call>",
            "<tool_call>\n[{\"name\": \"find\"}, {\"name\": \"other\"}]\n</tool_call>",
            "</tool_call>",
        ] {
            check(&hermes, text, text.trim_end(), &[]);
        }
        let deep = format!(
            "<tool_call>{{\"name\": \"find\", \"arguments\": {{\"a\": {}{}}}}}</tool_call>",
            "[".repeat(300),
            "]".repeat(300)
        );
        check(&hermes, &deep, &deep, &[]);
        // Behind such a marker there may be a call.
        let call = "<tool_call>{\"name\": \"stop\"}</tool_call>";
        let text = format!("a <tool_call> b {call} c <tool_call>{{\"name\": \"{call}");
        let content = "a <tool_call> b\nc <tool_call>{\"name\": \"";
        check(&hermes, &text, content, &[("stop", "{}"), ("stop", "{}")]);
    }

    #[test]
    fn calls_without_a_marker_stand_in_front() {
        let (llama, mistral) = (asked(format("llama3_json")), asked(format("mistral")));
        let find = format!("{{\"name\": \"find\", \"parameters\": {OBJECT}}}");
        let stop = "{\"name\": \"stop\", \"parameters\": {}}";
        let both = [("find", OBJECT), ("stop", "{}")];
        check(&llama, &find, "", &both[..1]);
        check(&llama, &format!("<|python_tag|>{find}"), "", &both[..1]);
        for between in ["\n", "; ", ";", ""] {
            check(&llama, &format!(" {find}{between}{stop} "), "", &both);
        }
        check(
            &llama,
            &format!("{find} So it is; {stop}"),
            &format!("So it is; {stop}"),
            &both[..1],
        );
        check(&llama, &format!("{find}; so"), "; so", &both[..1]);
        let list = format!("[{find}, {stop}]");
        check(&mistral, &list, "", &both);
        check(&mistral, &format!("[TOOL_CALLS] {list}"), "", &both);
        check(&mistral, &format!("[TOOL_CALLS]{list} so"), "so", &both);
        for text in [
            "[",
            "[T",
            "[TOOL_CALLS]",
            "[1] is a note.",
            "[]",
            "Here: [{\"name\": \"stop\"}]",
            stop,
            // A name alone is an answer in JSON.
            "[{\"name\": \"stop\"}]",
            "[{\"name\": \"stop\", \"arguments\": {}}",
        ] {
            check(&mistral, text, text, &[]);
        }
        for text in [
            "{",
            "{}",
            "{\"name\": \"stop\"}",
            "<|py",
            "Call {\"name\": \"stop\"}",
            list.as_str(),
        ] {
            check(&llama, text, text, &[]);
        }
        let other = "{\"name\": \"other\", \"parameters\": {}}";
        check(&llama, &format!("{stop}{other}"), other, &both[1..]);
    }

    #[test]
    fn more_than_are_asked_for_are_dropped() {
        let call = "<tool_call>{\"name\": \"stop\"}</tool_call>";
        let hermes = Asked {
            most: 1,
            ..asked(format("hermes"))
        };
        check(
            &hermes,
            &format!("a {call} b {call} c"),
            "a\nb\nc",
            &[("stop", "{}")],
        );
        let mistral = Asked {
            most: 1,
            ..asked(format("mistral"))
        };
        let list =
            "[{\"name\": \"find\", \"arguments\": {}}, {\"name\": \"stop\", \"arguments\": {}}]";
        check(&mistral, list, "", &[("find", "{}")]);
    }

    /// Calls as their form lets them come, and what is left of them when they are cut.
    #[test]
    fn calls_that_have_to_come_are_told_as_they_come() {
        for format in &FORMATS {
            let forced = Asked {
                is_forced: true,
                ..asked(format)
            };
            let parts = format.parts();
            let call = |name: &str, object: &str| {
                format!(
                    "{}{}{object}}}{}",
                    parts.open,
                    format.head(name),
                    parts.close
                )
            };
            let (all, one) = (call("find.all", OBJECT), call("find", "{ }"));
            let text = format!("{}{all}{}{one}{}", parts.first, parts.between, parts.last);
            check(&forced, &text, "", &[("find.all", OBJECT), ("find", "{ }")]);
            // One that nothing forces is found, too.
            check(
                &asked(format),
                &text,
                "",
                &[("find.all", OBJECT), ("find", "{ }")],
            );
            let head = format.head("find.all");
            let head = format!("{}{}{head}", parts.first, parts.open);
            for cut in 0..text.len() {
                let Some(text) = text.get(..cut) else {
                    continue;
                };
                let (content, calls) = read(&forced, text);
                let told: usize = calls.iter().map(|(_, arguments)| arguments.len()).sum();
                let begun = text.len() >= head.len();
                assert_eq!(calls.is_empty(), !begun, "{text}");
                match begun {
                    true => {
                        let is_first = text.len() <= parts.first.len() + all.len();
                        assert!(content.is_empty() || !is_first, "{text}");
                        assert!(told >= OBJECT.len() || calls.len() == 1, "{text}");
                    }
                    false => assert_eq!(content, text.trim_end()),
                }
            }
            for text in [
                "no call",
                "{\"name\": \"other\", \"arguments\": {}}",
                "[",
                "\u{e9}",
            ] {
                check(&forced, text, text, &[]);
            }
        }
    }

    /// Whatever comes, none of it is lost, and it takes time as it has bytes.
    #[test]
    fn nothing_is_lost_of_what_a_hostile_model_writes() {
        let bits = [
            "<tool_call>",
            "</tool_call>",
            "<tool",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "\\",
            ":",
            ",",
            "name",
            "\"name\": \"find\"",
            "\"arguments\": {}",
            " ",
            "\n",
            ";",
            "\u{1f9c0}",
            "[TOOL_CALLS]",
            "<|python_tag|>",
            "\0",
            "{\"name\": \"stop\"}",
            "<tool_call>{\"name\": \"find\"}",
            "{\"name\": \"stop\", \"arguments\": {\"a\": \"}\"}}",
        ];
        let mut state = 11u64;
        let mut draw = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        let mut found = 0;
        for _ in 0..3000 {
            let text: String = (0..draw(24)).map(|_| bits[draw(bits.len())]).collect();
            for format in &FORMATS {
                for is_forced in [false, true] {
                    let asked = Asked {
                        is_forced,
                        ..asked(format)
                    };
                    let (content, calls) = read(&asked, &text);
                    let bare = |text: &str| text.replace(char::is_whitespace, "");
                    if calls.is_empty() {
                        assert_eq!(bare(&content), bare(&text), "{text:?}");
                    }
                    found += calls.len();
                }
            }
        }
        assert!(found > 100, "{found}");
        for unit in [
            "<tool_call>",
            "<tool_call>{\"",
            "<tool_call>{\"a\":\"",
            "<tool_call>{\"a\":[",
            " ",
        ] {
            let text = unit.repeat(60_000);
            let mut reader = Reader::new(&asked(format("hermes")));
            let mut parts = Vec::new();
            for piece in text.as_bytes().chunks(5000) {
                parts.extend(reader.push(std::str::from_utf8(piece).unwrap()));
            }
            parts.extend(reader.end());
            let (content, calls) = gathered(parts);
            assert!(content == text.trim() && calls.is_empty());
        }
    }
}
