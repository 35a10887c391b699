//! 64 connections that ask for everything at once, well and badly, wait for the answer or do not; and the same while the
//! program is told to stop.
//!
//! By default each connection asks a few times. `PREFIX_SERVER_SECONDS=300` lets them go on for so long:
//!
//! ```text
//!   cargo test --release --test process load -- --nocapture
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::client::{self, request, Answer, Connection, Lost};
use crate::program::Program;

const CONNECTIONS: usize = 64;
/// Enough for every connection to ask for every kind about once.
const ROUNDS: usize = 4;
const OPTIONS: [&str; 10] = [
    // Few more than there are: places that are not given back would soon be missed.
    "--max-connections",
    "96",
    "--option",
    "cache_bytes=96M",
    "--max-requests",
    "48",
    "--max-items",
    "16",
    "--drain-seconds",
    "20",
];

struct World {
    address: SocketAddr,
    /// Set in front of the signal.
    stopping: AtomicBool,
    tally: Mutex<BTreeMap<(&'static str, String), u64>>,
    wrong: Mutex<Vec<String>>,
    /// The answer that a body got first: it must get the same bits whenever it is asked.
    known: Mutex<HashMap<String, Value>>,
    sent: AtomicU64,
}

thread_local! {
    /// Whether the signal was on its way when this thread's connection was there.
    static LATE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// How a kind of request is asked.
type Ask = fn(&World, usize) -> Result<Answer, Lost>;

/// What a connection does, and the codes with which that may be answered while the service is neither full nor
/// stopping. Without codes nobody waits for the answer.
const KINDS: [(&str, Ask, &[u16]); 17] = [
    ("rank", rank, &[200]),
    ("embed", embed, &[200]),
    ("complete", complete, &[200]),
    ("stream", stream, &[200]),
    ("go in the middle of a stream", go_in_stream, &[]),
    ("go before the answer", go_before_answer, &[]),
    ("go in the middle of the body", go_in_body, &[]),
    ("read slowly", read_slowly, &[200]),
    ("read nothing and go", read_nothing, &[]),
    ("no JSON", no_json, &[400]),
    ("no UTF-8", no_utf8, &[400]),
    ("wrong types", wrong_types, &[400]),
    ("too many documents", too_many, &[413]),
    ("a tenant", tenant, &[200]),
    ("no time", no_time, &[504]),
    ("one behind the other", behind_each_other, &[200]),
    ("no such path", no_path, &[404]),
];

impl World {
    fn post(&self, path: &str, body: &Value) -> Result<Answer, Lost> {
        self.post_with(path, &[], body)
    }

    fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Answer, Lost> {
        let mut connection = self.send(path, headers, body.to_string().as_bytes())?;
        connection.answer()
    }

    fn open(&self) -> Result<Connection, Lost> {
        let connection = Connection::open(self.address);
        LATE.set(self.stopping.load(Ordering::SeqCst));
        connection
    }

    fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Connection, Lost> {
        let mut connection = self.open()?;
        connection.send(&request("POST", path, headers, body))?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }

    /// The same question must have the same answer.
    fn check(&self, question: &Value, answer: &Answer, field: &str) {
        if answer.code != 200 {
            return;
        }
        let found = answer.json()[field].clone();
        let mut known = lock(&self.known);
        let first = known
            .entry(question.to_string())
            .or_insert_with(|| found.clone());
        if *first != found {
            lock(&self.wrong).push(format!("{question} was {first}, is {found}"));
        }
    }

    fn count(&self, kind: &'static str, outcome: String) {
        *lock(&self.tally).entry((kind, outcome)).or_default() += 1;
    }

    /// One question, and whether what came of it is right. False when the service is gone.
    fn ask(&self, (kind, ask, codes): (&'static str, Ask, &[u16]), number: usize) -> bool {
        let outcome = ask(self, number);
        let after = self.stopping.load(Ordering::SeqCst);
        let right = match &outcome {
            // Who goes away sees a beginning, or nothing.
            Ok(_) | Err(Lost::Nothing | Lost::Cut(_)) if codes.is_empty() => true,
            Ok(answer) => {
                let full = answer.code == 429 && answer.head.contains("retry-after");
                codes.contains(&answer.code) || full || (after && answer.code == 503)
            }
            // Nobody is there any more, or was when the connection came.
            Err(Lost::Refused | Lost::Nothing) => LATE.get(),
            Err(Lost::Cut(_)) => false,
        };
        let name = match &outcome {
            _ if codes.is_empty() => "gone".into(),
            Ok(answer) => answer.code.to_string(),
            Err(Lost::Cut(_)) => "cut".into(),
            Err(Lost::Nothing) => "closed".into(),
            Err(Lost::Refused) => "refused".into(),
        };
        if !right {
            lock(&self.wrong).push(format!("{kind} {number}: {outcome:?}"));
        }
        if name == "429" {
            thread::sleep(Duration::from_millis(50)); // less than it asks for
        }
        let gone = outcome.as_ref().is_err_and(|lost| *lost == Lost::Refused);
        self.count(kind, name);
        !gone
    }
}

fn rank(world: &World, number: usize) -> Result<Answer, Lost> {
    let documents: Vec<String> = (0..4)
        .map(|i| format!("Stone {} is on hill {i}.", number % 5))
        .collect();
    let body = json!({"query": "Which hill?", "documents": documents});
    let answer = world.post("/v1/rerank", &body)?;
    world.check(&body, &answer, "results");
    Ok(answer)
}

fn embed(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = json!({"input": [format!("A tree of {} leaves.", number % 7), "A tree."]});
    let answer = world.post("/v1/embeddings", &body)?;
    world.check(&body, &answer, "data");
    Ok(answer)
}

fn text(number: usize, tokens: usize, stream: bool) -> Value {
    json!({"prompt": format!("{} rivers", number % 5), "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
           "stream": stream})
}

fn complete(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = text(number, 6, false);
    let answer = world.post("/v1/completions", &body)?;
    world.check(&body, &answer, "choices");
    Ok(answer)
}

/// A stream has an end: a last line, or the reason why there is none.
fn ended(answer: Answer) -> Result<Answer, Lost> {
    let said = answer.text();
    let whole = said.ends_with("data: [DONE]\n\n") || said.contains("the service is stopping");
    match answer.code != 200 || whole {
        true => Ok(answer),
        false => Err(Lost::Cut(said)),
    }
}

fn stream(world: &World, number: usize) -> Result<Answer, Lost> {
    ended(world.post("/v1/completions", &text(number, 6, true))?)
}

fn go_in_stream(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = text(number, 400, true).to_string();
    let mut connection = world.send("/v1/completions", &[], body.as_bytes())?;
    connection.head()?;
    Err(Lost::Nothing)
}

fn go_before_answer(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = text(number, 400, false).to_string();
    world.send("/v1/completions", &[], body.as_bytes())?;
    Err(Lost::Nothing)
}

fn go_in_body(world: &World, number: usize) -> Result<Answer, Lost> {
    let bytes = request(
        "POST",
        "/embed",
        &[],
        text(number, 4, false).to_string().as_bytes(),
    );
    let mut connection = world.open()?;
    connection.send(&bytes[..bytes.len() - 10])?;
    Err(Lost::Nothing)
}

fn read_slowly(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = text(number, 6, true).to_string();
    let mut connection = world.send(
        "/v1/completions",
        &[("connection", "close")],
        body.as_bytes(),
    )?;
    let (code, head) = connection.head()?;
    let mut body = Vec::new();
    let mut part = [0; 64];
    while let Ok(n @ 1..) = connection.0.read(&mut part) {
        body.extend(&part[..n]);
        thread::sleep(Duration::from_millis(1));
    }
    // The chunks are not taken apart: the last one is empty.
    let said = String::from_utf8_lossy(&body);
    match code != 200 || said.contains("data: [DONE]") || said.contains("is stopping") {
        true => Ok(Answer { code, head, body }),
        false => Err(Lost::Cut(said.into_owned())),
    }
}

fn read_nothing(world: &World, number: usize) -> Result<Answer, Lost> {
    let body = text(number, 400, true).to_string();
    let _connection = world.send("/v1/completions", &[], body.as_bytes())?;
    thread::sleep(Duration::from_millis(30));
    Err(Lost::Nothing)
}

fn raw(world: &World, path: &str, body: &[u8]) -> Result<Answer, Lost> {
    world.send(path, &[], body)?.answer()
}

fn no_json(world: &World, number: usize) -> Result<Answer, Lost> {
    let bodies: [&[u8]; 5] = [
        b"",
        b"{",
        b"[1,",
        b"NaN",
        b"{\"query\": \"a\" \"documents\": []}",
    ];
    raw(world, "/v1/rerank", bodies[number % bodies.len()])
}

fn no_utf8(world: &World, _: usize) -> Result<Answer, Lost> {
    raw(
        world,
        "/v1/embeddings",
        b"{\"input\": \"\xff\xfe\xc3\x28\"}",
    )
}

fn wrong_types(world: &World, number: usize) -> Result<Answer, Lost> {
    let bodies = [
        json!({"prompt": {"a": 1}}),
        json!({"prompt": "a", "temperature": -3}),
        json!({"prompt": "a", "max_tokens": "many"}),
        json!({"prompt": "a", "stop": 7}),
    ];
    world.post("/v1/completions", &bodies[number % bodies.len()])
}

fn too_many(world: &World, _: usize) -> Result<Answer, Lost> {
    world.post(
        "/v2/rerank",
        &json!({"query": "a", "documents": vec!["b"; 17]}),
    )
}

fn tenant(world: &World, number: usize) -> Result<Answer, Lost> {
    let key = format!("Bearer key {}", number % 9);
    let body = json!({"input": "A tree.", "cache_salt": format!("{}", number % 2)});
    let answer = world.post_with("/v1/embeddings", &[("authorization", &key)], &body)?;
    world.check(&json!({"input": "A tree."}), &answer, "data");
    Ok(answer)
}

fn no_time(world: &World, number: usize) -> Result<Answer, Lost> {
    world.post_with(
        "/v1/completions",
        &[("prefix-deadline-ms", "1")],
        &text(number, 400, false),
    )
}

/// Two requests in one piece, then one more on the same connection.
fn behind_each_other(world: &World, number: usize) -> Result<Answer, Lost> {
    let one = request(
        "POST",
        "/v1/completions",
        &[],
        text(number, 3, false).to_string().as_bytes(),
    );
    let mut connection = world.open()?;
    connection.send(&[&one[..], &one].concat())?;
    world.sent.fetch_add(1, Ordering::Relaxed);
    let first = connection.answer()?;
    if first.closes() {
        return Ok(first);
    }
    world.sent.fetch_add(1, Ordering::Relaxed);
    let second = connection.answer()?;
    if second.closes() {
        return Ok(second);
    }
    connection.send(&one)?;
    world.sent.fetch_add(1, Ordering::Relaxed);
    match connection.answer() {
        // It was closed as idle in the moment in which this was sent, as HTTP allows.
        Err(Lost::Nothing) if world.stopping.load(Ordering::SeqCst) => Ok(second),
        third => third,
    }
}

fn no_path(world: &World, _: usize) -> Result<Answer, Lost> {
    world.post("/v9/rerank", &json!({}))
}

/// Every connection asks until it has asked often enough, its time is over, or nobody is there any more.
fn run(world: &World, rounds: usize, until: Option<Instant>) {
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || {
                for round in 0.. {
                    let over = match until {
                        Some(end) => Instant::now() >= end,
                        None => round == rounds,
                    };
                    // So that at any time all kinds are asked for.
                    let kind = KINDS[(connection + round * 5) % KINDS.len()];
                    if over || !world.ask(kind, connection * 31 + round) {
                        return;
                    }
                }
            });
        }
    });
}

fn world(program: &Program) -> World {
    World {
        address: program.address,
        stopping: AtomicBool::new(false),
        tally: Mutex::default(),
        wrong: Mutex::default(),
        known: Mutex::default(),
        sent: AtomicU64::new(0),
    }
}

fn report(world: &World) {
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((kind, outcome), count) in lock(&world.tally).iter() {
        lines
            .entry(kind)
            .or_default()
            .push(format!("{outcome} x {count}"));
    }
    for (kind, outcomes) in lines {
        println!("  {kind:32}{}", outcomes.join(", "));
    }
    let wrong = lock(&world.wrong);
    assert!(
        wrong.is_empty(),
        "{} are wrong: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
}

fn seconds() -> Option<Duration> {
    let value = std::env::var("PREFIX_SERVER_SECONDS").ok()?;
    Some(Duration::from_secs(
        value.parse().expect("PREFIX_SERVER_SECONDS is a number"),
    ))
}

#[test]
fn load_leaves_nothing_behind() {
    let program = Program::start(&OPTIONS);
    // What is made once: threads, buffers of the allocator, the cache up to its limit.
    let warm = world(&program);
    let long = seconds();
    run(&warm, ROUNDS, long.map(|time| Instant::now() + time / 5));
    let watched = program.settle();
    report(&warm);
    let before = program.held();
    drop(watched);

    let loaded = world(&program);
    let begin = Instant::now();
    run(&loaded, ROUNDS, long.map(|time| begin + time));
    let time = begin.elapsed();
    let _watched = program.settle();
    let after = program.held();
    println!(
        "{} connections for {time:.1?}, {} requests sent",
        CONNECTIONS,
        loaded.sent.load(Ordering::Relaxed)
    );
    println!("  before {before:?}\n  after  {after:?}");
    report(&loaded);
    assert!(after.files <= before.files, "{before:?} {after:?}");
    // Those that encode texts wait for the next one for ten seconds: at most one for each request at a time.
    assert!(after.threads <= before.threads + 48, "{before:?} {after:?}");
    assert!(
        after.bytes <= before.bytes + (32 << 20),
        "{before:?} {after:?}"
    );

    // What was cancelled or failed is over, and the service as good as new.
    let body = text(1, 6, false);
    let answer = loaded.post("/v1/completions", &body).unwrap();
    loaded.check(&body, &answer, "choices");
    assert_eq!(answer.code, 200);
    report(&loaded);
    program.stop();
}

#[test]
fn a_signal_under_load_loses_no_answer() {
    let times = if seconds().is_some() { 10 } else { 1 };
    for _ in 0..times {
        let program = Program::start(&OPTIONS);
        let world = world(&program);
        let ended = thread::scope(|scope| {
            // Until nobody is there any more.
            let asking = scope.spawn(|| run(&world, usize::MAX, None));
            while world.sent.load(Ordering::Relaxed) < 150 {
                thread::sleep(Duration::from_millis(1));
            }
            world.stopping.store(true, Ordering::SeqCst);
            program.signal("TERM");
            let status = program.wait();
            asking.join().unwrap();
            status
        });
        report(&world);
        assert!(ended.success(), "{ended}");
        let tally = lock(&world.tally);
        let of = |outcome: &str| -> u64 {
            let counts = tally.iter().filter(|((_, found), _)| found == outcome);
            counts.map(|(_, count)| count).sum()
        };
        assert!(of("503") > 0, "{tally:?}");
        // Whoever connects between the last look into the queue and its end is the system's to refuse.
        assert!(of("closed") <= 5, "{tally:?}");
    }
}

/// It waits where the system keeps it: after the signal there is no place for it either, but an answer.
#[test]
fn a_connection_beyond_the_limit_has_an_answer_after_the_signal() {
    let program = Program::start(&["--option", "cache_bytes=96M", "--max-connections", "1"]);
    let mut first = Connection::open(program.address).unwrap();
    first.send(&request("GET", "/health", &[], b"")).unwrap();
    assert_eq!(first.answer().unwrap().code, 200);
    let mut second = Connection::open(program.address).unwrap();
    second.send(&request("GET", "/health", &[], b"")).unwrap();
    program.signal("TERM");
    assert_eq!(second.answer().unwrap().code, 503);
    assert!(program.wait().success());
}

/// It is out of the house, and on its way: more than the system keeps for who has not read it yet.
#[test]
fn a_large_answer_is_read_to_its_end_after_the_signal() {
    let program = Program::start(&["--option", "cache_bytes=96M"]);
    let lists: Vec<[u32; 1]> = (0..1000).map(|i| [i % 50 + 1]).collect();
    let body = json!({"input": lists}).to_string();
    let mut connection = Connection::open(program.address).unwrap();
    let bytes = request("POST", "/v1/embeddings", &[], body.as_bytes());
    connection.send(&bytes).unwrap();
    let (code, head) = connection.head().unwrap();
    assert_eq!(code, 200);
    program.signal("TERM");
    thread::sleep(Duration::from_secs(1)); // longer than the port stays open without need
    let body = connection.body(&head).unwrap();
    let found: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(found["data"].as_array().unwrap().len(), 1000);
    assert!(program.wait().success());
}

#[test]
fn the_model_has_one_name_everywhere() {
    let program = Program::start(&["--option", "cache_bytes=96M"]);
    let models = client::get(program.address, "/v1/models").unwrap().json();
    assert_eq!(models["data"][0]["id"], "small");
    let metrics = client::get(program.address, "/metrics").unwrap().text();
    let names: Vec<&str> = metrics.split("model_name=").skip(1).collect();
    assert!(!names.is_empty(), "{metrics}");
    for name in names {
        assert!(name.starts_with("\"small\""), "{name}");
    }
    program.stop();
}
