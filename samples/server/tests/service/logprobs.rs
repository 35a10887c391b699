//! The tokens of answers with their log-probabilities.

use prefix::Options;
use serde_json::{json, Value};

use crate::support::{all, engine, start, Service};

const PROMPT: &str = "The capital of France is";

fn one(service: &Service, path: &str, fields: &Value) -> Value {
    let mut body = match path {
        "/v1/completions" => json!({"prompt": PROMPT}),
        _ => json!({"messages": [{"role": "user", "content": "Which is the capital of France?"}]}),
    };
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    let answer = service.post(path, &body);
    match fields["stream"] == true {
        true => json!(answer.chunks()),
        false => answer.json(200)["choices"][0].clone(),
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("{value}"))
}

fn logprob(value: &Value) -> f64 {
    value["logprob"].as_f64().unwrap()
}

fn bytes(token: &Value) -> Vec<u8> {
    serde_json::from_value(token["bytes"].clone()).unwrap()
}

#[test]
fn of_a_chat_each_token_has_its_bytes() {
    let service = start(|_| {});
    let chats = "/v1/chat/completions";
    let fields = json!({"temperature": 0, "max_tokens": 60, "logprobs": true, "top_logprobs": 3});
    let choice = one(&service, chats, &fields);
    let text = choice["message"]["content"].as_str().unwrap();
    assert_eq!(choice["logprobs"]["refusal"], Value::Null);
    let content = list(&choice["logprobs"], "content");
    // Without the token that ended the text.
    let written: Vec<u8> = content.iter().flat_map(bytes).collect();
    assert_eq!(String::from_utf8(written).unwrap().trim(), text);
    for token in content {
        let top = list(token, "top_logprobs");
        assert_eq!(top.len(), 3);
        assert!(top
            .windows(2)
            .all(|pair| logprob(&pair[0]) >= logprob(&pair[1])));
        // The likeliest one comes at temperature 0.
        assert_eq!(top[0]["bytes"], token["bytes"]);
        assert_eq!(top[0]["logprob"], token["logprob"]);
        assert_eq!(token["token"].as_str().unwrap().as_bytes(), bytes(token));
    }
    let plain = one(
        &service,
        chats,
        &json!({"temperature": 0, "max_tokens": 60, "logprobs": true}),
    );
    for (few, many) in list(&plain["logprobs"], "content").iter().zip(content) {
        assert_eq!(few["logprob"], many["logprob"]);
        assert_eq!(few["top_logprobs"], json!([]));
    }
    let none = one(
        &service,
        chats,
        &json!({"temperature": 0, "logprobs": false}),
    );
    assert_eq!(none.get("logprobs"), Some(&Value::Null));
}

/// As the library has them, in the form of the older API.
#[test]
fn of_a_completion_there_are_four_lists() {
    let service = start(|_| {});
    let fields = json!({"temperature": 0, "max_tokens": 12, "logprobs": 2});
    let choice = one(&service, "/v1/completions", &fields);
    let text = choice["text"].as_str().unwrap();
    let (engine, tokenizer) = engine();
    let options = Options::new().unwrap().set("max_tokens", 12).unwrap();
    let options = options.set("recipe", "completion-markup").unwrap();
    let options = options.set("top_logprobs", 2).unwrap();
    let kind = prefix::TaskKind::Generate;
    let mut builder = prefix::Task::builder(engine, tokenizer, kind, Some(&options)).unwrap();
    builder.add(&[PROMPT]).unwrap();
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    assert_eq!(all(vec![task.text(0)])[0], text);
    let tokens = task.logprobs(0, 0).unwrap();
    let logprobs = &choice["logprobs"];
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(logprobs, field).len(), tokens.len(), "{field}");
    }
    let name = |id: i32| String::from_utf8(tokenizer.token_bytes(id).unwrap()).unwrap();
    for (i, token) in tokens.iter().enumerate() {
        assert_eq!(logprobs["tokens"][i], name(token.token));
        let told = logprobs["token_logprobs"][i].as_f64().unwrap();
        assert_eq!(told as f32, token.logprob);
        let characters = text[..token.offset].chars().count();
        assert_eq!(logprobs["text_offset"][i], characters);
        let top = logprobs["top_logprobs"][i].as_object().unwrap();
        assert_eq!(top.len(), 2);
        for likely in &token.top {
            assert_eq!(
                top[&name(likely.token)].as_f64().unwrap() as f32,
                likely.logprob
            );
        }
    }
    // The one that came is there, whether it was likely or not.
    let fields = json!({"max_tokens": 30, "logprobs": 0, "temperature": 2, "seed": 4});
    let choice = one(&service, "/v1/completions", &fields);
    let logprobs = &choice["logprobs"];
    for (i, token) in list(logprobs, "tokens").iter().enumerate() {
        let (name, logprob) = (token.as_str().unwrap(), &logprobs["token_logprobs"][i]);
        assert_eq!(logprobs["top_logprobs"][i], json!({name: logprob}));
    }
}

#[test]
fn parts_of_characters_are_told_by_their_bytes() {
    let service = start(|_| {});
    let fields = json!({"guided_regex": "(\u{1f680}|\u{6f22}){8}", "max_tokens": 60, "temperature": 1,
        "seed": 3});
    let with = |more: Value| {
        let mut fields = fields.clone();
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fields
    };
    let chat = with(json!({"logprobs": true}));
    let choice = one(&service, "/v1/chat/completions", &chat);
    let content = list(&choice["logprobs"], "content");
    let written: Vec<u8> = content.iter().flat_map(bytes).collect();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        choice["message"]["content"].as_str().unwrap()
    );
    assert!(content
        .iter()
        .any(|token| token["token"].as_str().unwrap().contains('\u{fffd}')));
    let choice = one(&service, "/v1/completions", &with(json!({"logprobs": 0})));
    let logprobs = &choice["logprobs"];
    assert_eq!(
        choice["text"].as_str().unwrap().chars().count(),
        8,
        "{choice}"
    );
    let mut written = Vec::new();
    for (token, offset) in list(logprobs, "tokens")
        .iter()
        .zip(list(logprobs, "text_offset"))
    {
        let begun = String::from_utf8_lossy(&written);
        let whole = begun.trim_end_matches('\u{fffd}').chars().count();
        assert_eq!(offset, whole, "{logprobs}");
        match token.as_str().unwrap().strip_prefix("bytes:") {
            Some(parts) => written.extend(
                parts
                    .split("\\x")
                    .skip(1)
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap()),
            ),
            None => written.extend(token.as_str().unwrap().bytes()),
        }
    }
    assert_eq!(
        String::from_utf8(written).unwrap(),
        choice["text"].as_str().unwrap()
    );
}

/// The tokens of the pieces are those of the whole, each with the piece that it begins in.
#[test]
fn a_stream_has_the_tokens_of_its_pieces() {
    let service = start(|_| {});
    for (path, asked) in [
        ("/v1/completions", json!({"logprobs": 3, "stop": ["."]})),
        ("/v1/completions", json!({"logprobs": 3, "max_tokens": 20})),
        (
            "/v1/chat/completions",
            json!({"logprobs": true, "top_logprobs": 2, "max_tokens": 40}),
        ),
    ] {
        let mut fields = asked.clone();
        fields["temperature"] = json!(0);
        let whole = one(&service, path, &fields);
        fields["stream"] = json!(true);
        let chunks = one(&service, path, &fields);
        let mut text = String::new();
        let lists = match path {
            "/v1/completions" => &["tokens", "token_logprobs", "top_logprobs", "text_offset"][..],
            _ => &["content"],
        };
        let mut streamed = vec![Vec::new(); lists.len()];
        for chunk in chunks.as_array().unwrap() {
            let choice = &chunk["choices"][0];
            let piece = choice["text"]
                .as_str()
                .or(choice["delta"]["content"].as_str());
            let before = text.chars().count();
            text += piece.unwrap_or_default();
            if choice["logprobs"].is_null() {
                continue;
            }
            for (told, field) in streamed.iter_mut().zip(lists) {
                told.extend_from_slice(list(&choice["logprobs"], field));
            }
            if path == "/v1/completions" {
                let offsets = list(&choice["logprobs"], "text_offset").iter();
                let offsets: Vec<u64> = offsets.map(|n| n.as_u64().unwrap()).collect();
                assert!(offsets.iter().all(|n| *n >= before as u64), "{chunk}");
                // The next piece has those that begin where this one ends.
                let end =
                    text.chars().count() as u64 + u64::from(choice["finish_reason"].is_string());
                assert!(offsets.iter().all(|n| *n < end), "{chunk}");
            }
        }
        for (told, field) in streamed.iter().zip(lists) {
            assert_eq!(told[..], *list(&whole["logprobs"], field), "{path} {field}");
            assert!(!told.is_empty(), "{path}");
        }
    }
}

/// Of several prompts each has its own.
#[test]
fn texts_beside_each_other_keep_theirs() {
    let service = start(|_| {});
    let alone: Vec<Value> = ["Bread is made of", PROMPT]
        .iter()
        .map(|prompt| {
            let body = json!({"prompt": prompt, "max_tokens": 6, "temperature": 0, "logprobs": 1});
            let answer = service.post("/v1/completions", &body).json(200);
            answer["choices"][0]["logprobs"].clone()
        })
        .collect();
    let mut body = json!({"prompt": ["Bread is made of", PROMPT], "max_tokens": 6, "temperature": 0,
        "logprobs": 1});
    let both = service.post("/v1/completions", &body).json(200);
    body["stream"] = json!(true);
    let chunks = service.post("/v1/completions", &body).chunks();
    for (index, alone) in alone.iter().enumerate() {
        assert_eq!(both["choices"][index]["logprobs"], *alone);
        let of = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let tokens: Vec<Value> = chunks
            .iter()
            .filter(of)
            .filter_map(|chunk| chunk["choices"][0]["logprobs"]["tokens"].as_array())
            .flatten()
            .cloned()
            .collect();
        assert_eq!(json!(tokens), alone["tokens"]);
    }
}

/// What is written at least is less than what there is room for, which is asked for first.
#[test]
fn a_least_length_needs_no_greatest_one() {
    let service = start(|_| {});
    let fields = json!({"temperature": 0, "min_tokens": 9});
    let choice = one(&service, "/v1/completions", &fields);
    assert_eq!(choice["finish_reason"], "length");
}
