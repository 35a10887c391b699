//! Models with a classification head of one label: a reranker, whose recipe leaves the logit as it is, and one that writes.

use prefix::{Engine, Options, Source, Tokenizer};
use prefix_server::config::Config;
use serde_json::{json, Value};

use crate::support::{golden, start_with, Service};

fn reranker() -> Service {
    service(|_| {}, None, |_| {})
}

/// The same weights as a model that says what comes next, too.
fn writer(recipe: Option<Value>, set: impl FnOnce(&mut Config)) -> Service {
    let causal = |config: &mut Value| {
        config["architectures"] = json!(["LlamaForSequenceClassification"]);
        config["model_type"] = json!("llama");
        config["tie_word_embeddings"] = json!(true);
    };
    service(causal, recipe, set)
}

/// Of the tiny one, which has no tokenizer; this one has a token for each character.
fn service(
    change: impl FnOnce(&mut Value),
    recipe: Option<Value>,
    set: impl FnOnce(&mut Config),
) -> Service {
    let mut source = Source::new().unwrap();
    let read = |name: &str| {
        let path = golden("llama-bidirectional-head").join(name);
        let missing = "is missing: run tools/run_tests models";
        std::fs::read(&path).unwrap_or_else(|_| panic!("{} {missing}", path.display()))
    };
    let mut config = serde_json::from_slice(&read("config.json")).unwrap();
    change(&mut config);
    let text = |value: &Value| value.to_string().into_bytes();
    source.add("config.json", text(&config)).unwrap();
    let weights = "model.safetensors";
    source.add(weights, read(weights)).unwrap();
    if let Some(recipe) = recipe {
        source.add("prefix_recipe.json", text(&recipe)).unwrap();
    }
    let characters = (' '..='~').chain(['\n']).enumerate();
    let vocabulary: Value = characters.map(|(i, c)| (c.to_string(), json!(i))).collect();
    let model = json!({"type": "BPE", "vocab": vocabulary, "merges": []});
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": model}).to_string();
    let options = Options::new().unwrap().set("cache_bytes", "16M").unwrap();
    let engine = Engine::load_source(&source, Some(&options)).unwrap();
    let engine = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(engine)
        .unwrap();
    start_with(
        (engine, Tokenizer::from_json(&tokenizer, None).unwrap()),
        set,
    )
}

#[test]
fn a_score_lies_between_0_and_1_unless_it_is_raw() {
    check_scores(&reranker());
}

#[test]
fn so_does_that_of_a_head_beside_an_output_matrix() {
    let recipe = json!({"task": "rerank", "method": "head", "activation": "none",
        "prompt": ["{query} {document}"], "pooling": "mean", "cut": "document"});
    let service = writer(Some(recipe), |_| {});
    check_scores(&service);
    let written = json!({"prompt": "a", "max_tokens": 1});
    service.post("/v1/completions", &written).json(200);
}

/// A label does not say what it is of: without a recipe for it the head is not read.
#[test]
fn a_head_that_nobody_knows_does_not_rank() {
    let body = json!({"query": "How?", "texts": ["Bread.", "Paris?"]});
    let ask = |service: Service| service.post("/rerank", &body).json(200);
    let likelihood = |config: &mut Config| config.rerank_recipe = Some("query-likelihood".into());
    let (found, expected) = (ask(writer(None, |_| {})), ask(writer(None, likelihood)));
    assert_eq!(found, expected);
}

fn check_scores(service: &Service) {
    let texts = ["Bread.", "A tree has leaves.", "zzz", "Paris?"];
    let ask = |raw: bool| -> Vec<(u64, f64)> {
        let body = json!({"query": "How is bread made?", "texts": texts, "raw_scores": raw});
        let answer = service.post("/rerank", &body).json(200);
        let places = answer.as_array().unwrap().iter();
        places
            .map(|place| {
                let score = place["score"].as_f64().unwrap();
                (place["index"].as_u64().unwrap(), score)
            })
            .collect()
    };
    let (raw, scores) = (ask(true), ask(false));
    assert!(raw.iter().any(|(_, logit)| *logit < 0.0), "{raw:?}");
    for ((index, logit), (same, score)) in raw.iter().zip(&scores) {
        assert_eq!(index, same);
        let expected = 1.0 / (1.0 + (-logit).exp());
        assert!((score - expected).abs() < 1e-6, "{score} {expected}");
    }
    let body = json!({"query": "How is bread made?", "documents": texts});
    let results = service.post("/v2/rerank", &body).json(200)["results"].clone();
    let of = |result: &Value| result["relevance_score"].as_f64().unwrap();
    let found: Vec<f64> = results.as_array().unwrap().iter().map(of).collect();
    let scores: Vec<f64> = scores.iter().map(|(_, score)| *score).collect();
    assert_eq!(found, scores);
}

#[test]
fn it_is_a_reranker_for_those_who_ask_what_it_is() {
    let info = reranker().get("/info").json(200);
    let labels = json!({"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}});
    assert_eq!(info["model_type"], json!({"reranker": labels}));
}
