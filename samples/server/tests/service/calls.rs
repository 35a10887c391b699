//! Calls of tools: that they come where they have to, are found where they may, and are told as OpenAI's clients read them.

use prefix_server::openai::tools::format::{Chosen, FORMATS};
use serde_json::{json, Value};

use crate::support::{start, Service};

const CHATS: &str = "/v1/chat/completions";

fn tools() -> Value {
    let place = json!({"type": "object", "properties": {"city": {"enum": ["Rome", "Paris", "Lisbon"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city"]});
    json!([
        {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": place}},
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}},
        {"type": "function", "function": {"name": "stop"}},
    ])
}

/// A question with tools, and these fields besides.
fn body(fields: Value) -> Value {
    let mut body = json!({"temperature": 0, "max_tokens": 120, "tools": tools(),
        "messages": [{"role": "user", "content": "What is the weather in Rome?"}]});
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    body
}

/// The message and the finish of an answer, and the same of its stream.
fn ask(service: &Service, fields: Value) -> (Value, Value) {
    let mut body = body(fields);
    let whole = service.post(CHATS, &body).json(200);
    let choice = &whole["choices"][0];
    body["stream"] = json!(true);
    let (streamed, finish) = gathered(&service.post(CHATS, &body).chunks(), 0);
    assert_eq!(without_ids(&streamed), without_ids(&choice["message"]));
    assert_eq!(finish, choice["finish_reason"]);
    (choice["message"].clone(), finish)
}

/// A message as clients put it together of its pieces.
fn gathered(chunks: &[Value], index: usize) -> (Value, Value) {
    let (mut text, mut calls) = (String::new(), Vec::<Value>::new());
    let mut finish = Value::Null;
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().unwrap());
    for (number, choice) in choices
        .filter(|choice| choice["index"] == index)
        .enumerate()
    {
        assert!(finish.is_null(), "{choice}");
        let delta = &choice["delta"];
        assert_eq!(delta.get("role").is_some(), number == 0, "{choice}");
        text += delta["content"].as_str().unwrap_or_default();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = call["index"].as_u64().unwrap() as usize;
            let function = &call["function"];
            if at == calls.len() {
                assert_eq!(
                    (&call["type"], &function["arguments"]),
                    (&json!("function"), &json!(""))
                );
                let mut call = call.clone();
                call.as_object_mut().unwrap().remove("index");
                calls.push(call);
            } else {
                assert!(
                    at + 1 == calls.len() && call.get("id").is_none(),
                    "{choice}"
                );
                assert!(function.get("name").is_none(), "{choice}");
                let so_far = calls[at]["function"]["arguments"]
                    .as_str()
                    .unwrap()
                    .to_string();
                let more = function["arguments"].as_str().unwrap();
                calls[at]["function"]["arguments"] = json!(so_far + more);
            }
        }
        finish = choice["finish_reason"].clone();
    }
    let content = match text.is_empty() && !calls.is_empty() {
        true => Value::Null,
        false => json!(text),
    };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    (message, finish)
}

fn without_ids(message: &Value) -> Value {
    let mut message = message.clone();
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        assert!(call["id"].as_str().unwrap().len() >= 9, "{call}");
        call["id"] = json!("id");
    }
    message
}

fn names(message: &Value) -> Vec<&str> {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    calls
        .map(|call| call["function"]["name"].as_str().unwrap())
        .collect()
}

fn arguments(message: &Value, number: usize) -> Value {
    let text = &message["tool_calls"][number]["function"]["arguments"];
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

fn named(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

/// Of a model whose template knows nothing of tools, too, in each format.
#[test]
fn a_call_comes_where_it_has_to() {
    let formats = FORMATS.iter().map(Chosen::Format);
    for chosen in formats.chain([Chosen::Template, Chosen::None]) {
        let service = start(|config| config.calls = chosen);
        let fields = json!({"tool_choice": "required", "temperature": 1.5, "seed": 7,
            "parallel_tool_calls": false});
        let (message, finish) = ask(&service, fields);
        assert_eq!(finish, "tool_calls", "{message}");
        assert_eq!(message["content"], Value::Null, "{message}");
        assert_eq!(names(&message).len(), 1, "{message}");
        assert!(arguments(&message, 0).is_object());
        let (message, finish) = ask(&service, json!({"tool_choice": named("get_weather")}));
        assert_eq!(
            (names(&message), finish),
            (vec!["get_weather"], json!("tool_calls"))
        );
        let given = arguments(&message, 0);
        assert!(["Rome", "Paris", "Lisbon"].contains(&given["city"].as_str().unwrap()));
        let (message, _) = ask(&service, json!({"tool_choice": named("stop")}));
        assert_eq!(arguments(&message, 0), json!({}));
    }
}

/// An earlier turn that shows how it is done, as a model of so few parameters needs.
fn shown(question: &str, answer: &str) -> Value {
    let call = |city: &str| {
        format!(
            "<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"{city}\"}}}}\n</tool_call>"
        )
    };
    let turn = |city: &str| {
        let question = format!("What is the weather in {city}?");
        [
            json!({"role": "user", "content": question}),
            json!({"role": "assistant", "content": answer.replace("CALL", &call(city))}),
        ]
    };
    let mut messages = turn("Lisbon").to_vec();
    messages.extend(turn("Paris"));
    messages.push(json!({"role": "user", "content": question}));
    json!(messages)
}

#[test]
fn a_call_is_found_where_it_may_come() {
    let hermes = "hermes".parse().unwrap();
    let service = start(|config| config.calls = hermes);
    let question = "What is the weather in Rome?";
    for (answer, content) in [
        ("CALL", json!(null)),
        ("I will look it up.\n\nCALL", json!("I will look it up.")),
    ] {
        let fields = json!({"messages": shown(question, answer)});
        let (message, finish) = ask(&service, fields.clone());
        assert_eq!(
            (names(&message), finish),
            (vec!["get_weather"], json!("tool_calls")),
            "{message}"
        );
        assert_eq!(arguments(&message, 0), json!({"city": "Rome"}));
        assert_eq!(message["content"], content);
    }
    // Not looked for: the same text.
    let text = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";
    for fields in [
        json!({"tool_choice": "none"}),
        json!({"tools": null}),
        json!({"tools": []}),
        json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("stop")]}}}),
    ] {
        let mut fields = fields;
        fields["messages"] = shown(question, "CALL");
        let (message, finish) = ask(&service, fields);
        assert_eq!(
            (message["content"].as_str(), finish),
            (Some(text), json!("stop"))
        );
    }
    let fields = json!({"messages": shown(question, "CALL"), "max_tokens": 12});
    let (message, finish) = ask(&service, fields);
    assert_eq!((names(&message), finish), (vec![], json!("length")));
    assert!(
        text.starts_with(message["content"].as_str().unwrap()),
        "{message}"
    );
    assert!(message["content"].as_str().unwrap().len() > 20, "{message}");
}
