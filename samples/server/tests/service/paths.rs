//! What each path answers that ranks, embeds, classifies, or tells of the service.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use prefix::Options;
use serde_json::{json, Value};

use crate::support::{all, engine, start};

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
    // What all prompts begin with is computed once; the second time all of it is there.
    let body = json!({"query": "whatever nobody asked before", "documents": DOCUMENTS});
    let usage = || service.post("/v2/rerank", &body).json(200)["usage"].clone();
    let cached = |usage: &Value| usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    let (first, second) = (usage(), usage());
    let tokens = first["total_tokens"].as_u64().unwrap();
    assert!((1..tokens).contains(&cached(&first).unwrap()), "{first}");
    assert_eq!(cached(&second), Some(tokens));
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
    let usage = &answer["usage"];
    assert!(usage["prompt_tokens"] == 3 && usage["total_tokens"] == 3);
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert!(cached.unwrap() <= 3);
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
