//! Prompts against transformers' apply_chat_template: conversations with the templates of real models
//! and of our own, and single expressions. tools/golden/text_golden.py makes the answers.

mod support;

use serde_json::{json, Value};
use std::collections::HashMap;
use support::capi::{Tokenizer, INVALID_ARGUMENT, UNSUPPORTED_MODEL};
use support::runner::{main as run, need, Skip};
use support::{file, read, QWEN3, SMOLLM2};

fn lines(name: &str) -> Vec<Value> {
    let text = read(&format!("tests/golden/text/{name}.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn conversations() -> HashMap<String, Value> {
    lines("conversations")
        .into_iter()
        .map(|entry| (entry["name"].as_str().unwrap().to_string(), entry))
        .collect()
}

/// The time that the answers were made at.
fn now() -> Value {
    lines("expressions")[0]["now"].clone()
}

/// One line about a prompt that is not the one that was wanted.
fn difference(
    case: &str,
    tokenizer: &Tokenizer,
    messages: &Value,
    options: &Value,
    wanted: &Value,
) -> Option<String> {
    let found = tokenizer.chat_text(&messages.to_string(), &options.to_string());
    match (found, wanted["text"].as_str()) {
        (Ok(found), Some(wanted)) if found == wanted => None,
        (Err(_), None) => None,
        (Ok(found), Some(wanted)) => Some(format!("{case}:\n  {found:?}\n  {wanted:?} wanted")),
        (Ok(found), None) => Some(format!("{case}:\n  {found:?}\n  refusal wanted")),
        (Err(e), Some(wanted)) => Some(format!(
            "{case}:\n  {} {}\n  {wanted:?} wanted",
            e.code, e.message
        )),
    }
}

fn compare_conversations(template: &str, tokenizer: &Tokenizer) {
    let conversations = conversations();
    let now = now();
    let mut differences = Vec::new();
    let mut cases = 0;
    for case in lines("chat")
        .iter()
        .filter(|case| case["template"] == template)
    {
        let name = case["conversation"].as_str().unwrap();
        let mut options = conversations[name]["options"].clone();
        options["now"] = now.clone();
        let messages = &conversations[name]["messages"];
        differences.extend(difference(name, tokenizer, messages, &options, case));
        cases += 1;
    }
    assert_eq!(cases, conversations.len());
    assert!(
        differences.is_empty(),
        "{template}: {} of {cases} prompts differ\n{}",
        differences.len(),
        differences.join("\n")
    );
}

fn own(name: &str) {
    let templates = lines("templates");
    let entry = templates
        .iter()
        .find(|entry| entry["name"] == name)
        .unwrap();
    compare_conversations(
        name,
        &Tokenizer::with_template(entry["template"].as_str().unwrap()).unwrap(),
    );
}

fn every_template_is_compared() {
    let names: Vec<String> = lines("templates")
        .iter()
        .map(|t| t["name"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(names, OWN);
}

/// Known to differ; anything that begins to agree must leave this list.
const DIFFERENT: &[&str] = &[
    // How objects of Python print that no prompt should show: views of maps, a namespace.
    "{{ map.items() }}",
    "{{ map.keys() }}",
    "{{ map.values() }}",
    "{% set x = namespace(a=1) %}{{ x }}",
    // Refused: filters, tests and methods for web pages or that chat templates have no use for.
    "{{ 'one two three four' | wordwrap(8) }}",
    "{{ '<b>x</b> y' | striptags }}",
    "{{ 'a b&c/d' | urlencode }}",
    "{{ {'a': 'b c'} | urlencode }}",
    "{{ 1024 | filesizeformat }}",
    "{{ list | random is number }}",
    "{{ list | pprint }}",
    "{{ 'é'.encode('utf-8') }}",
    "{{ s.upper is callable }}",
    "{{ range is callable }}",
    "{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m() }}",
    "{{ +i }}",
    // A global name that is undefined.
    "{{ lipsum is defined }}",
    // Unicode's names of characters are not here, so that a template with one is refused.
    r"{{ '\N{BULLET}' }}",
    // A text that counts as HTML shows as any other in a list, and what a format puts into it is not escaped.
    "{{ ('%s' | safe) % '<' }}",
    "{{ ['<' | safe] }}",
    // Python refuses or mixes up what has a plain meaning.
    "{{ {1: 2, true: 3} | tojson }}",
    "{{ list[1.0] }}",
    // Jinja takes the else of a loop also when every round ended in continue.
    "{% for a in list %}{% continue %}{% else %}x{% endfor %}",
];

fn expressions() {
    let cases = lines("expressions");
    let (about, cases) = cases.split_first().unwrap();
    let options = json!({"variables": about["variables"], "now": about["now"]});
    let mut differences = Vec::new();
    let mut known = 0;
    for case in cases {
        let template = case["template"].as_str().unwrap();
        let tokenizer = Tokenizer::with_template(template).unwrap();
        let found = difference(template, &tokenizer, &about["messages"], &options, case);
        match (found, DIFFERENT.contains(&template)) {
            (Some(difference), false) => differences.push(difference),
            (None, true) => differences.push(format!("{template}: agrees now")),
            (_, is_known) => known += usize::from(is_known),
        }
    }
    assert_eq!(known, DIFFERENT.len());
    assert!(
        differences.is_empty(),
        "{} of {} differ\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

/// What a template asks for that this library lacks is no fault of the messages.
fn dialects() {
    for (template, says) in [
        (
            "{{ 'abc'.split(by='b') }}",
            "unknown method: \"split\" with an argument \"by\" (line 1)",
        ),
        (
            "{{ 'abc'.split('b', sep='b') }}",
            "\"split\" with an argument \"sep\"",
        ),
        (
            "{{ 'a'.replace('a', 'b', count=1) }}",
            "\"replace\" with an argument \"count\"",
        ),
        (
            "{{ messages[0].get('x', default=1) }}",
            "\"get\" with an argument \"default\"",
        ),
        (
            "{{ strftime_now('%d %Q') }}",
            "strftime_now does not know \"%Q\" (line 1)",
        ),
        (
            "{% macro m() %}{{ varargs }}{% endmacro %}",
            "varargs of a macro is not supported",
        ),
        (
            "{% macro m() %}{% if 'a' in kwargs %}{% endif %}{% endmacro %}",
            "kwargs of a macro is not supported",
        ),
        (
            "{% autoescape true %}{{ '<' }}{% endautoescape %}",
            "autoescape is not supported",
        ),
    ] {
        let tokenizer = Tokenizer::with_template(template).unwrap();
        let error = tokenizer
            .chat_text(r#"[{"role": "user"}]"#, "")
            .unwrap_err();
        assert_eq!(error.code, UNSUPPORTED_MODEL, "{template}");
        assert!(
            error.message.contains(says),
            "{template}: {}",
            error.message
        );
    }
}

/// JSON has whole numbers of any size. One that would become another number is refused.
fn whole_numbers() {
    let tokenizer = Tokenizer::with_template("{{ messages[0].n | tojson }} {{ tools }}").unwrap();
    let message = |n: &str| format!(r#"[{{"role": "user", "n": {n}}}]"#);
    let tools = |n: &str| format!(r#"{{"tools": [{{"n": {n}}}]}}"#);
    for (n, written) in [
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1e22", "1e+22"),
        ("\"12345678901234567890123\"", "\"12345678901234567890123\""),
    ] {
        let text = tokenizer.chat_text(&message(n), "").unwrap();
        assert_eq!(text, format!("{written} None"));
    }
    for n in [
        "18446744073709551616",
        "-9223372036854775809",
        "12345678901234567890123",
    ] {
        for (what, messages, options) in [
            ("messages", message(n), String::new()),
            ("options", message("1"), tools(n)),
        ] {
            let error = tokenizer.chat_text(&messages, &options).unwrap_err();
            assert_eq!(error.code, INVALID_ARGUMENT);
            let says = format!("{what} has the whole number \"{n}\"");
            assert!(error.message.contains(&says), "{}", error.message);
        }
    }
}

const OWN: [&str; 9] = [
    "plain",
    "headers",
    "strict",
    "parts",
    "thoughts",
    "types",
    "documents",
    "marked",
    "loops",
];

fn main() {
    let nothing = || Skip::No;
    let smollm2 = || need(SMOLLM2, "tools/fetch_model");
    let qwen3 = || need(QWEN3, "tools/golden/text_qwen3.py");
    run(&[
        (
            "every_template_is_compared",
            nothing,
            every_template_is_compared,
        ),
        ("expressions", nothing, expressions),
        ("dialects", nothing, dialects),
        ("whole_numbers", nothing, whole_numbers),
        ("plain_template", nothing, || own("plain")),
        ("headers_template", nothing, || own("headers")),
        ("strict_template", nothing, || own("strict")),
        ("parts_template", nothing, || own("parts")),
        ("thoughts_template", nothing, || own("thoughts")),
        ("types_template", nothing, || own("types")),
        ("documents_template", nothing, || own("documents")),
        ("marked_template", nothing, || own("marked")),
        ("loops_template", nothing, || own("loops")),
        ("smollm2_template", smollm2, || {
            compare_conversations(
                "smollm2",
                &Tokenizer::open(file(SMOLLM2).to_str().unwrap()).unwrap(),
            )
        }),
        ("qwen3_template", qwen3, || {
            compare_conversations(
                "qwen3",
                &Tokenizer::open(file(QWEN3).to_str().unwrap()).unwrap(),
            )
        }),
    ]);
}
