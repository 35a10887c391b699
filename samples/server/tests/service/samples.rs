//! Several answers of one prompt, and guesses that are checked.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::support::{open, start, start_with, Service};

const COMPLETIONS: &str = "/v1/completions";
const CHATS: &str = "/v1/chat/completions";

fn text(choice: &Value) -> String {
    let text = match choice.get("message") {
        Some(message) => &message["content"],
        None => &choice["text"],
    };
    text.as_str().unwrap().to_string()
}

/// The texts of an answer, which are in the order of their numbers.
fn texts(answer: &Value) -> Vec<String> {
    let choices = answer["choices"].as_array().unwrap();
    let numbers = choices.iter().map(|choice| choice["index"].as_u64());
    assert!(numbers.eq((0..choices.len() as u64).map(Some)), "{answer}");
    choices.iter().map(text).collect()
}

/// The texts of a stream by their numbers; each has one end.
fn streamed(chunks: &[Value]) -> Vec<String> {
    let (mut texts, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for choice in chunks.iter().flat_map(|chunk| chunk["choices"].as_array()) {
        for choice in choice {
            let index = choice["index"].as_u64().unwrap();
            let piece = match choice.get("delta") {
                Some(delta) => delta["content"].as_str().unwrap_or_default(),
                None => choice["text"].as_str().unwrap(),
            };
            *texts.entry(index).or_insert(String::new()) += piece;
            *ends.entry(index).or_insert(0) += usize::from(choice["finish_reason"].is_string());
        }
    }
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
    assert!(texts.keys().copied().eq(0..texts.len() as u64));
    texts.into_values().collect()
}

fn with(body: &Value, fields: Value) -> Value {
    let mut body = body.clone();
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn answers_of_a_prompt_stand_behind_each_other() {
    let service = start(|_| {});
    let prompts = ["Bread is made of", "The moon"];
    let body = json!({"prompt": prompts, "max_tokens": 8, "temperature": 1, "seed": 40, "n": 3});
    let whole = service.post(COMPLETIONS, &body).json(200);
    let found = texts(&whole);
    assert_eq!(found.len(), 6);
    let mut prompt_tokens = 0;
    for (prompt, own) in prompts.iter().zip(found.chunks(3)) {
        for (sample, own) in own.iter().enumerate() {
            let alone =
                json!({"prompt": prompt, "max_tokens": 8, "temperature": 1, "seed": 40 + sample});
            let alone = service.post(COMPLETIONS, &alone).json(200);
            assert_eq!(&texts(&alone)[0], own, "{prompt} {sample}");
            if sample == 0 {
                prompt_tokens += alone["usage"]["prompt_tokens"].as_u64().unwrap();
            }
        }
        assert!(own[0] != own[1] && own[1] != own[2], "{own:?}");
    }
    let usage = &whole["usage"];
    assert_eq!(usage["prompt_tokens"], prompt_tokens);
    assert_eq!(usage["completion_tokens"], 6 * 8);
    assert_eq!(usage["total_tokens"], prompt_tokens + 6 * 8);
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = service.post(COMPLETIONS, &with(&body, more)).chunks();
    assert_eq!(streamed(&chunks), found);
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!(usage["prompt_tokens"], prompt_tokens);
    assert_eq!(usage["completion_tokens"], 6 * 8);
}

#[test]
fn a_chat_has_several_answers() {
    let service = start(|_| {});
    let messages = json!([{"role": "user", "content": "Name a town."}]);
    let body = json!({"messages": messages, "max_tokens": 12, "temperature": 1, "seed": 3, "n": 4});
    let whole = service.post(CHATS, &body).json(200);
    let found = texts(&whole);
    assert_eq!(found.len(), 4);
    let more = json!({"stream": true, "logprobs": true});
    let chunks = service.post(CHATS, &with(&body, more)).chunks();
    assert_eq!(streamed(&chunks), found);
    let roles = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let roles = roles.filter(|delta| delta["role"] == "assistant");
    assert_eq!(roles.count(), 4, "each says whose turn it is, once");
    let one = service
        .post(CHATS, &with(&body, json!({"n": null})))
        .json(200);
    assert_eq!(texts(&one), found[..1]);
    assert_eq!(
        one["usage"]["prompt_tokens"],
        whole["usage"]["prompt_tokens"]
    );
    // All that is written is told: there is no better one to choose.
    for best in [1, 4] {
        let same = with(&body, json!({"best_of": best}));
        assert_eq!(texts(&service.post(CHATS, &same).json(200)), found);
    }
    // Without a seed each has a new one.
    let new = with(&body, json!({"seed": null, "max_tokens": 24}));
    let new = texts(&service.post(CHATS, &new).json(200));
    assert!(new.iter().any(|text| *text != new[0]), "{new:?}");
}

/// Tokens of a prompt that were not there yet are those of the first answer, which computes them.
#[test]
fn what_answers_share_with_each_other_was_not_cached() {
    let options = prefix::Options::new().unwrap();
    let service = start_with(open(options.set("cache_bytes", "64M").unwrap()), |_| {});
    let prompt =
        "Once upon a time there was a tree that stood beside the river and was old. ".repeat(8);
    let body = json!({"prompt": prompt, "max_tokens": 2, "n": 5});
    let of = |answer: &Value| {
        let usage = &answer["usage"];
        let details = &usage["prompt_tokens_details"];
        let cached = details["cached_tokens"].as_u64();
        let all = usage["prompt_tokens"].as_u64().unwrap();
        (all, cached.unwrap(), details["missed_tokens"].clone())
    };
    let (all, cached, missed) = of(&service.post(COMPLETIONS, &body).json(200));
    assert!(all > 100 && cached == 0, "{all} {cached}");
    assert_eq!(missed, json!({"first_seen": all}));
    let (same, cached, missed) = of(&service.post(COMPLETIONS, &body).json(200));
    assert_eq!((same, cached), (all, all - 1));
    assert_eq!(missed, json!({"granularity": 1}), "the last is read again");
    // One prompt of two is new.
    let body = with(&body, json!({"prompt": [prompt, "A b c"]}));
    let (two, cached, missed) = of(&service.post(COMPLETIONS, &body).json(200));
    let new = two - all;
    assert_eq!(cached, all - 1);
    assert_eq!(missed, json!({"first_seen": new, "granularity": 1}));
}

#[test]
fn texts_of_a_request_have_a_limit() {
    let service = start(|config| config.max_items = 6);
    let ask = |fields: Value| {
        let body = json!({"prompt": ["a", "b"], "max_tokens": 1});
        service.post(COMPLETIONS, &with(&body, fields))
    };
    assert_eq!(texts(&ask(json!({"n": 3})).json(200)).len(), 6);
    for n in [json!(4), json!(u64::MAX)] {
        let error = ask(json!({"n": n})).json(413)["error"].clone();
        assert_eq!(error["param"], "n", "{error}");
        assert!(error["message"]
            .as_str()
            .unwrap()
            .contains("the limit is 6"));
    }
    for (field, fields, why) in [
        ("n", json!({"n": 0}), "is 0, the least is 1"),
        (
            "n",
            json!({"n": -1}),
            "expected a whole number from 0 to 18446744073709551615",
        ),
        (
            "best_of",
            json!({"best_of": 2}),
            "is 2; served are 1 and n, which is 1",
        ),
        (
            "best_of",
            json!({"n": 2, "best_of": 3}),
            "is 3; served are 1 and n, which is 2",
        ),
        ("best_of", json!({"n": 2, "best_of": 0}), "is 0; "),
    ] {
        let error = ask(fields).json(400)["error"].clone();
        assert_eq!(error["param"], field, "{error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
    }
    // The library has one, too.
    let wide = start(|config| config.max_items = 4096);
    let body = json!({"prompt": "a", "max_tokens": 1, "n": 1025});
    let error = wide.post(COMPLETIONS, &body).json(400)["error"].clone();
    assert_eq!(error["param"], "n", "{error}");
    assert!(
        error["message"].as_str().unwrap().contains("1024"),
        "{error}"
    );
}

/// How many tokens were guessed for a text that was written before, which are right; its `usage` says so.
fn guessed(service: &Service, fields: Value) -> f64 {
    let body = json!({"prompt": "Bread is made of", "max_tokens": 24, "temperature": 0, "ignore_eos": true});
    let plain = service.post(COMPLETIONS, &with(&body, json!({"draft_tokens": 0})));
    let plain = texts(&plain.json(200));
    let before = service.metric("prefix_draft_tokens_total");
    let same = service
        .post(COMPLETIONS, &with(&body, fields.clone()))
        .json(200);
    assert_eq!(texts(&same), plain);
    let guessed = service.metric("prefix_draft_tokens_total") - before;
    let right =
        json!({"accepted_prediction_tokens": guessed as u64, "rejected_prediction_tokens": 0});
    let details = if guessed > 0.0 { right } else { Value::Null };
    assert_eq!(same["usage"]["completion_tokens_details"], details);
    // A stream ends with the same.
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = service
        .post(COMPLETIONS, &with(&with(&body, fields), more))
        .chunks();
    let last = &chunks[chunks.len() - 1]["usage"];
    assert_eq!(*last, same["usage"]);
    guessed
}

#[test]
fn tokens_are_guessed_where_that_is_wanted() {
    let options = || {
        prefix::Options::new()
            .unwrap()
            .set("cache_bytes", "64M")
            .unwrap()
    };
    let service = start_with(open(options()), |_| {});
    assert_eq!(guessed(&service, json!({})), 0.0, "unless asked for");
    assert!(guessed(&service, json!({"draft_tokens": 8})) > 0.0);
    let eager = start_with(open(options()), |config| config.draft_tokens = 8);
    assert!(guessed(&eager, json!({})) > 0.0);
    assert_eq!(guessed(&eager, json!({"draft_tokens": 0})), 0.0);
    for wrong in [33, -1] {
        let body = json!({"prompt": "a", "max_tokens": 1, "draft_tokens": wrong});
        let error = service.post(COMPLETIONS, &body).json(400)["error"].clone();
        assert_eq!(error["param"], "draft_tokens", "{error}");
        assert!(error["message"].as_str().unwrap().contains("32"), "{error}");
    }
}
