//! Every path, and what goes wrong.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use prefix::Options;
use prefix_server::app::App;
use prefix_server::config::Config;
use serde_json::{json, Value};

use crate::support::{engine, open, start, start_with, Service};

const QUERY: &str = "How is bread made?";
const DOCUMENTS: [&str; 3] = [
    "Paris is the capital of France.",
    "Bread is baked from flour.",
    "A tree has leaves.",
];

fn floats(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap() as f32)
        .collect()
}

fn all<T>(items: Vec<prefix::Result<T>>) -> Vec<T> {
    items.into_iter().map(Result::unwrap).collect()
}

#[test]
fn it_says_what_it_is() {
    let service = start(|_| {});
    assert_eq!(service.get("/health").json(200), json!({"status": "ok"}));
    let models = service.get("/v1/models").json(200);
    assert_eq!(models["data"][0]["id"], "small");
    assert_eq!(service.get("/v1/models/small").json(200)["object"], "model");
    assert_eq!(service.get("/info").json(200)["model_id"], "small");
    assert_eq!(service.get("/v1/models/large").code, 404);
    assert_eq!(
        service.get("/nowhere").json(404)["error"]["code"],
        "not_found"
    );
    let other = service.get("/v1/rerank");
    assert_eq!(other.code, 405);
    assert!(other.headers.contains("allow: post"), "{}", other.headers);
    for path in ["/health", "/info", "/v1/models"] {
        let other = service.post(path, &json!({}));
        assert_eq!(other.code, 405);
        let allow = "\r\nallow: get,head\r\n";
        assert!(other.headers.contains(allow), "{}", other.headers);
    }
    assert_eq!(service.metric("prefix_server_in_flight"), 0.0);
    assert!(service
        .get("/metrics")
        .body
        .contains("num_requests_running{"));
}

/// Scores are those of the library, to the bit, in the order of both APIs.
#[test]
fn it_ranks() {
    let (engine, tokenizer) = engine();
    let want = prefix::rerank(engine, tokenizer, QUERY, &DOCUMENTS, None)
        .unwrap()
        .ranked;
    let service = start(|_| {});
    let body =
        json!({"query": QUERY, "documents": DOCUMENTS, "top_n": 2, "return_documents": true});
    for path in ["/v1/rerank", "/v2/rerank"] {
        let answer = service.post(path, &body).json(200);
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        for (result, want) in results.iter().zip(&want) {
            assert_eq!(result["index"], want.index);
            assert_eq!(
                result["relevance_score"].as_f64().unwrap() as f32,
                want.score.exp()
            );
            assert_eq!(result["document"]["text"], DOCUMENTS[want.index]);
        }
        assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 30);
    }
    let objects: Vec<Value> = DOCUMENTS.iter().map(|text| json!({"text": text})).collect();
    let answer = service.post("/v2/rerank", &json!({"query": QUERY, "documents": objects}));
    assert_eq!(answer.json(200)["results"].as_array().unwrap().len(), 3);
    let body = json!({"query": QUERY, "texts": DOCUMENTS, "raw_scores": true, "return_text": true});
    let answer = service.post("/rerank", &body).json(200);
    let raw = Options::new().unwrap().set("raw", true).unwrap();
    let want = prefix::rerank(engine, tokenizer, QUERY, &DOCUMENTS, Some(&raw))
        .unwrap()
        .ranked;
    for (result, want) in answer.as_array().unwrap().iter().zip(&want) {
        assert_eq!(result["index"], want.index);
        assert_eq!(result["score"].as_f64().unwrap() as f32, want.score);
        assert_eq!(result["text"], DOCUMENTS[want.index]);
    }
}

#[test]
fn it_embeds() {
    let (engine, tokenizer) = engine();
    let want = all(prefix::embed(engine, tokenizer, &DOCUMENTS, None).unwrap());
    let service = start(|_| {});
    let answer = service
        .post("/embed", &json!({"inputs": DOCUMENTS}))
        .json(200);
    assert_eq!(
        answer
            .as_array()
            .unwrap()
            .iter()
            .map(floats)
            .collect::<Vec<_>>(),
        want
    );
    let answer = service.post(
        "/v1/embeddings",
        &json!({"model": "small", "input": DOCUMENTS}),
    );
    let answer = answer.json(200);
    for (i, want) in want.iter().enumerate() {
        assert_eq!(answer["data"][i]["index"], i);
        assert_eq!(&floats(&answer["data"][i]["embedding"]), want);
    }
    let body = json!({"input": DOCUMENTS[1], "encoding_format": "base64"});
    let answer = service.post("/v1/embeddings", &body).json(200);
    let bytes = STANDARD
        .decode(answer["data"][0]["embedding"].as_str().unwrap())
        .unwrap();
    let values = bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    assert_eq!(values.collect::<Vec<_>>(), want[1]);
    let body = json!({"input": [1, 2, 3], "dimensions": 5});
    let answer = service.post("/v1/embeddings", &body).json(200);
    assert_eq!(floats(&answer["data"][0]["embedding"]).len(), 5);
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
}

#[test]
fn it_classifies() {
    let service = start(|config| config.labels = vec!["food".into(), "city".into()]);
    let answer = service.post(
        "/predict",
        &json!({"inputs": [["Bread is baked."], ["Rome."]]}),
    );
    let answer = answer.json(200);
    assert_eq!(answer.as_array().unwrap().len(), 2);
    let scores: f64 = (0..2)
        .map(|i| answer[0][i]["score"].as_f64().unwrap())
        .sum();
    assert!((scores - 1.0).abs() < 1e-5, "{answer}");
    let without = start(|_| {}).post("/predict", &json!({"inputs": "Bread"}));
    assert_eq!(without.code, 424, "{}", without.body);
}

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
    let chunks = service.post("/v1/completions", &body).chunks();
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

#[test]
fn a_recipe_that_does_not_fit_is_said_at_the_start() {
    let start = |rerank: Option<&str>, embed: Option<&str>| {
        let (engine, tokenizer) = engine().clone();
        let mut config = Config::new("model");
        config.rerank_recipe = rerank.map(str::to_string);
        config.embed_recipe = embed.map(str::to_string);
        App::new(engine, tokenizer, config)
            .err()
            .map(|why| why.message)
    };
    assert_eq!(start(Some("query-likelihood"), Some("last-token")), None);
    for (why, parts) in [
        (
            start(Some("nowhere"), None),
            ["--rerank-recipe nowhere: ", "query-likelihood"],
        ),
        (
            start(Some("last-token"), None),
            ["--rerank-recipe last-token: ", "embed"],
        ),
        (
            start(None, Some("./no.json")),
            ["--embed-recipe ./no.json: ", "No such file"],
        ),
        (
            start(Some("qwen3-reranker"), None),
            ["--rerank-recipe qwen3-reranker: ", "<think>"],
        ),
    ] {
        let why = why.unwrap();
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
}

/// Each with its code, in the words of its API, and the service goes on.
#[test]
fn what_is_wrong_is_named() {
    let service = start(|config| {
        config.max_items = 4;
        config.body.bytes = 60_000;
    });
    let five = ["a"; 5];
    let long = "word ".repeat(9000);
    for (path, body, code, word) in [
        ("/v1/rerank", json!({"query": "q"}), 400, "documents"),
        (
            "/v1/completions",
            json!({"prompt": "a", "guided_choice": ["b", "c"]}),
            400,
            "guided_choice",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "logprobs": 0}),
            400,
            "logprobs",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            400,
            "image_url",
        ),
        (
            "/v1/rerank",
            json!({"query": "", "documents": ["a"]}),
            400,
            "query",
        ),
        (
            "/v1/rerank",
            json!({"query": "q", "documents": []}),
            400,
            "documents: is empty",
        ),
        (
            "/v1/rerank",
            json!({"query": "q", "documents": five}),
            413,
            "limit is 4",
        ),
        (
            "/v1/rerank",
            json!({"query": "q", "documents": [1]}),
            400,
            "a text",
        ),
        (
            "/v1/rerank",
            json!({"query": "q", "documents": ["a"], "top_n": 0}),
            400,
            "top_n",
        ),
        (
            "/rerank",
            json!({"query": "q", "texts": []}),
            422,
            "texts: is empty",
        ),
        (
            "/v1/rerank",
            json!(["q", ["a"], null, null, null, false, null]),
            400,
            "the body is a list",
        ),
        ("/v1/rerank", json!("q"), 400, "not a JSON object"),
        (
            "/v2/rerank",
            json!({"query": "q", "documents": ["a"], "model": "large"}),
            404,
            "only \"small\"",
        ),
        ("/embed", json!({"inputs": long}), 413, "tokens"),
        ("/embed", json!({"inputs": {}}), 422, "input"),
        (
            "/v1/embeddings",
            json!({"input": "a", "dimensions": 0}),
            400,
            "dimensions",
        ),
        (
            "/v1/embeddings",
            json!({"input": "a", "dimensions": 100_000}),
            400,
            "dimensions",
        ),
        ("/v1/embeddings", json!({"input": [-1]}), 400, "-1"),
        (
            "/v1/embeddings",
            json!({"input": "a", "model": "large"}),
            404,
            "large",
        ),
        (
            "/v1/completions",
            json!({"prompt": [1, 2]}),
            400,
            "token ids",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "n": 2}),
            400,
            "n: is 2",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "max_tokens": 0}),
            400,
            "max_tokens",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "temperature": -1}),
            400,
            "temperature",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "logprobs": 3}),
            400,
            "logprobs",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "max_completion_tokens": 0, "max_tokens": 5}),
            400,
            "max_completion_tokens: is 0",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "response_format": "json"}),
            400,
            "expected an object",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "stream_options": 1}),
            400,
            "expected an object",
        ),
        ("/predict", json!({"inputs": []}), 422, "is empty"),
        ("/v1/completions", json!({"prompt": long}), 400, "tokens"),
        (
            "/v1/completions",
            json!({"prompt": long, "stream": true}),
            400,
            "tokens",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": []}),
            400,
            "messages",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": 1}]}),
            400,
            "role",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}], "documents": 1}),
            400,
            "documents",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}],
                "add_generation_prompt": true, "continue_final_message": true}),
            400,
            "exclude each other",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{}], "chat_template": "{{ messages }}"}),
            400,
            "chat_template",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{}], "echo": true}),
            400,
            "echo",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{}], "add_special_tokens": true}),
            400,
            "add_special_tokens",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{}], "response_format": {"type": "json_object"}}),
            400,
            "response_format",
        ),
        (
            "/v1/embeddings",
            json!({"input": "a".repeat(61_000)}),
            413,
            "60000 bytes",
        ),
    ] {
        let answer = service.post(path, &body);
        let said = answer.json(code);
        let message = match path {
            "/v1/rerank" | "/v2/rerank" => &said["message"],
            "/embed" | "/rerank" | "/predict" => &said["error"],
            _ => &said["error"]["message"],
        };
        assert!(
            message.as_str().unwrap().contains(word),
            "{path} {body}: {said}"
        );
    }
    for body in [
        "",
        "{",
        "nonsense",
        "[]",
        "\u{1f9c0}",
        "{\"prompt\": \"\\ud800\"}",
    ] {
        let answer = service.open("POST", "/v1/completions", &[], body).answer();
        assert_eq!(answer.code, 400, "{body}: {}", answer.body);
    }
    // What editors of Windows put in front of a text is not wrong.
    let marked = "\u{feff}{\"prompt\": \"a\", \"max_tokens\": 1}";
    let answer = service.open("POST", "/v1/completions", &[], marked);
    answer.answer().json(200);
    assert_eq!(service.metric("prefix_server_in_flight"), 0.0);
    assert_eq!(service.get("/health").code, 200);
}

#[test]
fn keys_open_the_door_and_share_nothing() {
    let service = start(|config| {
        config.keys = Some(["one", "two"].map(str::to_string).into());
    });
    let body = json!({"prompt": "A long prompt that only two tenants have, each for itself.", "max_tokens": 1});
    let ask = |key: &str, body: &Value| {
        service.post_with("/v1/completions", &[("authorization", key)], body)
    };
    assert_eq!(service.post("/v1/completions", &body).code, 401);
    assert_eq!(ask("Bearer three", &body).code, 401);
    let cached = |key, body: &Value| {
        let answer = ask(key, body).json(200);
        answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(cached("Bearer one", &body), 0);
    assert!(cached("bearer one", &body) > 0);
    assert_eq!(cached("Bearer two", &body), 0);
    let mut salted = body.clone();
    salted["cache_salt"] = json!("salt");
    assert_eq!(cached("Bearer one", &salted), 0);
    assert!(cached("Bearer one", &salted) > 0);
}

/// So long that it runs until it is cancelled.
fn endless() -> String {
    let prompts: Vec<String> = (0..8).map(|i| format!("{i} trees")).collect();
    json!({"prompt": prompts, "max_tokens": 1500, "ignore_eos": true, "stream": true}).to_string()
}

fn wait_until_empty(service: &Service) {
    while service.metric("prefix_server_in_flight") > 0.0 {}
}

#[test]
fn too_much_is_refused_and_a_client_that_goes_is_cancelled() {
    let service = start(|config| config.max_requests = 1);
    let mut first = service.open("POST", "/v1/completions", &[], &endless());
    assert_eq!(first.head().0, 200);
    let second = service.post("/v1/embeddings", &json!({"input": "a"}));
    assert_eq!(second.code, 429, "{}", second.body);
    assert!(second.headers.contains("retry-after: 1"));
    let asks = [("expect", "100-continue")];
    let third = service.begin("POST", "/v1/embeddings", &asks, 9);
    assert_eq!(third.answer().code, 429, "it need not be sent");
    drop(first);
    wait_until_empty(&service);
    assert_eq!(service.metric("prefix_server_disconnects_total"), 1.0);
    assert_eq!(
        service.post("/v1/embeddings", &json!({"input": "a"})).code,
        200
    );
}

#[test]
fn time_is_over_when_it_is_over() {
    let service = start(|_| {});
    let mut body: Value = serde_json::from_str(&endless()).unwrap();
    body["stream"] = json!(false);
    for (path, deadline, code) in [
        ("/v1/completions", "1", 504),
        ("/v1/completions", "soon", 400),
    ] {
        let answer = service.post_with(path, &[("prefix-deadline-ms", deadline)], &body);
        assert_eq!(answer.code, code, "{}", answer.body);
    }
    wait_until_empty(&service);
}

#[test]
fn what_was_taken_in_is_answered_before_the_end() {
    let mut service = start(|_| {});
    let body = json!({"prompt": "A tree", "max_tokens": 200, "ignore_eos": true, "stream": true});
    let mut running = service.open("POST", "/v1/completions", &[], &body.to_string());
    let (code, headers) = running.head();
    assert_eq!(code, 200);
    service.tell_to_stop();
    // The port stays open for a while, so whoever comes is told.
    while service.get("/health").code == 200 {}
    let late = service.post("/v1/embeddings", &json!({"input": "a"}));
    assert_eq!(late.code, 503, "{}", late.body);
    assert!(late.headers.contains("connection: close"));
    assert!(running.rest(&headers).ends_with("data: [DONE]\n\n"));
    service.wait();
}

#[test]
fn a_task_that_runs_is_done_to_its_last_chunk() {
    let options = Options::new().unwrap().set("cache_bytes", "256M").unwrap();
    // A task gives the engine half of this at a time.
    let options = options.set("queue_limit", 4).unwrap();
    let mut service = start_with(open(options), |_| {});
    let documents: Vec<String> = (0..40)
        .map(|i| format!("{i} {}", "tree ".repeat(40)))
        .collect();
    let body = json!({"query": "Which one?", "documents": documents}).to_string();
    let running = service.open("POST", "/v1/rerank", &[], &body);
    while service.metric("prefix_requests_finished_total") < 4.0 {}
    service.tell_to_stop();
    while service.get("/health").code == 200 {}
    assert_eq!(service.metric("prefix_server_in_flight"), 1.0);
    let late = service.post("/v1/rerank", &json!({"query": "a", "documents": ["b"]}));
    assert_eq!(late.code, 503, "{}", late.body);
    assert!(late.headers.contains("retry-after: 1"));
    let answer = running.answer().json(200);
    assert_eq!(answer["results"].as_array().unwrap().len(), 40);
    service.wait();
}

#[test]
fn what_does_not_end_is_ended() {
    let mut service = start(|config| config.drain = std::time::Duration::from_millis(1));
    let mut running = service.open("POST", "/v1/completions", &[], &endless());
    let (_, headers) = running.head();
    service.tell_to_stop();
    let said = running.rest(&headers);
    assert!(
        said.contains("the service is stopping"),
        "{}",
        &said[said.len().saturating_sub(300)..]
    );
    service.wait();
}
