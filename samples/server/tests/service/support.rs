//! A service on a port of its own, and a client that says exactly what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use prefix::{Engine, Options, Tokenizer};
use prefix_server::app::App;
use prefix_server::config::Config;
use prefix_server::{router, serve};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The small real model; `tools/run_tests models` fetches it.
pub fn model() -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let path = PathBuf::from(root).join("build/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let missing = "is missing: run tools/run_tests models";
    assert!(path.exists(), "{} {missing}", path.display());
    path
}

pub fn engine() -> &'static (Engine, Tokenizer) {
    static OPEN: OnceLock<(Engine, Tokenizer)> = OnceLock::new();
    OPEN.get_or_init(|| {
        let options = Options::new().unwrap().set("cache_bytes", "1G").unwrap();
        open(options)
    })
}

/// An engine that a test has for itself.
pub fn open(options: Options) -> (Engine, Tokenizer) {
    let engine = Engine::open_with(model(), &options).unwrap();
    (engine, Tokenizer::open(model()).unwrap())
}

pub fn all<T>(items: Vec<prefix::Result<T>>) -> Vec<T> {
    items.into_iter().map(Result::unwrap).collect()
}

/// A file of the tiny models of random numbers; `tools/run_tests models` makes them.
pub fn golden(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    PathBuf::from(root).join("build/golden-models").join(name)
}

pub struct Service {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Services of a test program share this engine; each has a port, limits and numbers of its own.
pub fn start(change: impl FnOnce(&mut Config)) -> Service {
    start_with(engine().clone(), change)
}

pub fn start_with(
    (engine, tokenizer): (Engine, Tokenizer),
    change: impl FnOnce(&mut Config),
) -> Service {
    let mut config = Config::new(model());
    config.name = "small".into();
    config.drain = Duration::from_secs(120);
    change(&mut config);
    let app = App::new(engine, tokenizer, config).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, address) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let stop = async move {
                let _ = stopped.await;
            };
            serve::serve(listener, router::router(app.clone()), app, stop).await;
        });
    });
    Service {
        address: address.recv().unwrap(),
        stop: Some(stop),
        thread: Some(thread),
    }
}

impl Service {
    /// As SIGTERM does; ready at once.
    pub fn tell_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Returns when everything is answered.
    pub fn wait(mut self) {
        self.tell_to_stop();
        self.thread.take().unwrap().join().unwrap();
    }

    pub fn get(&self, path: &str) -> Answer {
        self.open("GET", path, &[], "").answer()
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.open("POST", path, &[], &body.to_string()).answer()
    }

    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.open("POST", path, headers, &body.to_string()).answer()
    }

    /// Sends a request and reads nothing yet.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Call {
        let mut call = self.begin(method, path, headers, body.len());
        call.send(body);
        call
    }

    /// Sends the head of a request whose body has this length.
    pub fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: usize) -> Call {
        let stream = TcpStream::connect(self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {body}\r\n\r\n");
        let mut call = Call(BufReader::new(stream));
        call.send(&head);
        call
    }

    /// One number of /metrics.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            let done = thread.join();
            assert!(done.is_ok() || std::thread::panicking());
        }
    }
}

pub struct Call(BufReader<TcpStream>);

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: String,
    pub body: String,
}

impl Call {
    pub fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the head of the answer: the code, and the headers in lower case.
    pub fn head(&mut self) -> (u16, String) {
        let mut lines = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).unwrap() > 0,
                "closed after {lines:?}"
            );
            if line == "\r\n" {
                let code = lines.split(' ').nth(1).unwrap().parse().unwrap();
                return (code, lines.to_lowercase());
            }
            lines += &line;
        }
    }

    pub fn answer(mut self) -> Answer {
        let (code, headers) = self.head();
        let body = self.rest(&headers);
        Answer {
            code,
            headers,
            body,
        }
    }

    /// The body, to its end.
    pub fn rest(mut self, headers: &str) -> String {
        let mut bytes = Vec::new();
        if !headers.contains("transfer-encoding: chunked") {
            self.0.read_to_end(&mut bytes).unwrap();
            return String::from_utf8(bytes).unwrap();
        }
        loop {
            let mut size = String::new();
            self.0.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).expect("the stream was cut off");
            let mut part = vec![0; size + 2];
            self.0.read_exact(&mut part).unwrap();
            if size == 0 {
                return String::from_utf8(bytes).unwrap();
            }
            bytes.extend_from_slice(&part[..size]);
        }
    }
}

impl Answer {
    /// The body of an answer with this code.
    pub fn json(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// What a stream says, without its last line.
    pub fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.code, 200, "{}", self.body);
        assert!(
            self.headers
                .contains("\r\ncontent-type: text/event-stream; charset=utf-8\r\n"),
            "{}",
            self.headers
        );
        let lines: Vec<&str> = self
            .body
            .split("\n\n")
            .filter(|line| !line.is_empty())
            .collect();
        let (last, chunks) = lines.split_last().unwrap();
        assert_eq!(*last, "data: [DONE]");
        let value =
            |line: &&str| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        chunks.iter().map(value).collect()
    }
}
