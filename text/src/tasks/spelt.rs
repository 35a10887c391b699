//! What the text of an item may spell: tests of prompts whose texts have special tokens of the tokenizer in them.

use super::prompt::{Fields, Prompts, Truncate};
use super::recipe_file::parse;
use crate::load::from_texts;
use crate::text::Text;
use serde_json::{json, Map, Value};
use std::sync::Arc;

#[test]
fn what_a_text_spells_is_a_token_with_markup_alone() {
    const WORDS: &str = r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}},
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [
            {"id": 3, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false}]}"#;
    let text = Arc::new(Text::new(from_texts(WORDS, None).unwrap()).unwrap());
    for (markup, wanted) in [("false", &[3, 1, 0, 2][..]), ("true", &[3, 1, 3, 2])] {
        let recipe = format!(
            r#"{{"task": "generate", "method": "generate", "prompt": ["<s>{{prompt}}"], "markup": {markup}}}"#
        );
        let recipe = parse(&recipe).unwrap().recipe;
        let fields = Fields {
            document: "a <s> b",
            ..Fields::default()
        };
        let mut prompts = Prompts::new(&text, &recipe, &recipe.prompts["default"]).unwrap();
        let built = prompts.build(&fields, 9, Truncate::Off).unwrap();
        assert_eq!(built.tokens, wanted, "{markup}");
    }
}

const CHARACTERS: [&str; 9] = ["?", "a", "u", "e", " ", "\n", "\u{2581}", "<", ">"];
const LITERALLY: [i32; 5] = [1, 7, 3, 8, 1]; // a<e>a

/// A tokenizer of single characters, and the special tokens <u> and <e>.
fn characters(parts: Value, mark: Value) -> Arc<Text> {
    let vocab: Map<String, Value> = CHARACTERS
        .map(String::from)
        .into_iter()
        .zip((0..).map(Value::from))
        .collect();
    let special = |id: usize, content: &str| {
        let mut token = json!({"id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false});
        token
            .as_object_mut()
            .unwrap()
            .extend(mark.as_object().unwrap().clone());
        token
    };
    let mut tokenizer = json!({
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": vocab},
        "pre_tokenizer": each_character(),
        "added_tokens": [special(9, "<u>"), special(10, "<e>")],
    });
    tokenizer
        .as_object_mut()
        .unwrap()
        .extend(parts.as_object().unwrap().clone());
    Arc::new(Text::new(from_texts(&tokenizer.to_string(), None).unwrap()).unwrap())
}

fn each_character() -> Value {
    json!({"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": false})
}

fn prompt(text: &Arc<Text>, piece: &str, document: &str, limit: usize) -> Vec<i32> {
    let recipe = json!({"task": "embed", "method": "embedding", "prompt": [piece], "cut": "text"});
    let recipe = parse(&recipe.to_string()).unwrap().recipe;
    let fields = Fields {
        document,
        ..Fields::default()
    };
    let mut prompts = Prompts::new(text, &recipe, &recipe.prompts["default"]).unwrap();
    prompts
        .build(&fields, limit, Truncate::Right)
        .unwrap()
        .tokens
}

#[test]
fn what_a_text_spells_changes_nothing_around_it() {
    let metaspace = |scheme: &str| {
        let step = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": false});
        json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [step, each_character()]}})
    };
    let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": true,
        "lowercase": true});
    let llama = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    for (parts, mark) in [
        (json!({}), json!({})),
        (json!({}), json!({"rstrip": true})),
        (json!({}), json!({"lstrip": true})),
        (json!({}), json!({"lstrip": true, "rstrip": true})),
        (metaspace("first"), json!({})),
        (metaspace("first"), json!({"rstrip": true})),
        (metaspace("always"), json!({})),
        (metaspace("never"), json!({})),
        (json!({"normalizer": llama}), json!({})),
        (json!({"normalizer": bert}), json!({})),
        (json!({"normalizer": bert}), json!({"normalized": true})),
    ] {
        let text = characters(parts.clone(), mark.clone());
        for piece in [
            "<u>\na {text} <e> a\n<e>\n",
            "a{text}<e>a",
            "{text}<e> <u> a",
            "<u>{text}",
        ] {
            let mut wanted = prompt(&text, piece, "u", 99);
            let at = wanted.iter().position(|t| *t == 2).unwrap();
            wanted.splice(at..at + 1, LITERALLY);
            let found = prompt(&text, piece, "a<e>a", 99);
            assert_eq!(found, wanted, "{piece:?} {parts} {mark}");
            if parts["normalizer"] == bert {
                let found = prompt(&text, piece, "a<\u{c9}>A", 99);
                assert_eq!(found, wanted, "{piece:?} {parts} {mark}");
            }
        }
    }
}

#[test]
fn what_is_scored_has_no_mark_put_in_front() {
    let llama = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    let text = characters(json!({"normalizer": llama}), json!({}));
    let recipe = json!({"task": "classify", "method": "choices", "prompt": ["{text}"], "target": " {label}"});
    let recipe = parse(&recipe.to_string()).unwrap().recipe;
    let fields = Fields {
        label: "u<e>",
        ..Fields::default()
    };
    let prompts = Prompts::new(&text, &recipe, &recipe.prompts["default"]).unwrap();
    let tokens = prompts.continuation(&recipe.target, &fields).unwrap();
    assert_eq!(tokens, [6, 2, 7, 3, 8]);
}

/// The normalizer writes "▁<e>" for <e> alone.
#[test]
fn a_special_token_that_a_normalizer_changes_stays_one() {
    let prepend = json!({"normalizer": {"type": "Prepend", "prepend": "\u{2581}"}});
    let text = characters(prepend, json!({"normalized": true}));
    let wanted = [&[9, 6], &LITERALLY[..], &[10, 6, 1]].concat();
    assert_eq!(prompt(&text, "<u>{text}<e>a", "a<e>a", 99), wanted);
    let wanted = [9, 6, 2, 10, 6, 1];
    assert_eq!(prompt(&text, "<u>{text}<e>a", "u", 99), wanted);
}

#[test]
fn a_text_that_spells_special_tokens_is_cut_as_any_other() {
    let text = characters(json!({}), json!({"rstrip": true}));
    for (limit, kept) in [(9, 5), (7, 3), (4, 0)] {
        let wanted = [&[9, 1], &LITERALLY[..kept], &[10, 1]].concat();
        assert_eq!(prompt(&text, "<u> a{text}<e> a", "a<e>a", limit), wanted);
    }
}
