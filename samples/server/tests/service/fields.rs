//! Fields of bodies: those that are passed over, those that are refused, and how a wrong one is named.

use serde_json::{json, Value};

use crate::support::start;

/// A good body of each path, with these fields besides.
fn body(path: &str, fields: &Value) -> Value {
    let mut body = match path {
        "/v1/rerank" => json!({"query": "a", "documents": ["b"]}),
        "/rerank" => json!({"query": "a", "texts": ["b"]}),
        "/embed" => json!({"inputs": "a"}),
        "/v1/embeddings" => json!({"input": "a"}),
        "/v1/completions" => json!({"prompt": "a", "max_tokens": 1}),
        _ => json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}),
    };
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn what_changes_nothing_is_passed_over() {
    let service = start(|_| {});
    let (completions, chats) = ("/v1/completions", "/v1/chat/completions");
    for (path, fields) in [
        (
            "/v1/rerank",
            json!({"top_n": null, "return_documents": null, "rank_fields": null, "cache_salt": null}),
        ),
        (
            "/rerank",
            json!({"raw_scores": null, "return_text": null, "truncate": null, "truncation_direction": null}),
        ),
        (
            "/v1/embeddings",
            json!({"encoding_format": null, "dimensions": null, "truncate_prompt_tokens": null}),
        ),
        (
            completions,
            json!({"stream": null, "echo": null, "suffix": null, "stop": null, "logprobs": null,
                "add_special_tokens": true, "skip_special_tokens": true, "include_stop_str_in_output": false}),
        ),
        (completions, json!({"top_p": 0, "seed": i64::MAX})),
        (completions, json!({"seed": i64::MIN})),
        (
            chats,
            json!({"stream": null, "stream_options": null, "tools": null, "modalities": ["text"],
                "parallel_tool_calls": false, "tool_choice": "auto", "spaces_between_special_tokens": true, "add_special_tokens": false}),
        ),
    ] {
        let answer = service.post(path, &body(path, &fields));
        assert_eq!(answer.code, 200, "{path} {fields}: {}", answer.body);
    }
    let fields = json!({"stream": true, "stream_options": {"include_usage": null}});
    let chunks = service.post(completions, &body(completions, &fields));
    let without = |chunk: &Value| chunk.get("usage").is_none();
    assert!(chunks.chunks().iter().all(without));
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    let service = start(|_| {});
    let (completions, chats) = ("/v1/completions", "/v1/chat/completions");
    for (path, field, value) in [
        (completions, "add_special_tokens", json!(false)),
        (completions, "include_stop_str_in_output", json!(true)),
        (completions, "skip_special_tokens", json!(false)),
        (completions, "spaces_between_special_tokens", json!(false)),
        (completions, "suffix", json!("b")),
        (completions, "echo", json!(true)),
        (completions, "stop_token_ids", json!([2])),
        (completions, "response_format", json!({"type": "xml"})),
        (completions, "logit_bias", json!({"1": 200})),
        (completions, "logit_bias", json!({"a": 2})),
        (completions, "logit_bias", json!({"1:5,7": 3})),
        (
            chats,
            "guided_json",
            json!({"const": -9_223_372_036_854_775_807_i64}),
        ),
        (chats, "guided_regex", json!("(")),
        (
            chats,
            "response_format",
            json!({"type": "json_schema", "json_schema": {"schema": {"type": "hat"}}}),
        ),
        (chats, "include_stop_str_in_output", json!(true)),
        (chats, "skip_special_tokens", json!(false)),
        (chats, "parallel_tool_calls", json!(1)),
        (chats, "tool_choice", json!("any")),
        (chats, "tool_choice", json!("required")),
        (completions, "tools", json!([{"type": "function"}])),
        (chats, "modalities", json!(["text", "audio"])),
        (chats, "web_search_options", json!({})),
        (chats, "verbosity", json!("low")),
        (chats, "json_schema", json!({"type": "object"})),
        (completions, "grammar", json!("root ::= \"a\"")),
        (completions, "return_token_ids", json!(true)),
        (chats, "messages", json!([{"content": "a"}])),
        (chats, "tools", json!({"a": 1})),
        (chats, "tools", json!(["a"])),
        (chats, "documents", json!("a")),
        (chats, "continue_final_message", json!("a")),
        (chats, "add_generation_prompt", json!(1)),
        (chats, "logprobs", json!(2)),
        (chats, "top_logprobs", json!(2)),
        (chats, "prompt_logprobs", json!(1)),
        (completions, "prompt_logprobs", json!(0)),
        (completions, "logprobs", json!(true)),
        (completions, "logprobs", json!(-1)),
        (completions, "top_logprobs", json!(2)),
        (completions, "logit_bias", json!({"49152": 2})),
        (completions, "allowed_token_ids", json!([49152])),
        (completions, "allowed_token_ids", json!([5, 5])),
        (completions, "min_tokens", json!(17)),
        ("/v1/embeddings", "truncate_prompt_tokens", json!(5)),
        ("/v1/embeddings", "normalize", json!(false)),
    ] {
        let answer = service.post(path, &body(path, &json!({field: value})));
        let error = answer.json(400)["error"].clone();
        assert_eq!(error["param"], field, "{path} {value}: {error}");
        assert!(error["message"].as_str().unwrap().contains(field));
    }
    let fields = json!({"rank_fields": ["text"]});
    let answer = service.post("/v1/rerank", &body("/v1/rerank", &fields));
    assert_eq!(answer.json(400)["message"], "rank_fields: is not served");
}

#[test]
fn a_wrong_type_is_named() {
    let service = start(|_| {});
    for (path, field, value, why) in [
        (
            "/v1/completions",
            "max_tokens",
            json!("5"),
            "string \"5\", expected a whole number from 0 to 18446744073709551615",
        ),
        (
            "/v1/completions",
            "stream",
            json!(1),
            "integer `1`, expected a boolean",
        ),
        (
            "/v1/chat/completions",
            "temperature",
            json!([]),
            "sequence, expected a number",
        ),
        (
            "/v1/chat/completions",
            "stop",
            json!(5),
            "stop is a text or a list of texts",
        ),
        (
            "/v1/chat/completions",
            "messages",
            json!("a"),
            "expected a sequence",
        ),
        (
            "/v1/chat/completions",
            "chat_template_kwargs",
            json!([]),
            "is not an object",
        ),
        (
            "/v1/embeddings",
            "cache_salt",
            json!(5),
            "expected a string",
        ),
    ] {
        let answer = service.post(path, &body(path, &json!({field: value})));
        let error = answer.json(400)["error"].clone();
        assert_eq!(error["param"], field, "{path} {value}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
        assert!(message.contains(why), "{message}");
    }
    let fields = json!({"truncate": "no"});
    let said = service.post("/embed", &body("/embed", &fields)).json(422);
    let message = said["error"].as_str().unwrap();
    assert!(message.starts_with("truncate: "), "{message}");
    let said = service.post("/v1/chat/completions", &json!({})).json(400);
    assert_eq!(said["error"]["param"], "messages");
    assert_eq!(said["error"]["message"], "messages: is missing");
}

#[test]
fn an_empty_stop_text_is_refused() {
    let service = start(|_| {});
    for (path, stop, at) in [
        ("/v1/completions", json!(""), ""),
        ("/v1/completions", json!(["a", ""]), "[1] "),
        ("/v1/chat/completions", json!([""]), "[0] "),
    ] {
        let said = service
            .post(path, &body(path, &json!({"stop": stop})))
            .json(400);
        assert_eq!(said["error"]["param"], "stop");
        let message = format!("stop: {at}is empty; a stop text has at least 1 byte");
        assert_eq!(said["error"]["message"], message);
    }
}

#[test]
fn a_part_without_its_text_is_said_to_be_one() {
    let service = start(|_| {});
    let part = json!([{"type": "text", "text": null}]);
    let body = json!({"messages": [{"role": "user", "content": part}]});
    let said = service.post("/v1/chat/completions", &body).json(400);
    assert_eq!(
        said["error"]["message"],
        "messages: have a part of type \"text\" without a text"
    );
}

#[test]
fn a_prompt_that_the_recipe_does_not_have_is_the_callers_fault() {
    let service = start(|_| {});
    let fields = json!({"prompt_name": "nowhere"});
    let said = service.post("/embed", &body("/embed", &fields)).json(422);
    assert_eq!(said["error_type"], "Validation");
    assert!(said["error"].as_str().unwrap().contains("nowhere"));
}

#[test]
fn a_name_may_have_a_slash() {
    let service = start(|config| config.name = "org/model".into());
    for path in ["/v1/models/org/model", "/v1/models/org%2Fmodel"] {
        assert_eq!(service.get(path).json(200)["id"], "org/model");
    }
    let said = service.get("/v1/models/org/other").json(404);
    assert_eq!(said["error"]["param"], "model");
    assert_eq!(said["error"]["code"], "model_not_found");
    let said = service.get("/v1/models/%ff").json(404);
    assert_eq!(said["error"]["code"], "not_found");
}
