//! What is refused or given up: too much at a time, too late, and at the end of the service.

use std::time::Duration;

use prefix::Options;
use serde_json::{json, Value};

use crate::support::{open, start, start_with, Service};

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
        // Clients that try again would wait as long for the same.
        let last = answer.headers.contains("\r\nx-should-retry: false\r\n");
        assert_eq!(last, code == 504, "{}", answer.headers);
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
    let mut service = start(|config| config.drain = Duration::from_millis(1));
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
