//! Calls of tools: that they come where they have to, are found where they may, and are told as OpenAI's clients read them.

use prefix_server::tools::format::FORMATS;
use prefix_server::tools::style::Chosen;
use serde_json::{json, Value};

use crate::support::{start, Service};

pub const CHATS: &str = "/v1/chat/completions";

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
pub fn body(fields: Value) -> Value {
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

pub fn named(name: &str) -> Value {
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
        if !matches!(chosen, Chosen::Template) {
            continue;
        }
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

/// A model that would call with other arguments is kept to those of a strict function.
#[test]
fn strict_functions_are_called_as_they_say() {
    let service = start(|config| config.calls = "hermes".parse().unwrap());
    let town = json!({"type": "object", "properties": {"town": {"enum": ["Oslo"]}}, "required": ["town"],
        "additionalProperties": false});
    let tools = |strict: bool| json!([{"type": "function", "function": {"name": "get_weather", "strict": strict, "parameters": town}}]);
    for answer in ["CALL", "I will look it up.\n\nCALL"] {
        for one in [true, false] {
            let mut fields = json!({"messages": shown("What is the weather in Rome?", answer), "tools": tools(true)});
            fields["parallel_tool_calls"] = json!(!one);
            let (message, finish) = ask(&service, fields.clone());
            assert_eq!(
                (names(&message), finish),
                (vec!["get_weather"], json!("tool_calls")),
                "{message}"
            );
            assert_eq!(arguments(&message, 0), json!({"town": "Oslo"}));
            fields["tools"] = tools(false);
            assert_eq!(
                arguments(&ask(&service, fields).0, 0),
                json!({"city": "Rome"})
            );
        }
    }
    let question = json!([{"role": "user", "content": "What is the capital of France?"}]);
    let (message, _) = ask(
        &service,
        json!({"messages": question, "tools": tools(true)}),
    );
    assert!(
        message["content"].as_str().unwrap().contains("Paris"),
        "{message}"
    );
    // What it cannot be kept to is refused; nobody asked for it where it is not strict.
    let other = |strict: bool| json!({"tools": [{"type": "function", "function": {"name": "a", "strict": strict, "parameters": {"not": {}}}}]});
    let error = service.post(CHATS, &body(other(true))).json(400)["error"].clone();
    assert_eq!(error["param"], "tools[0].function.parameters", "{error}");
    ask(&service, other(false));
}

/// With a format of the answer, too, a call may come in its place.
#[test]
fn an_answer_of_a_format_or_a_call() {
    let schema = json!({"type": "object", "properties": {"answer": {"enum": ["sunny"]}}, "required": ["answer"],
        "additionalProperties": false});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    for name in ["hermes", "mistral", "json"] {
        let service = start(|config| config.calls = name.parse().unwrap());
        let place = json!({"type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"]});
        let weather = json!({"name": "get_weather", "strict": true, "parameters": place});
        let mut fields = json!({"response_format": format, "tools": [{"type": "function", "function": weather}]});
        if name == "hermes" {
            fields["messages"] = shown("What is the weather in Rome?", "CALL");
            let (message, finish) = ask(&service, fields.clone());
            assert_eq!(
                (names(&message), finish),
                (vec!["get_weather"], json!("tool_calls")),
                "{message}"
            );
            fields["messages"] = shown("What is the weather in Rome?", "{\"answer\": \"sunny\"}");
        }
        let (message, finish) = ask(&service, fields.clone());
        match message.get("tool_calls") {
            None => {
                let answer: Value =
                    serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
                assert_eq!(
                    (answer, finish),
                    (json!({"answer": "sunny"}), json!("stop"))
                );
            }
            Some(_) => assert!(name != "hermes" && finish == "tool_calls", "{message}"),
        }
        let wrong = json!({"type": "json_schema", "json_schema": {"schema": {"type": "hat"}}});
        let error = service
            .post(CHATS, &body(json!({"response_format": wrong})))
            .json(400)["error"]
            .clone();
        assert_eq!(error["param"], "response_format", "{error}");
    }
}

/// A call, what the tool says to it, and an answer: the next prompt goes on where the last one ended.
#[test]
fn a_conversation_goes_on_after_a_call() {
    let hermes = "hermes".parse().unwrap();
    let service = start(|config| config.calls = hermes);
    let mut messages = shown("What is the weather in Rome?", "CALL");
    let (message, _) = ask(&service, json!({"messages": messages}));
    let id = message["tool_calls"][0]["id"].clone();
    assert!(id.as_str().unwrap().starts_with("call_"), "{id}");
    let turn = messages.as_array_mut().unwrap();
    turn.push(message);
    turn.push(json!({"role": "tool", "tool_call_id": id, "content": "It rains in Rome."}));
    let fields = json!({"messages": messages, "tool_choice": "none", "max_tokens": 20});
    let (message, _) = ask(&service, fields);
    assert!(message.get("tool_calls").is_none(), "{message}");
    assert!(!message["content"].as_str().unwrap().is_empty());
    let fields =
        json!({"messages": messages, "tool_choice": "required", "parallel_tool_calls": false});
    assert_eq!(ask(&service, fields).1, "tool_calls");
}

/// Prompts are shared by requests with every choice.
#[test]
fn the_prompt_is_the_same_for_every_choice() {
    let service = start(|config| config.calls = "hermes".parse().unwrap());
    let mut before = None;
    for (number, choice) in [
        json!(null),
        json!("auto"),
        json!("none"),
        json!("required"),
        named("stop"),
    ]
    .iter()
    .enumerate()
    {
        let fields = json!({"tool_choice": choice, "cache_salt": "choices", "parallel_tool_calls": number % 2 == 0});
        let usage = service.post(CHATS, &body(fields)).json(200)["usage"].clone();
        let tokens = usage["prompt_tokens"].as_u64().unwrap();
        assert_eq!(*before.get_or_insert(tokens), tokens, "{choice}");
        if number > 0 {
            // All but the last token, which is computed for what comes after it.
            let cached = usage["prompt_tokens_details"]["cached_tokens"]
                .as_u64()
                .unwrap();
            assert!(cached + 1 >= tokens, "{choice}: {usage}");
        }
    }
}

#[test]
fn what_comes_is_what_was_asked_for() {
    let service = start(|config| config.calls = "hermes".parse().unwrap());
    // Of several answers each has its own calls; names are given once.
    let mut asked = body(
        json!({"tool_choice": "required", "parallel_tool_calls": false, "n": 3, "temperature": 1.5, "seed": 3}),
    );
    let whole = service.post(CHATS, &asked).json(200);
    asked["stream"] = json!(true);
    let chunks = service.post(CHATS, &asked).chunks();
    let mut ids = std::collections::HashSet::new();
    for index in 0..3 {
        let message = &whole["choices"][index]["message"];
        let (streamed, finish) = gathered(&chunks, index);
        assert_eq!(
            (without_ids(&streamed), finish),
            (without_ids(message), json!("tool_calls"))
        );
        for message in [message, &streamed] {
            assert!(ids.insert(message["tool_calls"][0]["id"].as_str().unwrap().to_string()));
        }
    }
    // Cut: the name is there, and the arguments as far as they were written.
    let fields = json!({"tool_choice": named("get_weather"), "max_tokens": 34});
    let (message, finish) = ask(&service, fields);
    assert_eq!(
        (names(&message), finish),
        (vec!["get_weather"], json!("length")),
        "{message}"
    );
    let text = message["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    // Some of the functions.
    let some = json!({"mode": "required", "tools": [named("get_time"), named("stop")]});
    for seed in 0..4 {
        let fields = json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": some}, "temperature": 1.5, "seed": seed,
            "parallel_tool_calls": false});
        let (message, _) = ask(&service, fields);
        assert!(
            ["get_time", "stop"].contains(&names(&message)[0]),
            "{message}"
        );
    }
    // A text of another form has no calls, even where it looks like one.
    let service = start(|config| config.calls = "json".parse().unwrap());
    let call = "{\"name\": \"stop\", \"arguments\": {}}";
    let (message, finish) = ask(&service, json!({"guided_choice": [call]}));
    assert_eq!(
        (message["content"].as_str(), finish),
        (Some(call), json!("stop"))
    );
    let (message, _) = ask(&service, json!({"tool_choice": named("stop")}));
    assert_eq!(names(&message), ["stop"]);
}

/// Each token of an answer is told once, with the pieces that it came with or the next that was sent.
#[test]
fn tokens_of_calls_are_told() {
    let service = start(|config| config.calls = "hermes".parse().unwrap());
    for fields in [
        json!({"messages": shown("What is the weather in Rome?", "I look.\n\nCALL")}),
        json!({"tool_choice": named("get_weather")}),
    ] {
        let mut asked = body(fields);
        asked["logprobs"] = json!(true);
        let whole = service.post(CHATS, &asked).json(200);
        let choice = &whole["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
        let tokens = choice["logprobs"]["content"].as_array().unwrap();
        let text: String = tokens
            .iter()
            .map(|token| token["token"].as_str().unwrap())
            .collect();
        assert!(
            text.contains("<tool_call>") && text.contains("</tool_call>"),
            "{text}"
        );
        asked["stream"] = json!(true);
        let chunks = service.post(CHATS, &asked).chunks();
        let streamed = chunks.iter().flat_map(|chunk| {
            chunk["choices"][0]["logprobs"]["content"]
                .as_array()
                .into_iter()
                .flatten()
        });
        assert_eq!(streamed.cloned().collect::<Vec<_>>(), *tokens);
    }
}
