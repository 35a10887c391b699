//! What somebody sends who means no good, or whose program is broken.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::client::{get, post, request, Answer, Connection, Lost};
use crate::program::{command, end, Program};

fn start() -> Program {
    Program::start(&[
        "--option",
        "cache_bytes=64M",
        "--read-seconds",
        "0.6",
        "--deadline",
        "20",
    ])
}

/// The service is alive, and nothing is left of what was sent.
fn is_well(program: &mut Program) {
    let answer = post(
        program.address,
        "/v1/embeddings",
        &json!({"input": "A tree."}),
    )
    .unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text());
    program.settle();
    assert!(!program.has_ended());
}

fn raw(program: &Program, bytes: &[u8]) -> Result<Answer, Lost> {
    let mut connection = Connection::open(program.address)?;
    connection.send(bytes)?;
    connection.answer()
}

fn code(program: &Program, bytes: &[u8]) -> u16 {
    raw(program, bytes).map_or(0, |answer| answer.code)
}

/// A request with a body, to the path.
fn body(path: &str, body: &[u8]) -> Vec<u8> {
    request("POST", path, &[], body)
}

#[test]
fn heads_that_are_wrong() {
    let mut program = start();
    let long = "a".repeat(1 << 20);
    let many: String = (0..2000).map(|i| format!("x-{i}: 1\r\n")).collect();
    for (head, expected) in [
        (
            format!("GET /health HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"),
            431,
        ),
        (
            format!("GET /health HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
            431,
        ),
        (format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"), 431),
        ("GARBAGE\r\n\r\n".into(), 400),
        ("GET /health HTTP/3.7\r\n\r\n".into(), 400),
        (
            "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n".into(),
            400,
        ),
        (
            "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}"
                .into(),
            400,
        ),
        (
            "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n"
                .into(),
            400,
        ),
        (
            "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999999\r\n\r\n".into(),
            413,
        ),
        (
            "POST /embed HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".into(),
            422,
        ),
    ] {
        let found = code(&program, head.as_bytes());
        assert_eq!(found, expected, "{}", &head[..head.len().min(80)]);
    }
    // A key that is no text is no key, and not nobody's either.
    let key = b"GET /health HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \xff\xfe\r\n\r\n";
    assert_eq!(code(&program, key), 200); // needs none
    let key = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \xff\xfe\r\n\r\n";
    assert_eq!(code(&program, key), 401);
    let mut bytes = b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \xff\xfe\r\ncontent-length: 13\r\n\r\n".to_vec();
    bytes.extend(b"{\"input\":\"a\"}");
    assert_eq!(code(&program, &bytes), 401);
    is_well(&mut program);
    // Those that get no further than the HTTP library.
    assert_eq!(program.metric("prefix_server_broken_heads_total"), 8.0);
}

#[test]
fn methods_versions_and_paths() {
    let mut program = start();
    let say = |line: &str| {
        raw(
            &program,
            format!("{line}\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap()
    };
    assert_eq!(say("GET /health HTTP/1.0").code, 200);
    assert_eq!(say("OPTIONS /v1/rerank HTTP/1.1").code, 405);
    assert_eq!(say("DELETE /health HTTP/1.1").code, 405);
    assert_eq!(say("BREW /health HTTP/1.1").code, 405);
    for path in [
        "/v1/rerank/",
        "//v1/rerank",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/page/../page.js",
        "/v1/models/%ff",
        "/page/",
    ] {
        let answer = say(&format!("GET {path} HTTP/1.1"));
        assert!([400, 404].contains(&answer.code), "{path}: {}", answer.code);
    }
    // The head of an answer alone.
    let mut connection = Connection::open(program.address).unwrap();
    connection
        .send(b"HEAD /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    let (code, _) = connection.head().unwrap();
    let mut rest = Vec::new();
    connection.0.read_to_end(&mut rest).unwrap();
    assert_eq!((code, rest.len()), (200, 0));
    // A client of HTTP/1.0 knows no chunks: a stream ends with the connection.
    let asked =
        json!({"prompt": "A", "max_tokens": 3, "ignore_eos": true, "stream": true}).to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{asked}",
        asked.len()
    );
    let answer = raw(&program, head.as_bytes()).unwrap();
    assert!(!answer.head.contains("chunked"), "{}", answer.head);
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    // A body is sent only when it is wanted.
    let mut connection = Connection::open(program.address).unwrap();
    connection.send(b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n").unwrap();
    connection.send(b"{\"input\":\"a\"}").unwrap();
    assert_eq!(connection.answer().unwrap().code, 200);
    is_well(&mut program);
}

#[test]
fn bodies_that_are_deep_long_or_odd() {
    let mut program = start();
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let nested = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
    let message = "{\"role\": \"user\", \"content\": \"a\"}";
    let huge: Vec<Value> = (0..100_000).map(|i| json!(format!("{i}"))).collect();
    for (path, text, expected) in [
        ("/v1/rerank", deep(1_000_000), 400),
        (
            "/v1/embeddings",
            format!("{{\"input\": {}}}", deep(1_000_000)),
            400,
        ),
        (
            "/v1/chat/completions",
            format!("{{\"messages\": [{}]}}", nested(200_000)),
            400,
        ),
        (
            "/v1/chat/completions",
            format!(
                "{{\"messages\": [{message}], \"tools\": {}}}",
                deep(1_000_000)
            ),
            400,
        ),
        (
            "/v1/chat/completions",
            format!(
                "{{\"messages\": [{message}], \"tools\": [{{\"function\": {{\"name\": \"a\", \"parameters\": {}}}}}], \
                 \"tool_choice\": \"required\"}}",
                nested(200_000)
            ),
            400,
        ),
        (
            "/v1/chat/completions",
            format!("{{\"messages\": [{message}], \"tool_choice\": {}}}", nested(200_000)),
            400,
        ),
        (
            "/v1/chat/completions",
            format!(
                "{{\"messages\": [{message}], \"max_tokens\": 1, \"chat_template_kwargs\": {}}}",
                nested(300_000)
            ),
            400,
        ),
        (
            "/v1/rerank",
            json!({"query": "a", "documents": huge}).to_string(),
            413,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"temperature\": NaN}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"temperature\": 1e999}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"temperature\": 1e308}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"top_p\": -0.5}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"top_p\": 2}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"max_tokens\": 18446744073709551615}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"seed\": 9223372036854775808}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"prompt\": \"b\"}".into(),
            400,
        ),
        (
            "/v1/completions",
            "{\"prompt\": \"a\", \"max_tokens\": 1, \"stop\": [\"\"]}".into(),
            400,
        ),
        ("/v1/embeddings", "{\"input\": \"a\\u0000b\"}".into(), 200),
        ("/v1/embeddings", "{\"input\": \"\\ud800\"}".into(), 400),
        ("/v1/embeddings", "{\"input\": [2147483647]}".into(), 400),
        ("/v1/embeddings", "{\"input\": [4294967296]}".into(), 400),
    ] {
        let answer = raw(&program, &body(path, text.as_bytes())).unwrap();
        let start: String = text.chars().take(60).collect();
        assert_eq!(answer.code, expected, "{path} {start}: {}", answer.text());
    }
    let bytes = body(
        "/v1/rerank",
        b"{\"query\": \"\xed\xa0\x80\", \"documents\": [\"\xf5\"]}",
    );
    assert_eq!(code(&program, &bytes), 400);
    // Announced as 4 MiB, and never sent: refused when the time for it is over.
    let head = b"POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 4194304\r\n\r\n{";
    assert_eq!(code(&program, head), 408);
    is_well(&mut program);
}

#[test]
fn a_hundred_thousand_documents_are_given_up_in_time() {
    let options = [
        "--option",
        "cache_bytes=64M",
        "--max-items",
        "200000",
        "--deadline",
        "1",
    ];
    let mut program = Program::start(&options);
    let documents: Vec<String> = (0..100_000).map(|i| format!("{i}")).collect();
    let begin = Instant::now();
    let answer = post(
        program.address,
        "/v1/rerank",
        &json!({"query": "a", "documents": documents}),
    )
    .unwrap();
    assert_eq!(answer.code, 504, "{}", answer.text());
    // The deadline, and time to take them in and to give them up.
    assert!(begin.elapsed() < Duration::from_secs(60));
    is_well(&mut program);
}

#[test]
fn who_is_slow_holds_up_nobody() {
    let mut program = start();
    let mut slow: Vec<Connection> = (0..100)
        .map(|_| Connection::open(program.address).unwrap())
        .collect();
    let head = b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nx: y\r\n";
    let begin = Instant::now();
    // A byte now and then, longer than the service has patience.
    for byte in head {
        for connection in &mut slow {
            connection.send(&[*byte]).unwrap();
        }
        thread::sleep(Duration::from_millis(20));
        if begin.elapsed() > Duration::from_millis(900) {
            break;
        }
    }
    let answer = post(
        program.address,
        "/v1/embeddings",
        &json!({"input": "A tree."}),
    )
    .unwrap();
    assert_eq!(answer.code, 200);
    for connection in &mut slow {
        let mut rest = Vec::new();
        let _ = connection.0.read_to_end(&mut rest); // it was closed
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"));
    }
    is_well(&mut program);
}

/// Nor does who says nothing, where the system has fewer descriptors of files than the service has places.
#[test]
fn who_says_nothing_makes_room() {
    let options = ["--option", "cache_bytes=64M", "--read-seconds", "100000"];
    let mut program = Program::start_by(&["prlimit", "--nofile=48"], &options);
    let silent: Vec<Connection> = (0..64)
        .map(|_| Connection::open(program.address).unwrap())
        .collect();
    assert_eq!(get(program.address, "/health").unwrap().code, 200);
    assert!(program.metric("prefix_server_made_room_total") >= 1.0);
    drop(silent);
    is_well(&mut program);
}

/// The end of what a client sends is that of the client: there is no other way to see that it has gone.
#[test]
fn half_closed_is_gone() {
    let mut program = start();
    let asked = json!({"prompt": "A", "max_tokens": 1500, "ignore_eos": true}).to_string();
    let mut connection = Connection::open(program.address).unwrap();
    connection
        .send(&body("/v1/completions", asked.as_bytes()))
        .unwrap();
    while program.metric("prefix_server_in_flight") < 1.0 {}
    connection.0.get_mut().shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.answer().unwrap_err(), Lost::Nothing);
    is_well(&mut program);
    assert!(program.metric("prefix_server_disconnects_total") >= 1.0);
}

#[test]
fn fifty_requests_in_one_piece_are_answered_in_their_order() {
    let mut program = start();
    let mut bytes = Vec::new();
    for i in 0..50 {
        let path = if i % 2 == 0 {
            "/v1/models/small"
        } else {
            "/v1/models/none"
        };
        bytes.extend(request("GET", path, &[], b""));
    }
    let mut connection = Connection::open(program.address).unwrap();
    connection.send(&bytes).unwrap();
    for i in 0..50 {
        let expected = if i % 2 == 0 { 200 } else { 404 };
        assert_eq!(connection.answer().unwrap().code, expected);
    }
    drop(connection);
    is_well(&mut program);
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Good bodies with some bytes changed, taken away, or doubled: an answer for each, and none is the service's fault.
#[test]
fn changed_bodies_are_answered() {
    let mut program = start();
    let good = [
        (
            "/v1/rerank",
            json!({"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1, "return_documents": true}),
        ),
        (
            "/rerank",
            json!({"query": "a", "texts": ["b"], "raw_scores": true, "truncate": true}),
        ),
        (
            "/embed",
            json!({"inputs": ["a"], "normalize": true, "dimensions": 4, "truncation_direction": "left"}),
        ),
        (
            "/v1/embeddings",
            json!({"model": "small", "input": [[1, 2], [3]], "encoding_format": "base64", "cache_salt": "s"}),
        ),
        (
            "/v1/completions",
            json!({"prompt": ["a"], "max_tokens": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1,
            "seed": 1, "stop": ["x"], "stream": true, "stream_options": {"include_usage": true}}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "tools": [],
            "chat_template_kwargs": {"x": 1}}),
        ),
        ("/predict", json!({"inputs": [["a"]], "raw_scores": false})),
    ];
    let mut random = Random(20_260_101);
    let rounds = if std::env::var("PREFIX_TEST_LONG").is_ok() {
        20_000
    } else {
        700
    };
    let mut codes = std::collections::BTreeMap::<u16, u32>::new();
    let mut connection = Connection::open(program.address).unwrap();
    for _ in 0..rounds {
        let (path, value) = &good[random.below(good.len())];
        let mut bytes = value.to_string().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random
                .below(bytes.len().max(1))
                .min(bytes.len().saturating_sub(1));
            match random.below(5) {
                0 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, b"0123456789-eE.\"{}[],:ntf"[random.below(24)]),
                _ => bytes.extend_from_within(at..),
            }
        }
        // In case a number of tokens became large.
        connection
            .send(&request(
                "POST",
                path,
                &[("prefix-deadline-ms", "300")],
                &bytes,
            ))
            .unwrap();
        let answer = connection
            .answer()
            .unwrap_or_else(|lost| panic!("{path} {}: {lost:?}", String::from_utf8_lossy(&bytes)));
        assert_ne!(
            answer.code,
            500,
            "{path} {}: {}",
            String::from_utf8_lossy(&bytes),
            answer.text()
        );
        assert!(
            [200, 400, 404, 413, 422, 424, 504].contains(&answer.code),
            "{}",
            answer.code
        );
        *codes.entry(answer.code).or_default() += 1;
        if answer.closes() {
            connection = Connection::open(program.address).unwrap();
        }
    }
    println!("{codes:?}");
    drop(connection);
    is_well(&mut program);
}

#[test]
fn one_processor_is_enough() {
    let mut program = Program::start_by(&["taskset", "-c", "0"], &["--option", "cache_bytes=64M"]);
    let answers: Vec<Result<Answer, Lost>> = thread::scope(|scope| {
        let ask = |i: usize| {
            post(
                program.address,
                "/v1/embeddings",
                &json!({"input": format!("{i} trees")}),
            )
        };
        let asking: Vec<_> = (0..16).map(|i| scope.spawn(move || ask(i))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in answers {
        assert_eq!(answer.unwrap().code, 200);
    }
    is_well(&mut program);
}

/// With less memory than it needs the program says so and ends, or serves; it does not crash.
#[test]
fn little_memory_is_said() {
    for megabytes in [64, 160, 256, 512] {
        let limit = format!("--as={}", megabytes << 20);
        let mut command = command(
            &["prlimit", &limit],
            &["--option", "cache_bytes=32M", "--option", "threads=2"],
        );
        command.arg("--option").arg("no_such_option=1"); // so that it ends where it has got so far
        let (status, said) = end(command);
        assert!(status.code().is_some(), "{megabytes} MiB: {status}: {said}");
        assert!(
            !status.success() && !said.is_empty(),
            "{megabytes} MiB: {status}: {said}"
        );
    }
    let mut program = Program::start_by(
        &["prlimit", "--as=6442450944"],
        &["--option", "cache_bytes=32M"],
    );
    let large = json!({"input": vec!["word ".repeat(700); 1000]}).to_string();
    let mut connections: Vec<Connection> = Vec::new();
    for _ in 0..32 {
        let mut connection = Connection::open(program.address).unwrap();
        let bytes = request(
            "POST",
            "/v1/embeddings",
            &[("prefix-deadline-ms", "200")],
            large.as_bytes(),
        );
        connection
            .0
            .get_mut()
            .write_all(&bytes[..bytes.len() - 1])
            .unwrap();
        connections.push(connection);
    }
    drop(connections);
    assert_eq!(get(program.address, "/health").unwrap().code, 200);
    is_well(&mut program);
}
