//! Thoughts in front of answers.

use serde_json::{json, Value};

use crate::support::{start, Service};

const CHATS: &str = "/v1/chat/completions";

/// A chat whose prompt ends with this beginning of an answer.
fn body(begun: &str, more: Value) -> Value {
    let mut body = json!({
        "messages": [
            {"role": "user", "content": "Where is Paris?"},
            {"role": "assistant", "content": begun},
        ],
        "add_generation_prompt": false, "continue_final_message": true,
        "temperature": 0, "max_tokens": 12,
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn message(service: &Service, body: &Value) -> Value {
    service.post(CHATS, body).json(200)["choices"][0]["message"].clone()
}

/// One that the small model goes on with as it did before.
fn copied() -> Value {
    let turn = |said: &str| {
        [
            json!({"role": "user", "content": format!("Say: {said}")}),
            json!({"role": "assistant", "content": said}),
        ]
    };
    let mut messages = Vec::new();
    for said in ["<think>red</think> blue", "<think>up</think> down"] {
        messages.extend(turn(said));
    }
    messages.push(turn("<think>one</think> two")[0].clone());
    json!({"messages": messages, "temperature": 0, "max_tokens": 24})
}

#[test]
fn a_thought_is_told_apart_from_the_answer() {
    let service = start(|_| {});
    let expected =
        json!({"role": "assistant", "content": "two", "reasoning_content": "one", "refusal": null});
    assert_eq!(message(&service, &copied()), expected);
    let mut body = copied();
    body["stream"] = json!(true);
    body["logprobs"] = json!(true);
    let (mut deltas, mut tokens) = (Vec::new(), 0);
    for chunk in service.post(CHATS, &body).chunks() {
        let choice = &chunk["choices"][0];
        let list = choice["logprobs"]["content"].as_array();
        tokens += list.map_or(0, Vec::len);
        deltas.push(choice["delta"].clone());
    }
    assert_eq!(deltas[0]["role"], "assistant");
    let all = |name: &str| {
        let parts = deltas.iter().filter_map(|delta| delta[name].as_str());
        parts.collect::<String>()
    };
    assert_eq!(
        (all("reasoning_content"), all("content")),
        ("one".into(), "two".into())
    );
    // Those of markers come with the part behind them.
    body["stream"] = json!(false);
    let whole = service.post(CHATS, &body).json(200);
    let choice = &whole["choices"][0];
    assert_eq!(
        choice["logprobs"]["content"].as_array().unwrap().len(),
        tokens
    );
    assert_eq!(choice["message"], expected);
    // Where nobody wants that.
    let service = start(|config| config.thoughts = false);
    let answer = message(&service, &copied());
    assert_eq!(answer["content"], "<think>one</think> two");
    assert_eq!(answer.get("reasoning_content"), None);
}

#[test]
fn a_prompt_may_open_one() {
    let service = start(|_| {});
    let apart = message(&service, &body("<think>", json!({"n": 2})));
    assert_eq!(apart["content"], "");
    let plain = start(|config| config.thoughts = false);
    let text = message(&plain, &body("<think>", json!({})))["content"].clone();
    assert_eq!(apart["reasoning_content"], text.as_str().unwrap().trim());
    let line = message(&service, &body("<think>\n", json!({})));
    assert!(
        line["content"] == "" && line["reasoning_content"].is_string(),
        "{line}"
    );
    let other = message(&service, &body("Paris", json!({})));
    assert_eq!(other.get("reasoning_content"), None);
    // What is kept to a form is an answer, and so are completions.
    let kept = json!({"response_format": {"type": "json_object"}, "max_tokens": 60});
    let kept = message(&service, &body("<think>", kept));
    assert!(
        kept["content"].as_str().unwrap().trim().starts_with('{'),
        "{kept}"
    );
    assert_eq!(kept.get("reasoning_content"), None);
    let completion = json!({"prompt": "Paris <think>", "max_tokens": 3});
    let text = &service.post("/v1/completions", &completion).json(200)["choices"][0]["text"];
    assert!(!text.as_str().unwrap().is_empty());
}
