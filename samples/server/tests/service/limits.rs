//! How much is written when the caller does not say, and how much is read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use prefix::text::Special;
use prefix::Options;
use serde_json::{json, Value};

use crate::support::{open, start, start_with, Call};

const POSITIONS: usize = 64;

fn joined(chunks: &[Value]) -> String {
    let pieces = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    pieces.map(Option::unwrap_or_default).collect()
}

#[test]
fn without_a_limit_it_is_what_fits() {
    let options = Options::new().unwrap().set("cache_bytes", "64M").unwrap();
    let (engine, tokenizer) = open(options.set("max_positions", POSITIONS).unwrap());
    let service = start_with((engine.clone(), tokenizer.clone()), |_| {});
    let messages = json!([{"role": "user", "content": "What is the capital of France?"}]);
    let mut chat = json!({"messages": messages, "temperature": 0, "ignore_eos": true});
    let whole = service.post("/v1/chat/completions", &chat).json(200);
    assert_eq!(whole["usage"]["total_tokens"], POSITIONS);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    chat["stream"] = json!(true);
    let chunks = service.post("/v1/chat/completions", &chat).chunks();
    let text = joined(&chunks);
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    // A limit that the caller names is no wish.
    chat["max_tokens"] = json!(POSITIONS);
    let refused = service.post("/v1/chat/completions", &chat).json(400);
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
    // It is a ceiling.
    let brief = start_with((engine, tokenizer.clone()), |config| config.chat_tokens = 3);
    let chat = json!({"messages": messages, "ignore_eos": true});
    let answer = brief.post("/v1/chat/completions", &chat).json(200);
    assert_eq!(answer["usage"]["completion_tokens"], 3);

    let prompt = |words: usize| "tree ".repeat(words);
    let tokens = |words| {
        let encoded = tokenizer.encode(&prompt(words), Special::Added);
        encoded.unwrap().len()
    };
    let words = (1..POSITIONS).rfind(|&n| tokens(n) < POSITIONS).unwrap();
    let ask = |prompt: Value| {
        let body = json!({"prompt": prompt, "ignore_eos": true});
        service.post("/v1/completions", &body)
    };
    for words in [words, words - 5] {
        let answer = ask(json!(prompt(words))).json(200);
        assert_eq!(answer["usage"]["total_tokens"], POSITIONS);
    }
    let answer = ask(json!(prompt(1))).json(200);
    assert_eq!(answer["usage"]["completion_tokens"], 16);
    // Of several the longest decides.
    let answer = ask(json!([prompt(1), prompt(words)])).json(200);
    let new = answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert_eq!(new as usize, 2 * (POSITIONS - tokens(words)));
    let refused = ask(json!(prompt(POSITIONS + 1))).json(400);
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
}

/// Closed while it sends, a client would find a broken connection and no reason.
#[test]
fn a_refusal_comes_when_the_body_was_sent() {
    let body = json!({"input": "a".repeat(40 << 20)}).to_string();
    let asks = [("expect", "100-continue")];
    let small = start(|config| config.body.bytes = 1000);
    let locked = start(|config| config.keys = Some(["one".to_string()].into()));
    for (service, code) in [(&small, 413), (&locked, 401)] {
        let answer = service.open("POST", "/v1/embeddings", &[], &body).answer();
        assert_eq!(answer.code, code, "{}", answer.body);
        // One that asks first need not send it.
        let call = service.open("POST", "/v1/embeddings", &asks, &body[..2000]);
        assert_eq!(call.answer().code, code);
    }
    for (path, code) in [("/embeddings", 404), ("/v1/models", 405), ("/info", 405)] {
        let answer = small.open("POST", path, &[], &body).answer();
        assert_eq!(answer.code, code, "{path}: {}", answer.body);
    }
}

/// One head would otherwise end the service, where its limit is beyond the memory.
#[test]
fn a_body_takes_memory_as_it_comes() {
    let service = start(|config| config.body.bytes = usize::MAX);
    let asks = [("expect", "100-continue")];
    let mut call = service.begin("POST", "/v1/embeddings", &asks, 1 << 60);
    assert_eq!(call.head().0, 100, "it waits for the body");
    service
        .post("/v1/embeddings", &json!({"input": "a"}))
        .json(200);
}

/// A body that comes slowly keeps nobody out, and is answered when it is there.
#[test]
fn a_place_is_for_who_has_sent_all() {
    let mut service = start(|config| config.max_requests = 1);
    let body = json!({"input": "a"}).to_string();
    let (first, rest) = body.split_at(3);
    let begin = || {
        let asks = [("expect", "100-continue")];
        let mut call = service.begin("POST", "/v1/embeddings", &asks, body.len());
        assert_eq!(call.head().0, 100, "it waits for the body");
        call.send(first);
        call
    };
    let mut slow: Vec<Call> = (0..4).map(|_| begin()).collect();
    let answer = service.open("POST", "/v1/embeddings", &[], &body).answer();
    assert_eq!(answer.code, 200, "{}", answer.body);
    let mut finish = || {
        let mut call = slow.pop().unwrap();
        call.send(rest);
        call.answer().code
    };
    assert_eq!(finish(), 200);
    service.tell_to_stop();
    while service.get("/health").code == 200 {}
    assert_eq!(finish(), 503);
}

/// Who connects and says nothing, or half of a head, would fill all places as long as `--read-seconds` are.
#[test]
fn who_has_nothing_under_way_makes_room() {
    let service = start(|config| {
        config.max_connections = 3;
        config.body.time = Duration::from_secs(100_000);
    });
    let asked = json!({"prompt": "A", "max_tokens": 4000, "ignore_eos": true, "stream": true});
    let mut busy = service.open("POST", "/v1/completions", &[], &asked.to_string());
    assert_eq!(busy.head().0, 200);
    let mut silent = [(); 4].map(|()| TcpStream::connect(service.address).unwrap());
    for stream in &mut silent[1..] {
        stream.write_all(b"GET /health HTTP/1.1\r\nhos").unwrap();
    }
    assert_eq!(service.get("/health").code, 200);
    assert_eq!(service.metric("prefix_server_made_room_total"), 3.0);
    for stream in &mut silent[..3] {
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
    assert_eq!(service.metric("prefix_server_in_flight"), 1.0);
}

/// So would those that send bodies slowly. What is in work, and what comes faster, stays.
#[test]
fn the_slowest_body_makes_room() {
    let service = start(|config| config.max_connections = 4);
    let asked = json!({"prompt": "A", "max_tokens": 4000, "ignore_eos": true, "stream": true});
    let asked = asked.to_string();
    let write = || service.open("POST", "/v1/completions", &[], &asked);
    let mut busy = vec![write()];
    assert_eq!(busy[0].head().0, 200);
    let text = json!({"input": "a", "user": "b".repeat(1000)}).to_string();
    let begin = |bytes: usize| {
        let asks = [("expect", "100-continue")];
        let mut call = service.begin("POST", "/v1/embeddings", &asks, text.len());
        assert_eq!(call.head().0, 100, "it waits for the body");
        call.send(&text[..bytes]);
        call
    };
    let (slower, slow, mut fast) = (begin(1), begin(10), begin(1000));
    for (call, bytes) in [(slower, "1 bytes"), (slow, "10 bytes")] {
        let mut next = write();
        let ended = call.answer();
        let message = &ended.json(408)["error"]["message"];
        let said = message.as_str().unwrap();
        assert!(
            said.starts_with(bytes) && said.ends_with("waits for the place"),
            "{said}"
        );
        assert!(
            ended.headers.contains("connection: close"),
            "{}",
            ended.headers
        );
        assert_eq!(next.head().0, 200);
        busy.push(next);
    }
    fast.send(&text[1000..]);
    assert_eq!(fast.answer().code, 200);
    assert_eq!(service.metric("prefix_server_made_room_total"), 2.0);
}

/// So would those that ask for much and read none of it.
#[test]
fn who_does_not_read_makes_room() {
    let service = start(|config| {
        config.max_connections = 2;
        config.write = Duration::from_secs(100_000);
    });
    // The answer is more than the system keeps for who has not read it yet.
    let lists: Vec<[u32; 1]> = (0..1000).map(|i| [i % 50 + 1]).collect();
    let asked = json!({"input": lists}).to_string();
    let mut unread = [(); 2].map(|()| service.open("POST", "/v1/embeddings", &[], &asked));
    let heads = unread.each_mut().map(Call::head);
    assert_eq!(heads.each_ref().map(|(code, _)| *code), [200, 200]);
    assert_eq!(service.get("/health").code, 200);
    assert!(service.metric("prefix_server_made_room_total") >= 1.0);
    let mut both = unread.into_iter().zip(heads);
    let is_cut = |(call, (_, rest)): (Call, (u16, String))| {
        serde_json::from_str::<Value>(&call.rest(&rest)).is_err()
    };
    assert!(both.any(is_cut), "both are whole");
}

/// A client that keeps its connection has it as long as nobody else needs it, and answers are not cut.
#[test]
fn a_connection_that_was_answered_may_be_kept() {
    let service = start(|config| config.max_connections = 1);
    let mut kept = TcpStream::connect(service.address).unwrap();
    let mut kept_on = BufReader::new(kept.try_clone().unwrap());
    for _ in 0..2 {
        let asked = b"GET /v1/models HTTP/1.1\r\nhost: here\r\n\r\n";
        kept.write_all(asked).unwrap();
        let mut answer = String::new();
        while !answer.ends_with("\"list\"}") {
            let bytes = kept_on.fill_buf().unwrap();
            let count = bytes.len();
            assert!(count > 0, "closed after {answer:?}");
            answer += std::str::from_utf8(bytes).unwrap();
            kept_on.consume(count);
        }
    }
    assert_eq!(service.get("/health").code, 200);
    assert_eq!(kept_on.read_to_end(&mut Vec::new()).unwrap(), 0);
}
