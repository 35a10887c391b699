//! What goes wrong, each with its code and in the words of its API.

use prefix_server::app::App;
use prefix_server::config::Config;
use serde_json::json;

use crate::support::{engine, start};

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
        config.max_items = 20;
        config.body.bytes = 60_000;
    });
    let many = ["a"; 21];
    let long = "word ".repeat(9000);
    for (path, body, code, word) in [
        ("/v1/rerank", json!({"query": "q"}), 400, "documents"),
        (
            "/v1/completions",
            json!({"prompt": "a", "guided_choice": ["b", "c"], "guided_regex": "b"}),
            400,
            "guided_choice",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "logprobs": 21}),
            400,
            "logprobs: is 21; served are whole numbers from 0 to 20",
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
            json!({"query": "q", "documents": many}),
            413,
            "limit is 20",
        ),
        (
            "/rerank",
            json!({"query": "word ".repeat(11_000), "texts": vec!["a"; 20]}),
            413,
            "query: has 55000 bytes, with 20 documents 1100000; the limit is 960000",
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
            json!({"prompt": "a", "n": 0}),
            400,
            "n: is 0",
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
            json!({"prompt": "a", "structured_outputs": {"regex": "a", "choice": ["a"]}}),
            400,
            "structured_outputs: has members regex and choice, which ask for different forms of the text",
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
            "response_format: is not understood",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "stream_options": 1}),
            400,
            "expected an object",
        ),
        (
            "/v1/completions",
            json!({"prompt": "a", "stop": ["a", "b".repeat(17_000)]}),
            400,
            "stop: has 17001 bytes, the limit is 16384",
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
            json!({"messages": [{}], "response_format": {"type": "grammar"}}),
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
    let packed = [("content-encoding", "gzip")];
    let answer = service.open("POST", "/v1/completions", &packed, "\u{1f}\u{8}");
    let said = answer.answer().json(400)["error"]["message"].clone();
    let why = "the body is not a JSON object; content-encoding \"gzip\" is not read";
    assert_eq!(said, why);
    // What editors of Windows put in front of a text is not wrong.
    let marked = "\u{feff}{\"prompt\": \"a\", \"max_tokens\": 1}";
    let answer = service.open("POST", "/v1/completions", &[], marked);
    answer.answer().json(200);
    assert_eq!(service.metric("prefix_server_in_flight"), 0.0);
    assert_eq!(service.get("/health").code, 200);
}
