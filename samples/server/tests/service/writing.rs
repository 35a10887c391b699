//! Completions and chats: whole, in pieces, and as the library writes them.

use prefix::Options;
use serde_json::{json, Value};

use crate::support::{all, engine, start};

fn joined(chunks: &[Value], of: impl Fn(&Value) -> &Value) -> String {
    chunks
        .iter()
        .filter_map(|chunk| of(&chunk["choices"][0]).as_str())
        .collect()
}

/// Whole or in pieces, and as the library writes it.
#[test]
fn it_completes() {
    let (engine, tokenizer) = engine();
    let options = Options::new().unwrap().set("max_tokens", 12).unwrap();
    let prompt = "Bread is made of";
    let bare = all(prefix::generate(engine, tokenizer, &[prompt], Some(&options)).unwrap());
    let options = options.set("recipe", "completion-markup").unwrap();
    let want = all(prefix::generate(engine, tokenizer, &[prompt], Some(&options)).unwrap());
    // What is to go behind a prompt, such as code, begins with its white space.
    assert_ne!(want, bare);
    assert_eq!(want[0].trim(), bare[0]);
    let service = start(|_| {});
    let mut body = json!({"model": "small", "prompt": prompt, "max_tokens": 12, "temperature": 0});
    let whole = service.post("/v1/completions", &body).json(200);
    assert_eq!(whole["choices"][0]["text"], want[0].as_str());
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["completion_tokens"], 12);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let streamed = service.post("/v1/completions", &body);
    let gathered = !streamed.headers.contains("\r\nx-accel-buffering: no\r\n");
    assert!(!gathered, "{}", streamed.headers);
    let chunks = streamed.chunks();
    assert_eq!(joined(&chunks, |choice| &choice["text"]), want[0]);
    let [.., end, usage] = &chunks[..] else {
        panic!("{chunks:?}")
    };
    assert_eq!(end["choices"][0]["finish_reason"], "length");
    assert_eq!(usage["usage"]["completion_tokens"], 12);
    assert_eq!(usage["choices"], json!([]));
    // In the others it is there, and null.
    assert_eq!(chunks[0].get("usage"), Some(&Value::Null));
    assert_eq!(end.get("usage"), Some(&Value::Null));

    // Of several prompts each has its index.
    let body =
        json!({"prompt": [prompt, "The moon"], "max_tokens": 4, "temperature": 0, "stream": true});
    let chunks = service.post("/v1/completions", &body).chunks();
    for index in 0..2 {
        let of = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let ends: Vec<_> = chunks
            .iter()
            .filter(of)
            .map(|c| &c["choices"][0]["finish_reason"])
            .collect();
        assert_eq!(ends.iter().filter(|reason| reason.is_string()).count(), 1);
        assert!(ends.len() > 1 && ends.last().unwrap().is_string());
    }
    // The markup of a chat in a prompt is markup, as the template writes it.
    let chat = "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n";
    let body = json!({"prompt": chat, "max_tokens": 1});
    let usage = &service.post("/v1/completions", &body).json(200)["usage"];
    let tokens = tokenizer
        .encode(chat, prefix::text::Special::Added)
        .unwrap();
    assert_eq!(usage["prompt_tokens"], tokens.len());
    let first = whole["choices"][0]["text"].as_str().unwrap();
    let word = first.split_whitespace().nth(1).unwrap();
    let body = json!({"prompt": prompt, "max_tokens": 12, "temperature": 0, "stop": word});
    let stopped = service.post("/v1/completions", &body).json(200);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        stopped["choices"][0]["text"],
        first[..first.find(word).unwrap()]
    );
}

#[test]
fn it_chats() {
    let service = start(|config| config.chat_tokens = 8);
    let messages = json!([{"role": "user", "content": "What is the capital of France?"}]);
    let mut body = json!({"model": "small", "messages": messages, "temperature": 0});
    let whole = service.post("/v1/chat/completions", &body).json(200);
    let message = whole["choices"][0]["message"].clone();
    assert_eq!(message.get("refusal"), Some(&Value::Null));
    let text = message["content"].as_str().unwrap();
    assert!(text.contains("Paris"), "{text}");
    body["stream"] = json!(true);
    let chunks = service.post("/v1/chat/completions", &body).chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    assert_eq!(joined(&chunks, |choice| &choice["delta"]["content"]), text);
    // Of a text without a piece the end says whose turn it is.
    let first = chunks[0]["choices"][0]["delta"]["content"].clone();
    let mut stopped = body.clone();
    stopped["stop"] = first;
    let chunks = service.post("/v1/chat/completions", &stopped).chunks();
    let nothing = json!({"index": 0, "logprobs": null, "finish_reason": "stop",
        "delta": {"role": "assistant", "content": ""}});
    assert_eq!(chunks[0]["choices"], json!([nothing]));
    let parts = json!([{"type": "text", "text": "What is the capital of France?"}]);
    let body = json!({"messages": [{"role": "user", "content": parts}], "temperature": 0});
    let same = service.post("/v1/chat/completions", &body).json(200);
    assert_eq!(same["choices"], whole["choices"]);
    // The second time its prompt is there.
    let again = service.post(
        "/v1/chat/completions",
        &json!({"messages": messages, "max_tokens": 1}),
    );
    let cached = again.json(200)["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert!(cached.unwrap() > 20, "{cached:?}");
}

/// What vLLM's clients tell the template besides messages reaches it.
#[test]
fn a_chat_is_left_open_or_goes_on() {
    let service = start(|config| config.chat_tokens = 4);
    let ask = |more: Value| {
        let mut body = json!({"temperature": 0, "messages": [
            {"role": "user", "content": "What is the capital of France?"},
            {"role": "assistant", "content": "The capital of France is"},
        ]});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = service.post("/v1/chat/completions", &body).json(200);
        let text = answer["choices"][0]["message"]["content"].clone();
        let tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
        (text.as_str().unwrap().to_string(), tokens)
    };
    let (_, plain) = ask(json!({}));
    let nothing =
        json!({"documents": null, "add_generation_prompt": null, "continue_final_message": null});
    assert_eq!(ask(nothing).1, plain);
    let (_, closed) = ask(json!({"add_generation_prompt": false}));
    assert!(closed < plain, "{closed} {plain}");
    let (text, open) = ask(json!({"continue_final_message": true, "add_generation_prompt": false}));
    assert!(open < closed, "{open} {closed}");
    assert!(text.starts_with("Paris"), "{text}");
    assert_eq!(ask(json!({"documents": [{"text": "Bread."}]})).1, plain); // this template reads none
}
