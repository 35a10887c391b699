//! Texts that are kept to a form, and what else changes which tokens come.

use serde_json::{json, Value};

use crate::support::{engine, start, Service};

/// What is written for a question, with these fields besides.
fn write(service: &Service, fields: Value) -> (String, String) {
    let messages = json!([{"role": "user", "content": "Which is the capital of France?"}]);
    let mut body = json!({"messages": messages, "temperature": 0, "max_tokens": 60});
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    let answer = service.post("/v1/chat/completions", &body).json(200);
    let choice = &answer["choices"][0];
    let text = |value: &Value| value.as_str().unwrap().to_string();
    (
        text(&choice["message"]["content"]),
        text(&choice["finish_reason"]),
    )
}

#[test]
fn a_schema_is_kept() {
    let service = start(|_| {});
    let schema = json!({"type": "object", "properties": {
            "city": {"enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
        "required": ["city", "sure"], "additionalProperties": false});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    for fields in [
        json!({"response_format": format}),
        json!({"response_format": format, "temperature": 1, "seed": 7}),
        json!({"guided_json": schema}),
        json!({"guided_json": schema.to_string()}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        let (text, finish) = write(&service, fields);
        assert_eq!(finish, "stop", "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(
            value["city"] == "Paris" || value["city"] == "Rome",
            "{text}"
        );
        assert!(value["sure"].is_boolean(), "{text}");
        assert_eq!(value.as_object().unwrap().len(), 2, "{text}");
    }
}

#[test]
fn a_stream_keeps_to_its_form() {
    let service = start(|_| {});
    let body = json!({"prompt": "The capital of France is", "max_tokens": 20, "stream": true,
        "guided_choice": ["Rome", "Lisbon"]});
    let chunks = service.post("/v1/completions", &body).chunks();
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str())
        .collect();
    assert!(text == "Rome" || text == "Lisbon", "{text}");
}

#[test]
fn expressions_grammars_and_choices_are_kept() {
    let service = start(|_| {});
    let (text, _) = write(&service, json!({"guided_regex": "[0-9]{4}"}));
    assert!(
        text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()),
        "{text}"
    );
    let grammar = "start: \"yes\" | \"no\"";
    let (text, _) = write(&service, json!({"guided_grammar": grammar}));
    assert!(text == "yes" || text == "no", "{text}");
    let choices = json!(["a \"quoted\" one", "two\nlines"]);
    let (text, finish) = write(&service, json!({"structured_outputs": {"choice": choices}}));
    assert!(choices.as_array().unwrap().contains(&json!(text)), "{text}");
    assert_eq!(finish, "stop");
    let object = write(
        &service,
        json!({"response_format": {"type": "json_object"}, "max_tokens": 200}),
    );
    assert!(object.0.starts_with('{'), "{}", object.0);
    let plain = write(&service, json!({"response_format": {"type": "text"}}));
    assert!(plain.0.contains("Paris"));
}

#[test]
fn tokens_are_made_likelier_and_forbidden() {
    let service = start(|_| {});
    let (_, tokenizer) = engine();
    let ids = tokenizer
        .encode(" Rome", prefix::text::Special::Added)
        .unwrap();
    let rome = *ids.last().unwrap();
    let bias = json!({"logit_bias": {rome.to_string(): 100}, "max_tokens": 3});
    assert_eq!(write(&service, bias).0, "Rome Rome Rome");
    let only = json!({"allowed_token_ids": [rome], "max_tokens": 2});
    assert_eq!(
        write(&service, only),
        ("Rome Rome".to_string(), "length".to_string())
    );
    // What was written is written no more.
    let (often, _) = write(
        &service,
        json!({"logit_bias": {rome.to_string(): 1.5}, "max_tokens": 30,
        "frequency_penalty": 2, "presence_penalty": 2}),
    );
    assert!(often.matches("Rome").count() < 3, "{often}");
    let (short, _) = write(&service, json!({"max_tokens": 60}));
    let (_, finish) = write(&service, json!({"min_tokens": 60}));
    assert_eq!(finish, "length", "{short}");
}
