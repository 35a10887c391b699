//! Who may ask, and who shares what is in the cache.

use prefix::Options;
use serde_json::{json, Value};

use crate::support::{open, start, start_with, Service};

/// Longer than what the cache holds in one piece.
fn text() -> String {
    "Bread is baked from flour, water, salt and patience. ".repeat(8)
}

#[test]
fn a_salt_divides_every_path() {
    let options = Options::new().unwrap().set("cache_bytes", "64M").unwrap();
    let (engine, tokenizer) = open(options);
    let service = start_with((engine.clone(), tokenizer), |config| {
        config.labels = vec!["food".into(), "city".into()];
    });
    let text = text();
    for (path, body) in [
        ("/v1/rerank", json!({"query": "bread", "documents": [text]})),
        ("/v2/rerank", json!({"query": "bread", "documents": [text]})),
        ("/rerank", json!({"query": "bread", "texts": [text]})),
        ("/embed", json!({"inputs": text})),
        ("/predict", json!({"inputs": text})),
        ("/v1/embeddings", json!({"input": text})),
        (
            "/v1/completions",
            json!({"prompt": text, "max_tokens": 1, "stream": true}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": text}], "max_tokens": 1}),
        ),
    ] {
        let found = |salt: &str| {
            let mut salted = body.clone();
            salted["cache_salt"] = json!(format!("{salt} of {path}"));
            let before = engine.stats().unwrap().tokens_cached;
            let answer = service.post(path, &salted);
            assert_eq!(answer.code, 200, "{path}: {}", answer.body);
            engine.stats().unwrap().tokens_cached - before
        };
        assert_eq!(found("one"), 0, "{path}");
        assert_eq!(found("another"), 0, "{path}");
        assert!(found("one") > 0, "{path}");
    }
}

/// How many tokens of a prompt were there.
fn cached(service: &Service, headers: &[(&str, &str)], body: &Value) -> u64 {
    let answer = service.post_with("/v1/completions", headers, body);
    let usage = &answer.json(200)["usage"];
    usage["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap()
}

#[test]
fn another_scheme_shares_with_nobody() {
    let service = start(|_| {});
    let body = json!({"prompt": format!("Schemes. {}", text()), "max_tokens": 1});
    assert_eq!(cached(&service, &[], &body), 0);
    assert!(cached(&service, &[("authorization", "Bearer")], &body) > 0); // no key
    for value in ["Basic b25lOg==", "Basic dHdvOg==", "Digest", "sk-key"] {
        let header = [("authorization", value)];
        assert_eq!(cached(&service, &header, &body), 0, "{value}");
        assert!(cached(&service, &header, &body) > 0, "{value}");
    }
}

#[test]
fn what_needs_a_key() {
    let service = start(|config| config.keys = Some(["one".to_string()].into()));
    let ask = |path: &str, key: &str| {
        let key = [("authorization", key)];
        service.open("GET", path, &key, "").answer().code
    };
    for path in ["/v1/models", "/v1/models/small", "/info"] {
        let refused = service.get(path);
        assert_eq!(refused.code, 401, "{path}");
        let challenge = "\r\nwww-authenticate: bearer\r\n";
        assert!(refused.headers.contains(challenge), "{}", refused.headers);
        assert_eq!(ask(path, "Bearer two"), 401, "{path}");
        assert_eq!(ask(path, "Basic one"), 401, "{path}");
        assert_eq!(ask(path, "one"), 401, "{path}");
        assert_eq!(ask(path, "Bearer one"), 200, "{path}");
    }
    for path in ["/health", "/metrics"] {
        assert_eq!(service.get(path).code, 200, "{path}");
    }
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

#[test]
fn one_tenant_at_a_time_may_have_a_salt() {
    let service = start(|config| config.max_tenants = 1);
    for salt in ["a", "b", "b"] {
        let body = json!({"prompt": "A", "max_tokens": 1, "cache_salt": salt});
        let key = [("authorization", "Bearer one")];
        let answer = service.post_with("/v1/completions", &key, &body);
        assert_eq!(answer.code, 200, "{}", answer.body);
    }
}
