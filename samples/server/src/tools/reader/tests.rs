use std::sync::Arc;

use serde_json::value::RawValue;

use super::super::format::{Body, Format, FORMATS};
use super::super::part::Known;
use super::*;

fn tool(name: &str) -> Known {
    let schema = r#"{"properties": {"n": {"type": "integer"}, "list": {"type": "array"}}}"#;
    Known {
        name: name.to_string(),
        parameters: RawValue::from_string(schema.to_string()).ok(),
    }
}

fn asked(format: &'static Format) -> Asked {
    Asked {
        format,
        tools: Arc::new(["find", "find.all", "stop"].map(tool).to_vec()),
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
            Part::Thought(text) => panic!("a thought: {text}"),
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
fn calls_with_a_tag_for_each_argument_are_found() {
    let coder = asked(format("qwen3_coder"));
    let value = "a \u{e9}\n</tool_call> <function=stop> \"x\"";
    let find = format!(
        "<tool_call>\n<function=find>\n<parameter=q>\n{value}\n</parameter>\n<parameter=n>\n5\n</parameter>\n\
         </function>\n</tool_call>"
    );
    let object = format!("{{\"q\": {}, \"n\": 5}}", serde_json::json!(value));
    let stop = "<tool_call>\n<function=stop>\n</function>\n</tool_call>";
    let both = [("find", object.as_str()), ("stop", "{}")];
    check(&coder, &find, "", &both[..1]);
    check(&coder, &format!("{find}\n{stop}"), "", &both);
    let text = format!("I look.\n\n{find} then\n{stop} so");
    check(&coder, &text, "I look.\nthen\nso", &both);
    // Several behind one marker, and none: some models leave out one or both.
    let bare = |call: &str| {
        let call = call.strip_prefix("<tool_call>\n").unwrap();
        call.strip_suffix("\n</tool_call>").unwrap().to_string()
    };
    let (found, stopped) = (bare(&find), bare(stop));
    check(
        &coder,
        &format!("<tool_call>{found}{stopped}</tool_call>"),
        "",
        &both,
    );
    check(
        &coder,
        &format!("So: {found}\n</tool_call>\n{stop}"),
        "So:",
        &both,
    );
    check(&coder, &format!("{found}\n{stopped}"), "", &both);
    check(
        &coder,
        &format!("<tool_call>{found}\n</tool"),
        "",
        &both[..1],
    );
    check(&coder, &format!("{found} and more"), "and more", &both[..1]);
    let lines = "<function=stop><parameter=a>\n\n b \n\n</parameter></function>";
    check(&coder, lines, "", &[("stop", "{\"a\": \"\\n b \\n\"}")]);
    let list = "<function=find><parameter=list>[1, 'a']</parameter></function>";
    check(&coder, list, "", &[("find", "{\"list\": [1, \"a\"]}")]);
    for text in [
        "<tool_call>",
        "<func",
        "<function=find>",
        "<tool_call>\n<function=find>\n<parameter=q>\ncut <function=stop></function>",
        "<function=other></function>",
        "<tool_call><function=other></function></tool_call>",
        "<function=find><parameter=q>1</parameter><parameter=q>2</parameter></function>",
        "<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>",
        "<function=find><parameter=q><function=stop></function></parameter>x",
    ] {
        check(&coder, text, text, &[]);
    }
    let text = format!("<tool_call> <tool_call>{found}");
    check(&coder, &text, "<tool_call>", &both[..1]);
}

#[test]
fn calls_of_python_are_found() {
    let (list, lines) = (asked(format("pythonic")), asked(format("olmo3")));
    let find = "find(q=\"a \\\"]) 'b'\", many=[1, -2.5, True, None], of={'k': ('x',)})";
    let object =
        "{\"q\": \"a \\\"]) 'b'\", \"many\": [1, -2.5, true, null], \"of\": {\"k\": [\"x\"]}}";
    let both = [("find", object), ("stop", "{}")];
    check(&list, &format!("[{find}, stop()]"), "", &both);
    check(
        &list,
        &format!(" <|tool_call_start|>[ {find} ]"),
        "",
        &both[..1],
    );
    check(&list, &format!("[{find}] so"), "so", &both[..1]);
    let text = format!("I look.\n<function_calls>\n{find}\nstop()\n</function_calls>");
    check(&lines, &text, "I look.", &both);
    check(
        &lines,
        "<function_calls>stop()</function_calls> x",
        "x",
        &both[1..],
    );
    check(&lines, "<function_calls>stop()", "", &both[1..]);
    for (literal, value) in [
        ("''", "\"\""),
        ("'''a\n''b'''", "\"a\\n''b\""),
        (r"'''a''\'' ] '''", "\"a'''' ] \""),
        ("'a\\\nb'", "\"ab\""),
        ("\"\"\"\"\"\"", "\"\""),
        (
            r"'\n\x41\u00e9\ud83e\uddc0\U0001F9C0\q\''",
            "\"\\nA\u{e9}\u{1f9c0}\u{1f9c0}\\\\q'\"",
        ),
        ("[]", "[]"),
        ("[1,]", "[1]"),
        ("(1, 2)", "[1, 2]"),
        ("{}", "{}"),
        ("{\"a\": {'b': []},}", "{\"a\": {\"b\": []}}"),
        (".5", "0.5"),
        ("-1.", "-1.0"),
        ("+3e2", "3e2"),
        ("true", "true"),
    ] {
        let object = format!("{{\"a\": {value}}}");
        let call = [("stop", object.as_str())];
        check(&list, &format!("[stop(a={literal})]"), "", &call);
        check(&list, &format!("[stop(a = {literal} , )]"), "", &call);
    }
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let object = format!("{{\"a\": {}}}", nested(126));
    let fits = format!("[stop(a={})]", nested(126));
    check(&list, &fits, "", &[("stop", object.as_str())]);
    let deep = format!("[stop(a={})]", nested(127));
    check(&list, &deep, &deep, &[]);
    for text in [
        "[",
        "[]",
        "[1, 2]",
        "[stop]",
        "[stop(1)]",
        "[stop(a)]",
        "[stop(a=b)]",
        "[stop(a=1, a=2)]",
        "[stop(a=01)]",
        "[stop(a=inf)]",
        "[stop(a='x\ny')]",
        "[stop(a={1: 2})]",
        "[stop(a={'b', 'c'})]",
        "[stop(a=1 b=2)]",
        "[stop(a='\\ud83e')]",
        "[stop(), other()]",
        "[stop() stop()]",
        "[stop()",
        "[(stop())]",
        "[stop(a=x%y)]",
        "see [stop()]",
    ] {
        check(&list, text, text, &[]);
    }
}

#[test]
fn a_list_has_a_marker_of_its_own() {
    let nemotron = asked(format("nemotron_json"));
    let list = "[{\"name\": \"stop\", \"arguments\": {}}, {\"name\": \"find\"}]";
    let text = format!("So <TOOLCALL>{list}</TOOLCALL> it is");
    check(
        &nemotron,
        &text,
        "So\nit is",
        &[("stop", "{}"), ("find", "{}")],
    );
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
    let list = "[{\"name\": \"find\", \"arguments\": {}}, {\"name\": \"stop\", \"arguments\": {}}]";
    check(&mistral, list, "", &[("find", "{}")]);
}

/// Calls as their form lets them come, and what is left of them when they are cut.
#[test]
fn calls_that_have_to_come_are_told_as_they_come() {
    for format in &FORMATS {
        let is_json = format.body == Body::Json;
        assert_eq!(
            format.forced().name,
            if is_json { format.name } else { "json" }
        );
        if !is_json {
            continue;
        }
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
        "<function=stop>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "<tool_call><function=find><parameter=b>",
        "<TOOLCALL>[",
        "</TOOLCALL>",
        "<function_calls>",
        "</function_calls>",
        "stop(",
        "find(a='",
        "')",
        "{\"name\": \"stop\", \"arguments\": {\"a\": \"}\"}}",
    ];
    let mut state = 11u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) as usize % n
    };
    let mut found = 0;
    for _ in 0..600 {
        let text: String = (0..draw(24)).map(|_| bits[draw(bits.len())]).collect();
        for format in &FORMATS {
            for is_forced in [false, format.body == Body::Json] {
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
    assert!(found > 20, "{found}");
    for (name, unit) in [
        ("hermes", "<tool_call>"),
        ("hermes", "<tool_call>{\""),
        ("hermes", "<tool_call>{\"a\":\""),
        ("hermes", "<tool_call>{\"a\":["),
        ("hermes", " "),
        ("qwen3_coder", "<tool_call><function="),
        ("qwen3_coder", "<tool_call><function=stop>"),
        ("qwen3_coder", "<function=stop><parameter=a>"),
        ("qwen3_coder", "<function=stop><parameter=a></parameter>"),
        ("olmo3", "<function_calls>stop(a="),
        ("olmo3", "<function_calls>stop(a=\""),
        ("olmo3", "<function_calls>stop(a=\"\"\""),
        ("olmo3", "<function_calls>stop(a=["),
        ("pythonic", "[stop(a='"),
    ] {
        let text = unit.repeat(20_000);
        let mut reader = Reader::new(&asked(format(name)));
        let mut parts = Vec::new();
        for piece in text.as_bytes().chunks(2000) {
            parts.extend(reader.push(std::str::from_utf8(piece).unwrap()));
        }
        parts.extend(reader.end());
        let (content, calls) = gathered(parts);
        assert!(content == text.trim() && calls.is_empty());
    }
}
