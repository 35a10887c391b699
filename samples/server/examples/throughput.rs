//! What the service costs: the same queries ranked through it, and by the library called directly, in turns in one
//! process with one engine. Prints an object of JSON a line, the last of which has the ratio.
//!
//! ```text
//!   export PREFIX_LIB_DIR=$PWD/build/lib          # from the root of the source tree, after `make build`
//!   cargo run --release --manifest-path samples/server/Cargo.toml --example throughput -- --model MODEL
//!       [--queries 32] [--documents 100] [--words 10] [--rounds 5]
//!
//!   service   a connection for each query, all at once
//!   threads   a thread for each query, which calls prefix::rerank
//!   task      one task with all pairs: what a program does that has all of them at hand
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use prefix::{Engine, Options, Task, TaskKind, Tokenizer};
use prefix_server::app::App;
use prefix_server::config::Config;
use prefix_server::{router, serve};
use serde_json::{json, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Work {
    queries: Vec<String>,
    documents: Vec<String>,
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|word| word != name);
    arguments.nth(1)
}

/// To a thousandth, for readers.
fn short(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn number(name: &str, default: usize) -> Result<usize> {
    Ok(option(name).map_or(Ok(default), |value| value.parse())?)
}

impl Work {
    fn new(queries: usize, documents: usize, words: usize) -> Work {
        let names = [
            "river", "stone", "bread", "cloud", "forest", "engine", "letter", "garden", "silver",
            "window", "music",
        ];
        let text = |i: usize| -> String {
            let word = |j: usize| names[(i * 7 + j * j + i / 11) % names.len()];
            (0..words).map(word).collect::<Vec<_>>().join(" ")
        };
        Work {
            queries: (0..queries)
                .map(|i| format!("Question {i}: where is the {}?", names[i % names.len()]))
                .collect(),
            documents: (0..documents)
                .map(|i| format!("{i}. {}", text(i)))
                .collect(),
        }
    }

    fn through_service(&self, address: SocketAddr) -> Result<()> {
        thread::scope(|scope| {
            let asked: Vec<_> = self
                .queries
                .iter()
                .map(|query| scope.spawn(move || self.ask(address, query)))
                .collect();
            asked
                .into_iter()
                .try_for_each(|one| one.join().map_err(|_| "a thread gave up")?)
        })
    }

    fn ask(&self, address: SocketAddr, query: &str) -> Result<()> {
        let body = json!({"query": query, "documents": self.documents}).to_string();
        let mut stream = TcpStream::connect(address)?;
        let head = format!("POST /v1/rerank HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let found: Value = serde_json::from_str(body)?;
        match found["results"].as_array() {
            Some(results) if results.len() == self.documents.len() => Ok(()),
            _ => Err(answer.into()),
        }
    }

    fn by_threads(&self, engine: &Engine, tokenizer: &Tokenizer) -> Result<()> {
        let ask = |query: &str| -> Result<()> {
            let ranking = prefix::rerank(engine, tokenizer, query, &self.documents, None)?;
            match ranking.ranked.len() == self.documents.len() {
                true => Ok(()),
                false => Err("a document is missing".into()),
            }
        };
        thread::scope(|scope| {
            let asked: Vec<_> = self
                .queries
                .iter()
                .map(|query| scope.spawn(move || ask(query)))
                .collect();
            asked
                .into_iter()
                .try_for_each(|one| one.join().map_err(|_| "a thread gave up")?)
        })
    }

    fn by_task(&self, engine: &Engine, tokenizer: &Tokenizer) -> Result<()> {
        let mut builder = Task::builder(engine, tokenizer, TaskKind::Rerank, None)?;
        builder.add_product(&self.queries, &self.documents)?;
        let task = builder.submit()?;
        task.wait()?;
        for query in 0..self.queries.len() {
            let first = query * self.documents.len();
            task.ranking(first..first + self.documents.len())?;
        }
        Ok(())
    }
}

/// Seconds that all threads of this process have computed, the clients' among them: what other programs on the machine
/// disturb less than the time on the wall.
fn computed() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("no fields in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    // The mean of both middle ones where there is no single one.
    (sorted[middle] + sorted[(sorted.len() - 1) / 2]) / 2.0
}

/// The service on a port of its own until the sender is dropped.
fn start(
    app: prefix_server::app::Shared,
) -> Result<(SocketAddr, oneshot::Sender<()>, thread::JoinHandle<()>)> {
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::spawn(move || {
        runtime.block_on(serve::serve(
            listener,
            router::router(app.clone()),
            app,
            async {
                let _ = stopped.await;
            },
        ));
    });
    Ok((address, stop, thread))
}

fn main() -> Result<()> {
    let model = PathBuf::from(option("--model").ok_or("--model is needed")?);
    let (queries, documents) = (number("--queries", 32)?, number("--documents", 100)?);
    let (words, rounds) = (number("--words", 10)?, number("--rounds", 5)?.max(1));
    let engine = Engine::open_with(&model, &Options::new()?.set("cache_bytes", "2G")?)?;
    let tokenizer = Tokenizer::open(&model)?;
    let whole = Work::new(queries, documents, words);
    // The first round warms up, with a query only.
    let first = Work::new(1, documents, words);
    let app = App::new(engine.clone(), tokenizer.clone(), Config::new(&model))
        .map_err(|why| why.message)?;
    let (address, stop, thread) = start(app)?;

    let mut times: [Vec<f64>; 3] = Default::default();
    let mut work_times: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        let work = if round == 0 { &first } else { &whole };
        for place in 0..times.len() {
            // Each side comes first, second and third in turn.
            let side = (place + round) % times.len();
            engine.cache().evict(&[])?;
            let (begin, before) = (Instant::now(), computed()?);
            match side {
                0 => work.through_service(address)?,
                1 => work.by_threads(&engine, &tokenizer)?,
                _ => work.by_task(&engine, &tokenizer)?,
            }
            let (seconds, cpu) = (begin.elapsed().as_secs_f64(), computed()? - before);
            let name = ["service", "threads", "task"][side];
            println!(
                "{}",
                json!({
                    "side": name, "round": round, "seconds": short(seconds), "cpu_seconds": short(cpu),
                    "warm_up": round == 0
                })
            );
            if round > 0 {
                times[side].push(seconds);
                work_times[side].push(cpu);
            }
        }
    }
    let ratio = |times: &[Vec<f64>; 3], other: usize| {
        let pairs = times[other].iter().zip(&times[0]);
        let ratios: Vec<f64> = pairs.map(|(other, service)| other / service).collect();
        short(median(&ratios))
    };
    let [service, threads, task] = [0, 1, 2].map(|side| median(&times[side]));
    println!(
        "{}",
        json!({
            "queries": queries, "documents": documents, "rounds": rounds, "service_seconds": short(service),
            "threads_seconds": short(threads), "task_seconds": short(task), "of_threads": ratio(&times, 1), "of_task": ratio(&times, 2),
            "cpu_of_threads": ratio(&work_times, 1), "cpu_of_task": ratio(&work_times, 2),
        })
    );
    drop(stop);
    thread.join().map_err(|_| "the service gave up")?;
    Ok(())
}
